# When the send is over, all that its part did not spend is back.
# budget: $1.00
# reply "outer": {"calls": [{"name": "ask", "arguments": {"q": "inner"}}]}
# reply "inner": deep
# reply "outer": done
from vegakit import Agent, program, vega

Inner = Agent("Inner", model="fast", max_tokens=10)


@program.tool()
def ask(q: str) -> str:
    "Ask."
    return Inner(q)


Outer = Agent("Outer", model="fast", max_tokens=10, budget="$0.60", tools=[ask])


@program
def main() -> None:
    for i in range(1):
        Outer("outer")
    print(vega.text(vega.budget.used() + vega.budget.remaining()))  # expect: $1.00
    print(vega.text(vega.budget.used() < vega.money("$0.001")))  # expect: true
