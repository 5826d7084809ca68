# file: a.txt = "3"
# file: b.txt = "4"
from vegakit import program, vega


@program(may=["fs::read"])
def main() -> None:
    total = 0
    for name in ["a.txt", "b.txt"]:
        total += int(vega.file.read(name))
    print(total)  # expect: 7
