from vegakit import Agent, AgentFailed, Failed, parallel, program, session, spawn, vega

reviewer = Agent("reviewer", model="fast")


@program
def main() -> None:
    xs = [1]
    ys = xs
    ys.append(2)
    print(len(xs))
