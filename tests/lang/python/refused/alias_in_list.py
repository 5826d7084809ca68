from vegakit import Agent, AgentFailed, Failed, parallel, program, session, spawn, vega

reviewer = Agent("reviewer", model="fast")


@program
def main() -> None:
    xs = [1]
    all_of_it = [xs]
    xs.append(2)
    print(len(all_of_it))
