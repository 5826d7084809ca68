from vegakit import Agent, AgentFailed, Failed, parallel, program, session, spawn, vega

reviewer = Agent("reviewer", model="fast")


@program
def main() -> None:
    try:
        reviewer("hi")
    except AgentFailed as e:
        last = e
        print(1)
