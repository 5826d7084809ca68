from vegakit import Agent, AgentFailed, Failed, parallel, program, session, spawn, vega

reviewer = Agent("reviewer", model="fast")


@program
def main(xs: list[int]) -> None:
    xs.append(2)
    print(len(xs))
