# Each call has its own variables.
from vegakit import program, vega


def count(n: int) -> list[int]:
    mine = n
    rest: list[int] = []
    if n > 0:
        rest = count(n - 1)
    return rest + [mine]


@program
def main() -> None:
    print(vega.text(count(3)))  # expect: [0,1,2,3]
