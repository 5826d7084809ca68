# A wallet inside a session is a part of the session.
# budget: $9.00
from vegakit import Agent, BudgetExceeded, program, session, spawn, vega

A = Agent("A", model="fast")


@program
def main() -> None:
    with session(budget="$2.00"):
        _a = spawn(A, wallet="$1.50")
        print(vega.text(vega.budget.remaining()))  # expect: $0.50
        try:
            _b = spawn(A, wallet="$1.00")
        except BudgetExceeded:
            print("too poor")  # expect: too poor
