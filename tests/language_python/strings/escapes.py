# Escapes, and braces that are meant.
from vegakit import program


@program
def main() -> None:
    print("a\tb")  # expect: a	b
    print('say "hi"')  # expect: say "hi"
    print("{not this}")  # expect: {not this}
    print("back\\slash")  # expect: back\slash
    print("été")  # expect: été
