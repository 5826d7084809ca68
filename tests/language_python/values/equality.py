# Lists, maps and records are equal when all they hold is.
from pydantic import BaseModel
from vegakit import program, vega


class Point(BaseModel):
    x: int
    y: int


@program
def main() -> None:
    print(vega.text([1, 2] == [1, 2]))  # expect: true
    print(vega.text([1, 2] == [2, 1]))  # expect: false
    print(vega.text({"a": 1} == {"a": 1}))  # expect: true
    print(vega.text(Point(x=1, y=2) == Point(y=2, x=1)))  # expect: true
    print(vega.text("a" != "b"))  # expect: true
