from typing import Literal

from vegakit import program

Two = Literal["a", "b"]

Three = Literal["a", "b", "c"]


def show(x: Three) -> None:
    print(x)


@program
def main() -> None:
    two: Two = "b"
    show(two)  # expect: b
