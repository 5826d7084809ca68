from vegakit import program, vega


@program
def main() -> None:
    try:
        print(vega.text(vega.money("$1.00") / 0))
    except ArithmeticError as reason:
        print(vega.reason(reason))  # expect: division by zero
    nothing = vega.money("$0.00")
    print(vega.text(vega.money("$1.00") / nothing))  # error: ArithmeticError: division by zero
