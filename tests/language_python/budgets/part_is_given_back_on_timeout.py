# Also when time ran out in the middle of a tool that asked somebody.
# budget: $1.00
# reply "outer": {"calls": [{"name": "ask", "arguments": {"q": "inner"}}]}
# reply "inner": late
# latency: 2s
from vegakit import Agent, Timeout, program, vega

Inner = Agent("Inner", model="fast", max_tokens=10)


@program.tool()
def ask(q: str) -> str:
    "Ask."
    return Inner(q)


Outer = Agent("Outer", model="fast", max_tokens=10, tools=[ask])


@program
def main() -> None:
    try:
        print(Outer.ask("outer", timeout="3s"))
    except Timeout:
        print("late")  # expect: late
    vega.process.sleep("1m")
    print(vega.text(vega.budget.used() + vega.budget.remaining()))  # expect: $1.00
