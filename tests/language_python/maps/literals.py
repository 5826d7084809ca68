from vegakit import program, vega


@program
def main() -> None:
    ages = {"Ada": 36, "Alan": 41}
    print(ages["Ada"])  # expect: 36
    print(len(ages))  # expect: 2
    print(vega.text(ages))  # expect: {"Ada":36,"Alan":41}
    empty: dict[str, int] = {}
    print(vega.text(empty))  # expect: {}
