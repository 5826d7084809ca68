# One that is held in the returned value lives on, the other ends.
# budget: $9.00
from vegakit import Agent, program, spawn, vega

A = Agent("A", model="fast")


def f() -> vega.Process:
    _a = spawn(A, wallet="$2.00")
    b = spawn(A, wallet="$3.00")
    return b


@program
def main() -> None:
    b = f()
    print(vega.text(vega.budget.remaining()))  # expect: $6.00
    print(vega.text(len(f"{vega.text(b)}") > 0))  # expect: true
