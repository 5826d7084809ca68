# What a handler raises has the handler's line.
from vegakit import Failed, program, vega


def check(n: int) -> None:
    try:
        print(vega.quotient(10, n))
    except ArithmeticError as reason:
        why = vega.reason(reason)
        raise Failed(f"bad input: {why}")  # error: Failed: bad input: division by zero


@program
def main() -> None:
    check(0)
