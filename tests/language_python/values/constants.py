# A fixed number may be below zero, at the top of the file and as a default.
from vegakit import program

LIMIT = -3
LOW: float = -2.5
LEAST = -9223372036854775808


def scaled(a: int = -1, b: float = -0.5) -> float:
    return a * b


@program
def main() -> None:
    print(scaled(), scaled(LIMIT), LOW, 5 - LIMIT)  # expect: 0.5 1.5 -2.5 8
    print(LEAST, LEAST + 1)  # expect: -9223372036854775808 -9223372036854775807
