from pydantic import BaseModel
from vegakit import Agent, AgentFailed, Failed, parallel, program, session, spawn, vega

reviewer = Agent("reviewer", model="fast")


class Point(BaseModel):
    x: int

    def double(self) -> int:
        return self.x * 2


@program
def main() -> None:
    print(1)
