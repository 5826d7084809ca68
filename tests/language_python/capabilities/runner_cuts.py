# What the runner does not allow is denied, whatever the source says.
# file: a.txt = "hello"
# allow: fs::write
from vegakit import CapabilityDenied, program, vega


@program(may=["fs::read"])
def main() -> None:
    try:
        print(vega.file.read("a.txt"))
    except CapabilityDenied:
        print("denied")  # expect: denied
