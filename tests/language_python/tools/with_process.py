# Of a process with memory, too.
# reply: {"calls": [{"name": "now", "arguments": {}}]}
# reply: noon
# reply: still noon
from vegakit import Agent, program, spawn


@program.tool()
def now() -> str:
    "The time."
    return "12:00"


A = Agent("A", model="fast", memory="conversation", tools=[now])


@program
def main() -> None:
    a = spawn(A)
    print(a("time?"))  # expect: noon
    print(a("and now?"))  # expect: still noon
