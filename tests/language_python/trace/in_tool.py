# reply: {"calls": [{"name": "look", "arguments": {}}]}
# reply: done
from vegakit import Agent, program, vega


@program.tool()
def look() -> str:
    "Look."
    vega.trace.event("looking")
    return "ok"


A = Agent("A", model="fast", tools=[look])


@program
def main() -> None:
    print(A("go"))  # expect: done


# expect note: event looking
