from vegakit import Agent, AgentFailed, Failed, parallel, program, session, spawn, vega

reviewer = Agent("reviewer", model="fast")


@program
def main() -> None:
    for n in [1]:
        print(n)
    else:
        print(0)
