from vegakit import Agent, AgentFailed, Failed, parallel, program, session, spawn, vega

reviewer = Agent("reviewer", model="fast")


@program
def main(d: dict[str, list[int]], n: int) -> None:
    print(vega.default(d.get("k"), [1])[n])
