from vegakit import Agent, AgentFailed, Failed, parallel, program, session, spawn, vega

reviewer = Agent("reviewer", model="fast")


@program
def main(d: dict[str, int]) -> None:
    print(vega.text(vega.default(d.get("k"), 0) / 2))
