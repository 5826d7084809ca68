# By a field, equal items in their order in both directions, nulls last.
from typing import Literal

from pydantic import BaseModel
from vegakit import program, vega


class Item(BaseModel):
    name: str
    due: str | None = None
    weight: float
    size: Literal["l", "s"]


def names(items: list[Item]) -> str:
    return "".join([i.name for i in items])


@program
def main() -> None:
    items = [
        Item(name="a", due="2026-03", weight=2.0, size="s"),
        Item(name="b", weight=1.0, size="l"),
        Item(name="c", due="2026-01", weight=2.0, size="l"),
    ]
    print(names(vega.list.sort_by(items, "due")))  # expect: cab
    print(names(vega.list.sort_by(items, "due", True)))  # expect: acb
    print(names(sorted(items, key=lambda i: i.weight)))  # expect: bac
    print(names(sorted(items, key=lambda i: i.weight, reverse=True)))  # expect: acb
    print(names(sorted(items, key=lambda i: i.size)))  # expect: bca
    print(vega.text(sorted([2, 3, 1], reverse=True)))  # expect: [3,2,1]
    rows = [{"k": 2}, {"k": 1}]
    print(vega.text(sorted(rows, key=lambda row: row["k"])))  # expect: [{"k":1},{"k":2}]
    try:
        print(vega.text(sorted(rows, key=lambda row: row["n"])))
    except KeyError as e:
        print(vega.reason(e))  # expect: there is no entry n to sort by
