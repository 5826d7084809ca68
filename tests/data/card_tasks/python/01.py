from typing import Literal

from pydantic import BaseModel
from vegakit import Agent, program, vega


class Spent(BaseModel):
    category: Literal["travel", "food", "other"]
    cents: int


class Total(BaseModel):
    category: str
    cents: int


sorter = Agent("sorter", model="fast", system="Name the category of a merchant.", max_tokens=300)


def to_cents(amount: str) -> int:
    value = float(amount) * 100.0
    if value < 0.0:
        return int(value - 0.5)
    return int(value + 0.5)


@program(may=["fs::read", "fs::write"], allowed_paths=["**"], budget="$5")
def main(path: str) -> int:
    rows = vega.csv.parse(vega.file.read(path))
    spent: list[Spent] = []
    for row in vega.list.take(rows, 40):
        merchant = row["merchant"]
        category = sorter.ask(
            f"Which category of expense is this merchant: {merchant}",
            returns=Literal["travel", "food", "other"],
        )
        spent = spent + [Spent(category=category, cents=to_cents(row["amount"]))]
    totals: list[Total] = []
    for name in ["travel", "food", "other"]:
        amounts = [s.cents for s in spent if s.category == name]
        if len(amounts) > 0:
            totals = totals + [Total(category=name, cents=sum(amounts))]
    lines = ["category,total"]
    for total in sorted(totals, key=lambda x: -x.cents):
        amount = float(total.cents) / 100.0
        lines = lines + [f"{total.category},{amount}"]
    vega.file.write("out/by_category.csv", "\n".join(lines) + "\n")
    return len(rows)
