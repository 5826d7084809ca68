from vegakit import Agent, AgentFailed, Failed, parallel, program, session, spawn, vega

reviewer = Agent("reviewer", model="fast")


@program
def main(n: int) -> None:
    try:
        print(reviewer("x"))
    except* AgentFailed:
        print("failed")
