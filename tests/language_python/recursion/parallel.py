# Tasks may call what makes tasks.
from vegakit import parallel, program, vega


def sum_(items: list[int]) -> int:
    if len(items) == 0:
        return 0
    if len(items) == 1:
        return items[0]
    half = len(items) // 2
    with parallel():
        left = sum_(vega.list.take(items, half))
        right = sum_(vega.list.drop(items, half))
    return left + right


@program
def main() -> None:
    print(sum_([1, 2, 3, 4, 5]))  # expect: 15
