# Numbers, strings, money and durations have an order.
from vegakit import program, vega


@program
def main() -> None:
    print(vega.text(1 < 2))  # expect: true
    print(vega.text(2 <= 2))  # expect: true
    print(vega.text(3 > 4))  # expect: false
    print(vega.text("a" < "b"))  # expect: true
    print(vega.text(vega.money("$1.50") >= vega.money("$1.50")))  # expect: true
    print(vega.text(vega.duration("90s") > vega.duration("1m")))  # expect: true
    print(vega.text(1.0 < 1.5))  # expect: true
