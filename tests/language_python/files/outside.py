# Nothing outside the project is reached.
from vegakit import CapabilityDenied, program, vega


@program(may=["fs::read"])
def main() -> None:
    path = "../../etc/passwd"
    try:
        print(vega.file.read(path))
    except CapabilityDenied:
        print("denied")  # expect: denied
