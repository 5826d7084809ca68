# A choice is a string where a string is asked for.
from typing import Literal

from vegakit import program


@program
def main() -> None:
    s: Literal["low", "high"] = "low"
    text: str = s
    print(text + "!")  # expect: low!
    print(s.upper())  # expect: LOW
