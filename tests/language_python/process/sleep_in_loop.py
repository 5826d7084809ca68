from vegakit import program, vega


@program
def main() -> None:
    n = 0
    while n < 3:
        vega.process.sleep("1m")
        n += 1
    print(n)  # expect: 3


# expect time: 3m
