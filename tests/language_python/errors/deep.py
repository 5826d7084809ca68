# The way down is told, call by call.
from vegakit import program, vega


def a(n: int) -> int:
    return b(n) + 1  # through: a


def b(n: int) -> int:
    items = [1]
    return vega.at(items, n)  # error: IndexError


@program
def main() -> None:
    print(a(0))  # expect: 2
    print(a(4))  # through: main
