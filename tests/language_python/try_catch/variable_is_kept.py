# A send that fails leaves the variable it was to set as it was.
# reply: {"error": "rejected"}
from vegakit import Agent, AgentFailed, program

A = Agent("A", model="fast")


@program
def main() -> None:
    answer = "before"
    try:
        answer = A("go")
    except AgentFailed:
        print(answer)  # expect: before
