# After the same failure again and again the turn ends.
# reply: {"calls": [{"name": "bad", "arguments": {}}]}
# reply: {"calls": [{"name": "bad", "arguments": {}}]}
# reply: {"calls": [{"name": "bad", "arguments": {}}]}
# reply: {"calls": [{"name": "bad", "arguments": {}}]}
# reply: {"calls": [{"name": "bad", "arguments": {}}]}
# reply: {"calls": [{"name": "bad", "arguments": {}}]}
from vegakit import Agent, Failed, ToolFailed, program, vega


@program.tool()
def bad() -> str:
    "Bad."
    raise Failed("broken")


A = Agent("A", model="fast", tools=[bad])


@program
def main() -> None:
    try:
        print(A("go"))
    except ToolFailed as reason:
        print(vega.text(vega.str.contains(str(reason), "broken")))  # expect: true
