# A process that a tool spawned ends with the tool.
# reply "outer": {"calls": [{"name": "work", "arguments": {}}]}
# reply "inner": inside
# reply "outer": done
from vegakit import Agent, program, spawn

Helper = Agent("Helper", model="fast")


@program.tool()
def work() -> str:
    "Work."
    h = spawn(Helper)
    said = h("inner")
    print(said)  # expect: inside
    return said


A = Agent("A", model="fast", tools=[work])


@program
def main() -> None:
    print(A("outer"))  # expect: done
