# What a tool of the agent asks others counts in its day, too: with it the last call does not fit.
# reply "ask": {"calls": [{"name": "look", "arguments": {"what": "a"}}], "usage": {"input_tokens": 100, "output_tokens": 100}}
# reply "a": {"text": "found", "usage": {"input_tokens": 100, "output_tokens": 100}}
# reply "b": {"text": "found", "usage": {"input_tokens": 100, "output_tokens": 100}}
from vegakit import Agent, BudgetExceeded, program


@program.tool()
def look(what: str) -> str:
    "Look for it."
    return Helper(what)


Helper = Agent("Helper", model="fast", max_tokens=200)

A = Agent("A", model="fast", max_tokens=200, budget="$0.0021/day", tools=[look])


@program
def main() -> None:
    try:
        print(A("ask"))
    except BudgetExceeded:
        print("no more today")  # expect: no more today
    print(Helper("b"))  # expect: found
# expect calls: 3
