# reply: {"output": {"items": [{"n": 1}, {"n": 2}]}}
from typing import Annotated

from pydantic import BaseModel
from vegakit import Agent, MaxLen, program, vega


class Item(BaseModel):
    n: int


class Items(BaseModel):
    items: Annotated[list[Item], MaxLen(20)]


Finder = Agent("Finder", model="fast")


@program
def main() -> None:
    found = Finder.ask("Find.", returns=Items)
    print(vega.list.sum([i.n for i in found.items]))  # expect: 3
