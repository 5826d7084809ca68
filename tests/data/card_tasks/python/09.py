from typing import Annotated

from pydantic import BaseModel
from vegakit import Agent, MaxLen, program, vega


class Item(BaseModel):
    id: str
    name: str
    stock: int


class Page(BaseModel):
    items: Annotated[list[Item], MaxLen(10)]
    next: int | None


class Order(BaseModel):
    id: str
    amount: int


buyer = Agent("buyer", model="fast", system="Say how many to order.", max_tokens=300)


@program(may=["net::get", "net::post"], allowed_hosts=["127.0.0.1:8931"], budget="$5")
def main(base: str) -> int:
    low: list[Item] = []
    number = 1
    while number > 0:
        response = vega.http.get(f"{base}/items?page={number}")
        page = vega.cast(vega.json.parse(response.body), Page)
        low = low + [i for i in page.items if i.stock < 5]
        number = vega.default(page.next, 0)
    total = 0
    for item in vega.list.take(low, 80):
        amount = buyer.ask(f"How many of this item should be ordered: {item.name}", returns=int)
        vega.http.post(f"{base}/orders", vega.json.text(Order(id=item.id, amount=amount)))
        total = total + amount
    return total
