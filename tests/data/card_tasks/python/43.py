from typing import Annotated, Literal

from pydantic import BaseModel
from vegakit import Agent, MaxLen, program, vega


class Part(BaseModel):
    path: str
    text: str


class Fault(BaseModel):
    line: int
    severity: Literal["low", "medium", "high"]
    text: str


class Entry(BaseModel):
    rank: int
    severity: str
    path: str
    line: int
    text: str


reviewer = Agent("reviewer", model="smart", system="You review changes.", max_tokens=300)


@program(
    may=["process::exec", "fs::write"],
    allowed_commands=["sh scripts/diff.sh"],
    allowed_paths=["review.md"],
    budget="$5",
)
def main() -> str:
    parts: list[Part] = []
    path = ""
    body: list[str] = []
    for line in vega.str.lines(vega.exec("sh scripts/diff.sh")):
        if line.startswith("+++ "):
            if path != "":
                parts = parts + [Part(path=path, text="\n".join(body))]
            path = " ".join(vega.list.drop(line.split(" "), 1)).strip()
            body = [line]
        else:
            body = body + [line]
    if path != "":
        parts = parts + [Part(path=path, text="\n".join(body))]

    entries: list[Entry] = []
    high = 0
    for part in vega.list.take(parts, 10):
        faults = reviewer.ask(
            f"List the faults of this part of a change:\n{part.text}",
            returns=Annotated[list[Fault], MaxLen(5)],
        )
        for fault in faults:
            rank = 2
            if fault.severity == "high":
                rank = 0
                high = high + 1
            elif fault.severity == "medium":
                rank = 1
            entries = entries + [
                Entry(
                    rank=rank,
                    severity=fault.severity,
                    path=part.path,
                    line=fault.line,
                    text=fault.text,
                )
            ]
    entries = sorted(entries, key=lambda e: e.line)
    entries = sorted(entries, key=lambda e: e.path)
    entries = sorted(entries, key=lambda e: e.rank)
    vega.file.write(
        "review.md", "\n".join([f"{e.severity} {e.path}:{e.line} {e.text}" for e in entries])
    )
    if high > 0:
        return "rejected"
    if len(entries) == 0:
        return "approved"
    return "comments"
