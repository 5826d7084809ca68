# The bound of a list is checked: three items are asked again.
# reply: {"output": {"result": [1, 2, 3]}}
# reply: {"output": {"result": [1, 2]}}
from typing import Annotated

from vegakit import Agent, MaxLen, program, vega

A = Agent("A", model="fast")


@program
def main() -> None:
    two = A.ask("Two numbers", returns=Annotated[list[int], MaxLen(2)])
    print(vega.text(two))  # expect: [1,2]


# expect calls: 2
