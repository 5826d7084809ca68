from typing import Literal

from pydantic import BaseModel
from vegakit import Agent, program, vega


class Triage(BaseModel):
    urgency: int
    team: Literal["billing", "tech", "sales"]


class Entry(BaseModel):
    file: str
    urgency: int
    team: Literal["billing", "tech", "sales"]


triager = Agent(
    "triager", model="smart", system="Rate the urgency from 1 to 5 and name the team.", max_tokens=300
)


@program(
    may=["fs::read", "net::post"],
    allowed_paths=["inbox", "inbox/**"],
    allowed_hosts=["127.0.0.1:8931"],
    budget="$5",
)
def main(base: str) -> int:
    paths = [p for p in sorted(vega.file.list("inbox")) if p.endswith(".txt")]
    entries: list[Entry] = []
    for path in vega.list.take(paths, 30):
        text = vega.file.read(path)
        t = triager.ask(f"Triage this message, urgency 1 to 5:\n{text}", returns=Triage)
        entries = entries + [Entry(file=vega.file.name(path), urgency=t.urgency, team=t.team)]
    queue = sorted(entries, key=lambda x: -x.urgency)
    vega.http.post(f"{base}/queue", vega.json.text(queue))
    return len([e for e in entries if e.urgency >= 4])
