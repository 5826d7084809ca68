from pydantic import BaseModel
from vegakit import Agent, program, vega


class Item(BaseModel):
    id: str
    name: str
    stock: int


class Page(BaseModel):
    items: list[Item]
    next: int | None


class Order(BaseModel):
    id: str
    amount: int


buyer = Agent("buyer", model="fast", system="Say how many pieces to order.", max_tokens=300)


@program(may=["net::get", "net::post"], allowed_hosts=["127.0.0.1"], budget="$5")
def main(base: str) -> int:
    low: list[Item] = []
    number: int | None = 1
    for i in range(8):
        if number is not None:
            response = vega.http.get(f"{base}/items?page={number}")
            page = vega.cast(vega.json.parse(response.body), Page)
            low = low + [item for item in page.items if item.stock < 5]
            number = page.next
    total = 0
    for item in low:
        amount = buyer.ask(f"How many should be ordered of: {item.name}", returns=int)
        vega.http.post(f"{base}/orders", vega.json.text(Order(id=item.id, amount=amount)))
        total = total + amount
    return total
