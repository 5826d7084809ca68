# When time runs out the tools under way stop, too.
# reply: {"calls": [{"name": "slow", "arguments": {}}]}
from vegakit import Agent, Timeout, program, vega


@program.tool()
def slow() -> str:
    "Slow."
    vega.process.sleep("1h")
    print("never")
    return "x"


A = Agent("A", model="fast", tools=[slow])


@program
def main() -> None:
    try:
        print(A.ask("go", timeout="2s"))
    except Timeout:
        print("late")  # expect: late
    vega.process.sleep("2h")
    print("end")  # expect: end
