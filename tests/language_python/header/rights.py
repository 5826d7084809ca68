# The header gives rights to the statements of the file.
# file: src/a.txt = "in"
from vegakit import program, vega


@program(may=["fs::read"], allowed_paths=["src/**"])
def main() -> None:
    print(vega.file.read("src/a.txt"))  # expect: in
