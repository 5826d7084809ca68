from vegakit import Agent, AgentFailed, Failed, parallel, program, session, spawn, vega

reviewer = Agent("reviewer", model="fast")


PATHS = [1, 2]


@program
def main() -> None:
    print(1)
