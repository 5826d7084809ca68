# Six decimals are kept.
from vegakit import program, vega


@program
def main() -> None:
    tiny = vega.money("$0.000001")
    print(vega.text(tiny * 1000000))  # expect: $1.00
    print(vega.text(tiny == vega.money("$0.000002") / 2))  # expect: true
    print(vega.text(tiny < vega.money("$0.000002")))  # expect: true
