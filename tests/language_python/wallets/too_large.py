# A child's wallet is a part of its parent's.
# budget: $1.00
from vegakit import Agent, program, spawn

A = Agent("A", model="fast")


@program
def main() -> None:
    a = spawn(A, wallet="$2.00")  # error: BudgetExceeded
    print(a("hi"))
