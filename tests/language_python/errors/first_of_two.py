# The earlier send fails: its error is told, not that of the later.
# reply "one": {"error": "auth"}
# reply "two": {"error": "rate_limit"}
from vegakit import Agent, program

A = Agent("A", model="fast")


@program
def main() -> None:
    a = A("one")  # error: AgentFailed
    b = A("two")
    print(a + b)
