# reply: {"error": "rejected"}
from vegakit import Agent, program

A = Agent("A", model="fast")


def ask(q: str) -> str:
    return A(q)  # error: AgentFailed


@program
def main() -> None:
    print(ask("hi"))
