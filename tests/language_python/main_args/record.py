# args: {"x":1,"y":2}
from pydantic import BaseModel
from vegakit import program


class Point(BaseModel):
    x: int
    y: int


@program
def main(p: Point) -> int:
    return p.x + p.y


# expect result: 3
