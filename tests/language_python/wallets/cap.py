# A wallet caps the whole life of a process.
# reply: a
# reply: b
# reply: never
from vegakit import Agent, BudgetExceeded, program, spawn

A = Agent("A", model="fast", max_tokens=100)


@program
def main() -> None:
    a = spawn(A, wallet="$0.00051")
    print(a("x"))  # expect: a
    print(a("x"))  # expect: b
    try:
        print(a("x"))
    except BudgetExceeded:
        print("empty")  # expect: empty
