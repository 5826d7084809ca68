# By a number below zero, and numbers that are rounded to whole ones.
from pydantic import BaseModel
from vegakit import program, vega


class Item(BaseModel):
    name: str
    weight: float


def names(items: list[Item]) -> str:
    return "".join([i.name for i in items])


@program
def main() -> None:
    items = [Item(name="a", weight=2.0), Item(name="b", weight=1.0), Item(name="c", weight=2.0)]
    print(names(sorted(items, key=lambda i: -i.weight)))  # expect: acb
    print(names(sorted(items, key=lambda i: -i.weight, reverse=True)))  # expect: bac
    print(round(2.5), round(-3.7))  # expect: 2 -4
    none = vega.map.get({"a": "x"}, "b")
    print(vega.default(none, vega.default(none, "never")))  # expect: never
