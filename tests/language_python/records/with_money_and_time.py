from pydantic import BaseModel
from vegakit import program, vega


class Job(BaseModel):
    cost: vega.Money
    takes: vega.Duration


@program
def main() -> None:
    j = Job(cost=vega.money("$1.25"), takes=vega.duration("90s"))
    print(vega.text(j))  # expect: {"cost":"$1.25","takes":"90s"}
    print(vega.text(j.cost * 2))  # expect: $2.50
