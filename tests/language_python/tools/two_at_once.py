# The calls of one answer run at once.
# reply: {"calls": [{"name": "slow", "arguments": {"n": 1}}, {"name": "slow", "arguments": {"n": 2}}]}
# reply: both done
from vegakit import Agent, program, vega


@program.tool()
def slow(n: int) -> str:
    "Slow."
    vega.process.sleep("2s")
    return f"{n}"


A = Agent("A", model="fast", tools=[slow])


@program
def main() -> None:
    print(A("go"))  # expect: both done


# expect time: 2s
