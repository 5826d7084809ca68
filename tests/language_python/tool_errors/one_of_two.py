# The other call of the answer is not harmed.
# reply: {"calls": [{"name": "div", "arguments": {"n": 0}}, {"name": "div", "arguments": {"n": 2}}]}
# reply: half
from vegakit import Agent, program, vega


@program.tool()
def div(n: int) -> int:
    "Ten by n."
    r = vega.quotient(10, n)
    print(r)  # expect: 5
    return r


A = Agent("A", model="fast", tools=[div])


@program
def main() -> None:
    print(A("go"))  # expect: half
