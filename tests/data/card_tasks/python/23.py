from typing import Literal

from vegakit import Agent, program, vega

judge = Agent("judge", model="fast", system="Decide which name is right.", max_tokens=300)


@program(
    may=["fs::read", "fs::write"],
    allowed_paths=["crm.csv", "shop.csv", "merged.csv"],
    budget="$5",
)
def main() -> int:
    crm: dict[str, str] = {}
    shop: dict[str, str] = {}
    emails: list[str] = []
    for row in vega.csv.parse(vega.file.read("crm.csv")):
        email = row["email"].lower()
        crm[email] = row["name"]
        emails = emails + [email]
    for row in vega.csv.parse(vega.file.read("shop.csv")):
        email = row["email"].lower()
        shop[email] = row["name"]
        emails = emails + [email]
    differed = 0
    lines = ["email,name"]
    for email in vega.list.take(sorted(vega.list.unique(emails)), 100):
        a = vega.map.get(crm, email)
        b = vega.map.get(shop, email)
        name = vega.default(a, vega.default(b, ""))
        if a is not None and b is not None and a != b:
            differed = differed + 1
            right = judge.ask(
                f"Which name is right for {email}? crm: {a}, shop: {b}",
                returns=Literal["crm", "shop"],
            )
            if right == "shop":
                name = b
        lines = lines + [f"{email},{name}"]
    vega.file.write("merged.csv", "\n".join(lines) + "\n")
    return differed
