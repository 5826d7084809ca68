from vegakit import Agent, AgentFailed, Failed, parallel, program, session, spawn, vega

reviewer = Agent("reviewer", model="fast")


def add(*numbers: int) -> int:
    return 1


@program
def main() -> None:
    print(add())
