from vegakit import LimitReached, program, vega


def rounds(most: int) -> int:
    n = 0
    try:
        while vega.limit(most, True):
            n += 1
    except LimitReached:
        return n
    return -1


@program
def main() -> None:
    print(rounds(7))  # expect: 7
    print(rounds(0))  # expect: 0
