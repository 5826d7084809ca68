# Records go in as objects and come out as JSON.
# reply: {"calls": [{"name": "move", "arguments": {"p": {"x": 1, "y": 2}}}]}
# reply: moved
from pydantic import BaseModel
from vegakit import Agent, program


class Point(BaseModel):
    x: int
    y: int


@program.tool()
def move(p: Point) -> Point:
    "Move it."
    print(p.x)  # expect: 1
    return Point(x=p.x + 1, y=p.y)


A = Agent("A", model="fast", tools=[move])


@program
def main() -> None:
    print(A("go"))  # expect: moved
