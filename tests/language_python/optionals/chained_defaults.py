from vegakit import program, vega


@program
def main() -> None:
    a: int | None = None
    b: int | None = None
    print(vega.default(a if a is not None else b, 3))  # expect: 3
    b = 2
    print(vega.default(a if a is not None else b, 3))  # expect: 2
