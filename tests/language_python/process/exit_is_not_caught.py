# An exit is no error: no handler sees it.
from vegakit import program, vega


@program
def main() -> None:
    print("before")  # expect: before
    try:
        vega.process.exit("normal")
    except Exception:
        print("never")
    print("never")
