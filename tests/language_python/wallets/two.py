# budget: $3.00
from vegakit import Agent, BudgetExceeded, program, spawn

A = Agent("A", model="fast")


@program
def main() -> None:
    a = spawn(A, wallet="$2.00")
    try:
        b = spawn(A, wallet="$2.00")
        print(b("never"))
    except BudgetExceeded:
        print("too poor")  # expect: too poor
    # reply: one
    print(a("hi"))  # expect: one
