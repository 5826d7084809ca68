from vegakit import Agent, AgentFailed, Failed, parallel, program, session, spawn, vega

reviewer = Agent("reviewer", model="fast")


async def helper() -> None:
    print(1)


@program
def main() -> None:
    print(1)
