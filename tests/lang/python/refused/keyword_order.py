from vegakit import Agent, AgentFailed, Failed, parallel, program, session, spawn, vega

reviewer = Agent("reviewer", model="fast")


def both(a: str, b: str) -> str:
    return a + b


@program
def main() -> None:
    print(both(b=reviewer("1"), a=reviewer("2")))
