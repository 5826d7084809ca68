# Money comes as a number of dollars, a time as it is written.
# reply: {"output": {"cost": 1.5, "takes": "30s"}}
from pydantic import BaseModel
from vegakit import Agent, program, vega


class Offer(BaseModel):
    cost: vega.Money
    takes: vega.Duration


A = Agent("A", model="fast")


@program
def main() -> None:
    o = A.ask("Offer?", returns=Offer)
    print(vega.text(o.cost + vega.money("$0.50")))  # expect: $2.00
    print(vega.text(o.takes * 2))  # expect: 1m
