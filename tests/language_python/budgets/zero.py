from vegakit import BudgetExceeded, program, session, vega


@program
def main() -> None:
    m = vega.money("$0.00")
    try:
        with session(budget=m):
            print(vega.text(vega.budget.limit()))  # expect: $0.00
    except BudgetExceeded:
        print("never")
