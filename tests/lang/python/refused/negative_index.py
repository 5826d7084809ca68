from vegakit import Agent, AgentFailed, Failed, parallel, program, session, spawn, vega

reviewer = Agent("reviewer", model="fast")


@program
def main(n: int) -> None:
    xs = [1, 2]
    xs[n] = 3
    print(xs[0])
