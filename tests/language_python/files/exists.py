# file: there.txt = ""
from vegakit import program, vega


@program(may=["fs::read"])
def main() -> None:
    print(vega.text(vega.file.exists("there.txt")))  # expect: true
    print(vega.text(vega.file.exists("gone.txt")))  # expect: false
