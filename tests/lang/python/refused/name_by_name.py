from vegakit import Agent, program
from typing import Annotated

w = Agent(name="w", model="fast")

@program
def main(x: str) -> str:
    return w(x)
