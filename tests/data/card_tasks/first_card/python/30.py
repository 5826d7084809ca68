from typing import Annotated

from pydantic import BaseModel
from vegakit import Agent, Failed, MaxLen, program, vega


class Oncall(BaseModel):
    name: str


summarizer = Agent("summarizer", model="smart", system="Summarize incidents briefly.", max_tokens=300)


@program(
    may=["process::exec", "net::get", "fs::write"],
    allowed_commands=["sh scripts/events.sh **"],
    allowed_hosts=["127.0.0.1"],
    allowed_paths=["incident.md"],
    budget="$5",
)
def main(base: str, sources: Annotated[list[str], MaxLen(5)]) -> int:
    events: list[str] = []
    partial: list[str] = []
    for name in sources:
        ran = vega.exec.run(f"sh scripts/events.sh {name}")
        if ran.code == 3:
            partial = partial + [name]
        elif ran.code != 0:
            raise Failed(f"no events of {name}: {ran.err}")
        events = events + [line for line in vega.str.lines(ran.out) if line.strip() != ""]
    oncall = vega.cast(vega.json.parse(vega.http.get(f"{base}/oncall").body), Oncall)
    ordered = sorted(events)
    listed = "\n".join(ordered)
    summary = summarizer(f"Summarize this incident:\n{listed}")
    names = "none"
    if len(partial) > 0:
        names = ", ".join(partial)
    lines = [f"On call: {oncall.name}", f"Partial: {names}"]
    lines = lines + [f"- {event}" for event in ordered] + [summary]
    vega.file.write("incident.md", "\n".join(lines))
    return len(ordered)
