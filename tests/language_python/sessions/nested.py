# An inner session is a part of the outer one.
# budget: $10.00
from vegakit import BudgetExceeded, program, session, vega


@program
def main() -> None:
    with session(budget="$3.00"):
        with session(budget="$2.00"):
            print(vega.text(vega.budget.remaining()))  # expect: $2.00
        print(vega.text(vega.budget.remaining()))  # expect: $3.00
        try:
            with session(budget="$4.00"):
                print("never")
        except BudgetExceeded:
            print("too much")  # expect: too much
