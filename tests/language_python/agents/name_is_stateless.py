# Each send to an agent's name is a conversation of its own, so the bill does not grow.
# reply: a b
# reply: a b
from vegakit import Agent, program, vega

A = Agent("A", model="fast")


@program
def main() -> None:
    first = A("one two")
    before = vega.budget.used()
    second = A("one two")
    print(vega.text(vega.budget.used() == before * 2))  # expect: true
    print(vega.text(first == second))  # expect: true
