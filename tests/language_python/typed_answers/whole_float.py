# 3.0 is a whole number; 3 is a float where a float is asked for.
# reply: {"output": {"n": 3.0, "x": 3}}
from pydantic import BaseModel
from vegakit import Agent, program, vega


class Both(BaseModel):
    n: int
    x: float


A = Agent("A", model="fast")


@program
def main() -> None:
    b = A.ask("?", returns=Both)
    print(b.n + 1)  # expect: 4
    print(vega.text(b.x))  # expect: 3.0
