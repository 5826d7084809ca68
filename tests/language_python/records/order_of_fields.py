# Fields stand in the order of the type, however they are given.
from pydantic import BaseModel
from vegakit import program, vega


class P(BaseModel):
    x: int
    y: int


@program
def main() -> None:
    print(vega.text(P(y=2, x=1)))  # expect: {"x":1,"y":2}
