from pydantic import BaseModel
from vegakit import Agent, program, vega


class Ticket(BaseModel):
    id: str
    customer: str
    body: str


judge = Agent(
    "judge", model="fast", system="You compare complaints of one customer.", max_tokens=300
)


@program(
    may=["fs::read", "fs::write"],
    allowed_paths=["tickets.jsonl", "duplicates.json"],
    budget="$5",
)
def main() -> int:
    lines = [x for x in vega.str.lines(vega.file.read("tickets.jsonl")) if len(x.strip()) > 0]
    last: dict[str, Ticket] = {}
    duplicates: dict[str, str] = {}
    others = 0
    for line in vega.list.take(lines, 30):
        ticket = vega.cast(vega.json.parse(line), Ticket)
        same = False
        before = vega.map.get(last, ticket.customer)
        if before is not None:
            same = judge.ask(
                "Are these two tickets about the same problem?\n\n"
                f"First:\n{before.body}\n\nSecond:\n{ticket.body}",
                returns=bool,
            )
            if same:
                duplicates[ticket.id] = before.id
        if not same:
            others = others + 1
        last[ticket.customer] = ticket
    vega.file.write("duplicates.json", vega.json.text(duplicates))
    return others
