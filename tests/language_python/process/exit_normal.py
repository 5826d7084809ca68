# A normal exit ends the program without an error.
from vegakit import program, vega


@program
def main() -> None:
    print("before")  # expect: before
    vega.process.exit("normal")
    print("never")  # warning: unreachable
