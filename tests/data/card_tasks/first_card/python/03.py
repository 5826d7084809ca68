from typing import Literal

from pydantic import BaseModel
from vegakit import Agent, program, vega


class Triage(BaseModel):
    urgency: int
    team: Literal["billing", "tech", "sales"]


class Ticket(BaseModel):
    file: str
    urgency: int
    team: Literal["billing", "tech", "sales"]


triager = Agent(
    "triager", model="smart", system="Triage messages. Urgency is 1 to 5, 5 is most urgent.", max_tokens=300
)


@program(
    may=["fs::read", "net::post"],
    allowed_paths=["inbox", "inbox/**"],
    allowed_hosts=["127.0.0.1"],
    budget="$5",
)
def main(base: str) -> int:
    tickets: list[Ticket] = []
    for path in vega.file.list("inbox"):
        if path.endswith(".txt"):
            text = vega.file.read(path)
            t = triager.ask(f"Triage this message:\n{text}", returns=Triage)
            tickets = tickets + [Ticket(file=vega.file.name(path), urgency=t.urgency, team=t.team)]
    by_name = sorted(tickets, key=lambda t: t.file)
    queue = sorted(by_name, key=lambda t: -t.urgency)
    vega.http.post(f"{base}/queue", vega.json.text(queue))
    return len([t for t in queue if t.urgency >= 4])
