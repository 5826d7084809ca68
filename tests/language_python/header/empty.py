# An empty list is none.
from vegakit import program


@program(may=[])
def main() -> None:
    print("fine")  # expect: fine
