# The functions of `math`.
from vegakit import program, vega


@program
def main() -> None:
    print(abs(-3))  # expect: 3
    print(min(2, 5))  # expect: 2
    print(vega.text(max(2.5, 1.0)))  # expect: 2.5
    print(vega.math.floor(-1.5))  # expect: -2
    print(vega.math.ceil(1.2))  # expect: 2
    print(vega.text(vega.math.round(2.5)))  # expect: 2.0
    print(vega.text(vega.math.round(3.14159, 2)))  # expect: 3.14
    print(vega.text(vega.math.sqrt(9.0)))  # expect: 3.0
    print(vega.text(vega.math.pow(2.0, 10.0)))  # expect: 1024.0
