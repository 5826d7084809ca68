# `//`, `%` and `/` of ints are those of Python, also below zero.
from vegakit import program, vega


@program
def main() -> None:
    print(vega.quotient(-7, 2))  # expect: -3
    print(-7 // 2)  # expect: -4
    print(7 // -2)  # expect: -4
    print(7 // 2)  # expect: 3
    print(-7 % 3)  # expect: 2
    print(7 % -3)  # expect: -2
    print(7 / 2)  # expect: 3.5
    n = 0
    try:
        print(1 / n)
    except ArithmeticError as why:
        print(vega.reason(why))  # expect: division by zero
    try:
        print(1 // n)
    except ArithmeticError as why:
        print(vega.reason(why))  # expect: division by zero
    try:
        print(1 % n)
    except ArithmeticError as why:
        print(vega.reason(why))  # expect: division by zero
