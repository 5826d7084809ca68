# reply: {"calls": [{"name": "div", "arguments": {"n": 0}}]}
# reply: {"calls": [{"name": "div", "arguments": {"n": 5}}]}
# reply: two
from vegakit import Agent, program, vega


@program.tool()
def div(n: int) -> int:
    "Ten by n."
    return vega.quotient(10, n)


A = Agent("A", model="fast", tools=[div])


@program
def main() -> None:
    print(A("go"))  # expect: two


# expect calls: 3
