# The keys of a map are counted: three of them are asked again.
# reply: {"output": {"result": {"a": 1, "b": 2, "c": 3}}}
# reply: {"output": {"result": {"a": 1}}}
from typing import Annotated

from vegakit import Agent, MaxLen, program, vega

A = Agent("A", model="fast")


@program
def main() -> None:
    votes = A.ask("Votes", returns=Annotated[dict[str, int], MaxLen(2)])
    print(vega.text(votes))  # expect: {"a":1}


# expect calls: 2
