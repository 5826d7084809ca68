# Functions without `may` have the rights of the file.
# file: a.txt = "text"
from vegakit import program, vega


@program.function(may=["fs::read"])
def read() -> str:
    return vega.file.read("a.txt")


@program(may=["fs::read"])
def main() -> None:
    print(read())  # expect: text
