from vegakit import program, vega


def first_above(items: list[int], least: int) -> int | None:
    for x in items:
        if x > least:
            return x
    return None


@program
def main() -> None:
    print(vega.default(first_above([1, 5, 9], 3), -1))  # expect: 5
    print(vega.default(first_above([1], 3), -1))  # expect: -1
