from vegakit import program, vega


@program
def main() -> None:
    print(
        vega.text(vega.list.sum([vega.money("$0.10"), vega.money("$0.20"), vega.money("$0.70")]))
    )  # expect: $1.00
    print(
        vega.text(sorted([vega.money("$3.00"), vega.money("$1.00")]))
    )  # expect: ["$1.00","$3.00"]
    print(vega.text(max(vega.money("$1.00"), vega.money("$2.00"))))  # expect: $2.00
