# answer: no
from vegakit import program, vega


@program
def main() -> None:
    if vega.human.approve("Delete all?", "1d"):
        print("never")
    else:
        print("kept")  # expect: kept
