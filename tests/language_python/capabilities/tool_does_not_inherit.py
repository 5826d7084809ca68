# A tool has its own rights only, not those of the file.
# file: a.txt = "x"
from vegakit import CapabilityDenied, program, vega


@program.tool()
def peek() -> str:
    "Peek."
    return vega.file.read("a.txt")  # warning: missing-capability


@program(may=["fs::read"])
def main() -> None:
    try:
        print(peek())
    except CapabilityDenied:
        print("denied")  # expect: denied
