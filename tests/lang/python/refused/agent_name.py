from vegakit import Agent, AgentFailed, Failed, parallel, program, session, spawn, vega

reviewer = Agent(model="fast")


@program
def main() -> None:
    print(1)
