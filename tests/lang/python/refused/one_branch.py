from vegakit import Agent, AgentFailed, Failed, parallel, program, session, spawn, vega

reviewer = Agent("reviewer", model="fast")


@program
def main(n: int) -> None:
    if n > 1:
        size = 2
    print(size)
