from vegakit import Agent, AgentFailed, Failed, parallel, program, session, spawn, vega

reviewer = Agent("reviewer", model="fast")


def add(a: int, b: int) -> int:
    return a + b


@program
def main() -> None:
    print(add(*[1, 2]))
