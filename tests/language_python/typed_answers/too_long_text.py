# The length of a text is checked, in characters: what is too long is asked again.
# reply: {"output": {"result": "ÄÄÄÄÄÄ"}}
# reply: {"output": {"result": "ÄÄÄÄÄ"}}
from typing import Annotated

from vegakit import Agent, MaxLen, program

A = Agent("A", model="fast")


@program
def main() -> None:
    title = A.ask("A title", returns=Annotated[str, MaxLen(5)])
    print(title)  # expect: ÄÄÄÄÄ


# expect calls: 2
