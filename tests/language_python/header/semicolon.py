# file: a.txt = "t"
from vegakit import program, vega


@program(may=["fs::read"])
def main() -> None:
    print(vega.file.read("a.txt"))  # expect: t
