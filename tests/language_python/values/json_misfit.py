# What does not fit the type raises; what is no JSON, too.
from pydantic import BaseModel
from vegakit import ContractViolated, program, vega


class Point(BaseModel):
    x: int


@program
def main() -> None:
    try:
        p = vega.cast(vega.json.parse("[1]"), Point)
        print(vega.text(p))
    except ContractViolated:
        print("no point")  # expect: no point
    print(vega.cast(vega.json.parse("nope"), int))  # error: ValueError
