from vegakit import Agent, AgentFailed, Failed, parallel, program, session, spawn, vega

reviewer = Agent("reviewer", model="fast")


@program
def main(n: int) -> None:
    if 0 < reviewer.ask("How many?", returns=int) < n:
        print("few")
