from vegakit import program, vega


def even(n: int) -> bool:
    if n == 0:
        return True
    return odd(n - 1)


def odd(n: int) -> bool:
    if n == 0:
        return False
    return even(n - 1)


@program
def main() -> None:
    print(vega.text(even(10)))  # expect: true
    print(vega.text(odd(7)))  # expect: true
