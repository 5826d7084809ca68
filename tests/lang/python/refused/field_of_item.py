from pydantic import BaseModel
from vegakit import Agent, AgentFailed, Failed, parallel, program, session, spawn, vega

reviewer = Agent("reviewer", model="fast")


class Point(BaseModel):
    x: int


@program
def main() -> None:
    ps = [Point(x=1)]
    ps[0].x = 2
    print(ps[0].x)
