from pydantic import BaseModel
from vegakit import program, vega


class Report(BaseModel):
    ok: bool
    cost: vega.Money


@program
def main() -> Report:
    return Report(ok=True, cost=vega.money("$0.10"))


# expect result: {"ok":true,"cost":"$0.10"}
