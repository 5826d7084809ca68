from vegakit import Agent, AgentFailed, Failed, parallel, program, session, spawn, vega

reviewer = Agent("reviewer", model="fast")


@program
def main(x: float) -> None:
    print(x // 2.0)
