# After a test for null the value is there.
from vegakit import program


def shout(name: str | None) -> str:
    if name is not None:
        return name.upper()
    return "-"


@program
def main() -> None:
    print(shout("ada"))  # expect: ADA
    print(shout(None))  # expect: -
