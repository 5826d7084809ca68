# What is spent inside is spent outside.
# budget: $1.00
# reply: one two
from vegakit import Agent, program, session, vega

A = Agent("A", model="fast", max_tokens=100)


@program
def main() -> None:
    with session(budget="$0.10"):
        A("hi")
        print(vega.text(vega.budget.used() == vega.money("$0.000011")))  # expect: true
    print(vega.text(vega.budget.used() == vega.money("$0.000011")))  # expect: true
    print(
        vega.text(vega.budget.remaining() == vega.money("$1.00") - vega.money("$0.000011"))
    )  # expect: true
