from typing import Literal

from pydantic import BaseModel
from vegakit import Agent, program, vega


class Total(BaseModel):
    category: str
    total: float


sorter = Agent("sorter", model="fast", system="Name the category of an expense.", max_tokens=300)


@program(may=["fs::read", "fs::write"], allowed_paths=["**"], budget="$5")
def main(path: str) -> int:
    rows = vega.csv.parse(vega.file.read(path))
    cents: dict[str, int] = {}
    for row in rows:
        merchant = row["merchant"]
        amount = round(float(row["amount"]) * 100.0)
        category = sorter.ask(
            f"Which category of expense is this merchant: {merchant}",
            returns=Literal["travel", "food", "other"],
        )
        cents[category] = vega.default(vega.map.get(cents, category), 0) + amount
    totals: list[Total] = []
    for name, amount in cents.items():
        totals = totals + [Total(category=name, total=float(amount) / 100.0)]
    vega.file.write("out/by_category.csv", vega.csv.text(sorted(totals, key=lambda t: -t.total)))
    return len(rows)
