# JSON there and back; what comes in is used after `as`.
from pydantic import BaseModel
from vegakit import program, vega


class Point(BaseModel):
    x: int
    y: int | None = None


@program
def main() -> None:
    p = vega.cast(vega.json.parse('{"x": 3}'), Point)
    print(p.x)  # expect: 3
    print(p.y if p.y is not None else 0)  # expect: 0
    print(vega.json.text(["a", "b"]))  # expect: ["a","b"]
    print(vega.json.text(p))  # expect: {"x":3,"y":null}
