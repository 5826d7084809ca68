# Paths, sorted, as file.read takes them.
# file: d/b.txt = "2"
# file: d/a.txt = "1"
# file: c.txt = "3"
from vegakit import program, vega


@program(may=["fs::read"])
def main() -> None:
    print(vega.text(vega.file.list("d")))  # expect: ["d/a.txt","d/b.txt"]
    for path in vega.file.list("d"):
        print(f"{vega.file.name(path)} {vega.file.read(path)}")
    # expect: a.txt 1
    # expect: b.txt 2
    print(vega.text(vega.file.list(".")))  # expect: ["c.txt","d"]
    print(vega.text(vega.file.list("d/")))  # expect: ["d/a.txt","d/b.txt"]
