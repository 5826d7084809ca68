# Linked processes do not end with the call that spawned them.
# reply: alive
from pydantic import BaseModel
from vegakit import Agent, program, spawn, vega


class Pair(BaseModel):
    one: str


A = Agent("A", model="fast")


def make() -> list[vega.Process]:
    a = spawn(A)
    b = spawn(A)
    vega.link(a, b)
    return [a]


@program
def main() -> None:
    kept = make()
    print(kept[0].ask("hi"))  # expect: alive
