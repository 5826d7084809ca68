# The wallet is set aside when the process is spawned.
# budget: $3.00
from vegakit import Agent, program, spawn, vega

A = Agent("A", model="fast")


@program
def main() -> None:
    a = spawn(A, wallet="$2.00")
    print(vega.text(vega.budget.remaining()))  # expect: $1.00
    vega.link(a, a)
