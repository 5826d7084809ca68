# reply: {"calls": [{"name": "div", "arguments": {"n": 0}}]}
# reply: fine
from vegakit import Agent, program, vega


@program.tool()
def div(n: int) -> int:
    "Ten by n."
    try:
        return vega.quotient(10, n)
    except ArithmeticError:
        print("saved")  # expect: saved
        return 0


A = Agent("A", model="fast", tools=[div])


@program
def main() -> None:
    print(A("go"))  # expect: fine
