# Leaving a session by `break` closes it: the outer budget is the innermost again.
# budget: $5.00
from vegakit import program, session, vega


@program
def main() -> None:
    for i in range(3):
        with session(budget="$1.00"):
            print(vega.text(vega.budget.limit()))  # expect: $1.00
            break
    print(vega.text(vega.budget.limit()))  # expect: $5.00
