# Money has a type of its own.
from vegakit import program, vega


def half(amount: vega.Money) -> vega.Money:
    return amount / 2


@program
def main() -> None:
    total: vega.Money = half(vega.money("$3.00"))
    print(vega.text(total))  # expect: $1.50
    print(vega.text(float(total)))  # expect: 1.5
