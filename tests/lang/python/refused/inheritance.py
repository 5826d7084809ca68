from pydantic import BaseModel
from vegakit import Agent, AgentFailed, Failed, parallel, program, session, spawn, vega

reviewer = Agent("reviewer", model="fast")


class Point(BaseModel):
    x: int


class Other(Point):
    y: int


@program
def main() -> None:
    print(1)
