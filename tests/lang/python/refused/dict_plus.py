from vegakit import Agent, AgentFailed, Failed, parallel, program, session, spawn, vega

reviewer = Agent("reviewer", model="fast")


@program
def main() -> None:
    both = {"a": 1} + {"b": 2}
    print(len(both))
