# file: src/a.txt = "in"
# file: b.txt = "out"
from vegakit import CapabilityDenied, program, vega


@program(may=["fs::read"], allowed_paths=["src/**"])
def main() -> None:
    try:
        print(vega.file.read("b.txt"))
    except CapabilityDenied:
        print("denied")  # expect: denied
