# Money by a number is money; money by money is a number.
from vegakit import program, vega


@program
def main() -> None:
    print(vega.text(vega.money("$1.00") / 4))  # expect: $0.25
    print(vega.text(vega.money("$3.00") / vega.money("$1.50")))  # expect: 2.0
    print(vega.text(vega.money("$1.00") * 0.5))  # expect: $0.50
    print(vega.text(vega.remainder(vega.money("$5.00"), vega.money("$2.00"))))  # expect: $1.00
