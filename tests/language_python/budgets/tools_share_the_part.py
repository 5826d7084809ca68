# What a tool asks of others is capped by the budget of the send that called it.
# reply "outer": {"calls": [{"name": "ask", "arguments": {"q": "inner"}}]}
# reply "outer": done
from vegakit import Agent, BudgetExceeded, program, vega

Dear = Agent("Dear", model="fast", max_tokens=10000)


@program.tool()
def ask(q: str) -> str:
    "Ask."
    print(vega.text(vega.budget.limit()))  # expect: $0.01
    try:
        return Dear(q)
    except BudgetExceeded:
        print("too dear")  # expect: too dear
        return "no"


Outer = Agent("Outer", model="fast", max_tokens=10, budget="$0.01", tools=[ask])


@program
def main() -> None:
    print(Outer("outer"))  # expect: done


# expect calls: 2
