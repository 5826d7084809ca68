from vegakit import Agent, AgentFailed, Failed, parallel, program, session, spawn, vega

reviewer = Agent("reviewer", model="fast")


@program
def main(word: str | None) -> None:
    print(word)
