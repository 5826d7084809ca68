# The text of a bool is Python's wherever its type is seen.
from dataclasses import dataclass

from vegakit import program


@dataclass
class Light:
    is_on: bool


def ok() -> bool:
    return True


@program
def main() -> None:
    seen = {"a": False}
    light = Light(True)
    print(ok(), seen["a"], light.is_on)  # expect: True False True
    print(f"{ok()} {not ok()}")  # expect: True False
