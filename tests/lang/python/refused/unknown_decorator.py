from functools import cache
from vegakit import Agent, AgentFailed, Failed, parallel, program, session, spawn, vega

reviewer = Agent("reviewer", model="fast")


@cache
def twice(n: int) -> int:
    return n * 2


@program
def main() -> None:
    print(twice(1))
