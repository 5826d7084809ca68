# What is declared in the body is new in each round.
from vegakit import program, vega


@program
def main() -> None:
    for i in range(3):
        seen: list[int] = []
        seen.append(i)
        print(vega.text(seen))


# expect: [0]
# expect: [1]
# expect: [2]
