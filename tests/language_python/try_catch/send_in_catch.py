# reply "one": {"error": "rejected"}
# reply "two": fallback
from vegakit import Agent, AgentFailed, program

A = Agent("A", model="fast")


@program
def main() -> None:
    answer = ""
    try:
        answer = A("one")
    except AgentFailed:
        answer = A("two")
    print(answer)  # expect: fallback
