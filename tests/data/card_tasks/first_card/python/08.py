from typing import Annotated

from pydantic import BaseModel
from vegakit import Agent, Failed, MaxLen, program, vega


class Item(BaseModel):
    sku: str
    quantity: int
    price_cents: int


class Order(BaseModel):
    customer: str
    items: Annotated[list[Item], MaxLen(10)]


clerk = Agent(
    "clerk", model="fast", system="Extract orders. price_cents is the price of one piece.", max_tokens=300
)


@program(may=["fs::read", "fs::write"], allowed_paths=["order.txt", "order.json"], budget="$5")
def main() -> int:
    text = vega.file.read("order.txt")
    last = vega.default(vega.list.last(vega.str.lines(text.strip())), "")
    right = int(last.replace("TOTAL", "").strip())
    message = f"Extract this order:\n{text}"
    for i in range(3):
        order = clerk.ask(message, returns=Order)
        total = sum([item.quantity * item.price_cents for item in order.items])
        if total == right:
            vega.file.write("order.json", vega.json.text(order))
            return total
        message = (
            f"Extract this order:\n{text}\nYour last items added up to {total}, but must add up to {right}."
        )
    raise Failed("the order does not add up")
