# Agents that ask themselves through tools are bounded in depth, not endless.
# reply "go": {"calls": [{"name": "again", "arguments": {}}]}
# reply "go": {"calls": [{"name": "again", "arguments": {}}]}
# reply "go": {"calls": [{"name": "again", "arguments": {}}]}
# reply "go": {"calls": [{"name": "again", "arguments": {}}]}
# reply "go": enough
# reply "go": enough
# reply "go": enough
# reply "go": enough
# reply "go": enough
from vegakit import Agent, program


@program.tool()
def again() -> str:
    "Again."
    return A("go")


A = Agent("A", model="fast", max_tokens=10, tools=[again])


@program
def main() -> None:
    print(A("go"))  # expect: enough
