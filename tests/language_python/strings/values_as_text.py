# Lists, maps and records as compact JSON; money and times as they are written.
from pydantic import BaseModel
from vegakit import program, vega


class Finding(BaseModel):
    file: str
    cost: vega.Money


@program
def main() -> None:
    print(
        f"{vega.text(Finding(file='a.py', cost=vega.money('$0.25')))}"
    )  # expect: {"file":"a.py","cost":"$0.25"}
    print(vega.text({"k": [1, 2]}))  # expect: {"k":[1,2]}
    print(
        f"{vega.text(vega.money('$1.50'))} {vega.text(vega.duration('30s'))} {vega.text(2.0)}"
    )  # expect: $1.50 30s 2.0
