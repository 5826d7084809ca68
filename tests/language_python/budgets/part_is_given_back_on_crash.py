# budget: $1.00
# reply "outer": {"calls": [{"name": "ask", "arguments": {"q": "inner"}}]}
# reply "inner": deep
# reply "outer": {"crash": "boom"}
# reply "outer": {"calls": [{"name": "ask", "arguments": {"q": "inner"}}]}
# reply "inner": deep
# reply "outer": done
from vegakit import Agent, program, vega

Inner = Agent("Inner", model="fast", max_tokens=10)


@program.tool(idempotent=True)
def ask(q: str) -> str:
    "Ask."
    return Inner(q)


Outer = Agent("Outer", model="fast", max_tokens=10, tools=[ask])


@program
def main() -> None:
    print(Outer("outer"))  # expect: done
    print(vega.text(vega.budget.used() + vega.budget.remaining()))  # expect: $1.00
