from pydantic import BaseModel
from vegakit import Agent, program, vega


class Refund(BaseModel):
    id: str
    cents: int


class Handled(BaseModel):
    reply: str
    done: bool


class Reply(BaseModel):
    to: str
    reply: str


@program.tool(capabilities=["net::get"], allowed_hosts=["127.0.0.1:8931"])
def order(id: str) -> str:
    "The order with this id."
    response = vega.http.get(f"http://127.0.0.1:8931/orders/{id}")
    if response.status != 200:
        return "no such order"
    return response.body


@program.tool(capabilities=["net::post"], allowed_hosts=["127.0.0.1:8931"])
def refund(id: str, cents: int) -> str:
    "Refund so many cents of the order with this id."
    if cents > 5000:
        return "too much"
    vega.http.post("http://127.0.0.1:8931/refunds", vega.json.text(Refund(id=id, cents=cents)))
    return "refunded"


clerk = Agent(
    "clerk",
    model="smart",
    system="You answer mails of customers, and refund orders where that is right.",
    max_tokens=300,
    max_steps=8,
    budget="$0.45",
    tools=[order, refund],
)


@program(
    may=["fs::read", "fs::write"],
    allowed_paths=["mails.json", "replies.json"],
    budget="$5",
)
def main() -> list[str]:
    mails = vega.cast(vega.json.parse(vega.file.read("mails.json")), list[dict[str, str]])
    replies: list[Reply] = []
    open_mails: list[str] = []
    for mail in vega.list.take(mails, 10):
        sender = mail["from"]
        text = mail["text"]
        handled = clerk.ask(
            f"Handle this mail. Give the reply, and whether you are done with it.\n\n{text}",
            returns=Handled,
        )
        replies = replies + [Reply(to=sender, reply=handled.reply)]
        if not handled.done:
            open_mails = open_mails + [sender]
    vega.file.write("replies.json", vega.json.text(replies))
    return open_mails
