from vegakit import Agent, AgentFailed, Failed, parallel, program, session, spawn, vega

reviewer = Agent("reviewer", model="fast")


@program
def main(x: dict[str, bool]) -> None:
    print(f"{vega.default(x.get('a'), False)}")
