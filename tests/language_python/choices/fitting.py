from typing import Literal

from vegakit import program

Severity = Literal["low", "high"]


def rank(s: Severity) -> int:
    if s == "high":
        return 2
    return 1


@program
def main() -> None:
    print(rank("high"))  # expect: 2
    print(rank("low"))  # expect: 1
