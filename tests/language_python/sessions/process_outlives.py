# A process that outlives the session it was spawned in spends from what is around it.
# budget: $1.00
# reply: one
# reply: two
from vegakit import Agent, program, session, spawn, vega

A = Agent("A", model="fast", max_tokens=10)


@program
def main() -> None:
    a: vega.Process | None = None
    with session(budget="$0.10"):
        b = spawn(A)
        print(b("x"))  # expect: one
        a = b
    if a is not None:
        print(a("y"))  # expect: two
    print(vega.text(vega.budget.used() == vega.money("$0.000012")))  # expect: true
