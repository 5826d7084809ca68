# Money is exact.
from vegakit import program, vega


@program
def main() -> None:
    print(vega.text(vega.money("$0.10") + vega.money("$0.20")))  # expect: $0.30
    print(
        vega.text(vega.money("$0.10") + vega.money("$0.20") == vega.money("$0.30"))
    )  # expect: true
    print(vega.text(vega.money("$1.00") - vega.money("$0.01")))  # expect: $0.99
    print(vega.text(vega.money("$1.50") * 2))  # expect: $3.00
    print(vega.text(3 * vega.money("$0.50")))  # expect: $1.50
