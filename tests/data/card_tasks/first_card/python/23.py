from typing import Literal

from pydantic import BaseModel
from vegakit import Agent, program, vega


class Customer(BaseModel):
    email: str
    name: str


judge = Agent("judge", model="fast", system="Say which spelling of a name is right.", max_tokens=300)


@program(
    may=["fs::read", "fs::write"],
    allowed_paths=["crm.csv", "shop.csv", "merged.csv"],
    budget="$5",
)
def main() -> int:
    emails: list[str] = []
    crm: dict[str, str] = {}
    for row in vega.csv.parse(vega.file.read("crm.csv")):
        email = row["email"].lower()
        crm[email] = row["name"]
        emails = emails + [email]
    shop: dict[str, str] = {}
    for row in vega.csv.parse(vega.file.read("shop.csv")):
        email = row["email"].lower()
        shop[email] = row["name"]
        emails = emails + [email]
    merged: list[Customer] = []
    differed = 0
    for email in sorted(vega.list.unique(emails)):
        a = vega.map.get(crm, email)
        b = vega.map.get(shop, email)
        name = vega.default(a, vega.default(b, ""))
        if a is not None and b is not None and a != b:
            differed = differed + 1
            right = judge.ask(
                f"Which name is right? crm: {a}, shop: {b}", returns=Literal["crm", "shop"]
            )
            if right == "shop":
                name = b
        merged = merged + [Customer(email=email, name=name)]
    vega.file.write("merged.csv", vega.csv.text(merged))
    return differed
