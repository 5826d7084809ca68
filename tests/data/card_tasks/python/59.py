from typing import Annotated

from pydantic import BaseModel
from vegakit import Agent, MaxLen, program, vega


class Item(BaseModel):
    name: str
    cents: int


class Receipt(BaseModel):
    vendor: str
    date: str
    items: Annotated[list[Item], MaxLen(10)]
    total: int


class Entry(BaseModel):
    month: str
    vendor: str
    cents: int


class Report(BaseModel):
    total: int
    doubtful: list[str]


reader = Agent("reader", model="fast", system="You read receipts.", max_tokens=300)


@program(
    may=["fs::read", "fs::write"],
    allowed_paths=["receipts", "receipts/**", "ledger.csv"],
    budget="$5",
)
def main() -> Report:
    paths = sorted([p for p in vega.file.list("receipts") if p.endswith(".txt")])
    entries: list[Entry] = []
    doubtful: list[str] = []
    total = 0
    for path in vega.list.take(paths, 20):
        text = vega.file.read(path)
        receipt = reader.ask(
            "Read this receipt: vendor, date such as 2026-02-17, items and total in cents.\n\n"
            f"{text}",
            returns=Receipt,
        )
        if sum([item.cents for item in receipt.items]) == receipt.total:
            total = total + receipt.total
            month = "-".join(vega.list.take(receipt.date.split("-"), 2))
            entries = entries + [Entry(month=month, vendor=receipt.vendor, cents=receipt.total)]
        else:
            doubtful = doubtful + [vega.file.name(path)]

    ledger: list[Entry] = []
    for month in sorted(vega.list.unique([e.month for e in entries])):
        vendors = vega.list.unique([e.vendor for e in entries if e.month == month])
        for vendor in sorted(vendors):
            cents = sum([e.cents for e in entries if e.month == month and e.vendor == vendor])
            ledger = ledger + [Entry(month=month, vendor=vendor, cents=cents)]
    content = "month,vendor,cents"
    if len(ledger) > 0:
        content = vega.csv.text(ledger)
    vega.file.write("ledger.csv", content)
    return Report(total=total, doubtful=sorted(doubtful))
