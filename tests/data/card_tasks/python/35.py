from pydantic import BaseModel
from vegakit import Agent, program, spawn, vega


class Deal(BaseModel):
    price: int | None
    rounds: int


buyer_agent = Agent(
    "buyer",
    model="fast",
    system="You buy for a museum.",
    max_tokens=300,
    memory="conversation",
)
seller_agent = Agent(
    "seller",
    model="fast",
    system="You sell old maps.",
    max_tokens=300,
    memory="conversation",
)


@program(may=["fs::write"], allowed_paths=["deal.txt"], budget="$5")
def main(item: str, offer: int, ask: int) -> Deal:
    buyer = spawn(buyer_agent, wallet="$2")
    seller = spawn(seller_agent, wallet="$2")
    offered = offer
    asked = ask
    agreed = False
    price = 0
    rounds = 0
    for i in range(5):
        if not agreed:
            rounds = rounds + 1
            asked = seller.ask(
                f"For {item} the buyer offers {offered} cents, and you ask {asked} cents. "
                "How many cents do you ask now?",
                returns=int,
            )
            if asked <= offered:
                agreed = True
                price = offered
            else:
                offered = buyer.ask(
                    f"For {item} you offer {offered} cents, and the seller now asks {asked} cents. "
                    "How many cents do you offer now?",
                    returns=int,
                )
                if offered >= asked:
                    agreed = True
                    price = asked
    if agreed:
        vega.file.write("deal.txt", f"{price}")
        return Deal(price=price, rounds=rounds)
    vega.file.write("deal.txt", "no deal")
    return Deal(price=None, rounds=rounds)
