from typing import Annotated

from pydantic import BaseModel
from vegakit import Agent, Failed, MaxLen, program, vega


class OnCall(BaseModel):
    name: str


summarizer = Agent("summarizer", model="smart", system="Summarize incidents.", max_tokens=300)


@program(
    may=["process::exec", "net::get", "fs::write"],
    allowed_commands=["sh scripts/events.sh **"],
    allowed_hosts=["127.0.0.1:8931"],
    allowed_paths=["incident.md"],
    budget="$5",
)
def main(base: str, sources: Annotated[list[str], MaxLen(5)]) -> int:
    events: list[str] = []
    partial: list[str] = []
    for source in sources:
        ran = vega.exec.look(f"sh scripts/events.sh {source}")
        if ran.code == 3:
            partial = partial + [source]
        elif ran.code != 0:
            raise Failed(f"no events of {source}: {ran.err}")
        events = events + [line for line in vega.str.lines(ran.out) if len(line.strip()) > 0]
    events = sorted(events)
    oncall = vega.cast(vega.json.parse(vega.http.get(f"{base}/oncall").body), OnCall)
    text = "\n".join(events)
    summary = summarizer(f"Summarize this incident:\n{text}")
    names = "none"
    if len(partial) > 0:
        names = ", ".join(partial)
    lines = [f"On call: {oncall.name}", f"Partial: {names}"]
    lines = lines + [f"- {event}" for event in events] + [summary]
    vega.file.write("incident.md", "\n".join(lines) + "\n")
    return len(events)
