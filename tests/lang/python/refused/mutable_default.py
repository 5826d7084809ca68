from vegakit import Agent, AgentFailed, Failed, parallel, program, session, spawn, vega

reviewer = Agent("reviewer", model="fast")


def add(xs: list[int] = []) -> int:
    return len(xs)


@program
def main() -> None:
    print(add())
