# A restarted process has the wallet of its earlier lives: with what the crash cost, it is empty.
# reply: a
# reply: b
# reply: never
from vegakit import Agent, BudgetExceeded, program, spawn

A = Agent("A", model="fast", max_tokens=100)


@program
def main() -> None:
    a = spawn(A, wallet="$0.00051")
    a("x")
    a("x")
    try:
        a("x")
    except BudgetExceeded:
        print("one wallet for all lives")  # expect: one wallet for all lives
