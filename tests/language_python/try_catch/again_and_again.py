# A retry written by hand.
# reply: {"error": "rejected"}
# reply: {"error": "rejected"}
# reply: third time
from vegakit import Agent, AgentFailed, program, vega

A = Agent("A", model="fast")


def attempt() -> str | None:
    try:
        answer = A("go")
        return answer
    except AgentFailed:
        return None


@program
def main() -> None:
    answer = attempt()
    tries = 1
    while vega.limit(5, answer is None):
        answer = attempt()
        tries += 1
    print(f"{answer} after {tries}")  # expect: third time after 3
