from vegakit import program


@program
def main() -> None:
    prices = [0.5, 0.25, 1.0]
    none: list[float] = []
    print(f"{sum(prices, 0.0)} and {sum(none, 0.0)}")  # expect: 1.75 and 0.0
    print(f"{sum([p * 2.0 for p in prices], 0.0)}, {1e16}, {0.00001}")  # expect: 3.5, 1e+16, 1e-05
    print(sum([1, 2]), sum(list(range(0))))  # expect: 3 0
