# Nothing outside the project is reached.
from vegakit import CapabilityDenied, program, vega


@program(may=["fs::read"])
def main() -> None:
    try:
        print(vega.file.read("../../etc/passwd"))
    except CapabilityDenied:
        print("denied")  # expect: denied
