# A loop that would never end raises at its limit, and the model sees that.
# reply: {"calls": [{"name": "spin", "arguments": {}}]}
# reply: stopped
from vegakit import Agent, program, vega


@program.tool()
def spin() -> int:
    "Spin."
    n = 0
    while vega.limit(50, True):
        n += 1
    return n


A = Agent("A", model="fast", tools=[spin])


@program
def main() -> None:
    print(A("go"))  # expect: stopped
