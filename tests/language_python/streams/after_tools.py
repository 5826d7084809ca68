# Of an agent with tools one gets the pieces of its answer.
# reply: {"calls": [{"name": "look", "arguments": {}}]}
# reply: I saw it
from vegakit import Agent, program


@program.tool()
def look() -> str:
    "Look."
    return "it"


A = Agent("A", model="fast", tools=[look])


@program
def main() -> None:
    for chunk in A.stream("x"):
        print(f"[{chunk}]")


# expect: [I]
# expect: [ saw]
# expect: [ it]
