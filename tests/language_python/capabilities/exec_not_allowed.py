# A command has to be named.
from vegakit import CapabilityDenied, program, vega


@program(may=["process::exec"], allowed_commands=["true"])
def main() -> None:
    try:
        print(vega.exec("rm -rf ."))
    except CapabilityDenied:
        print("denied")  # expect: denied
