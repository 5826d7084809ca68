from typing import Annotated

from pydantic import BaseModel
from vegakit import Agent, MaxLen, program, vega


class Entry(BaseModel):
    term: str
    meaning: str


lexicographer = Agent(
    "lexicographer", model="smart", system="List the terms that a text explains.", max_tokens=300
)


@program(may=["fs::read", "fs::write"], allowed_paths=["**"], budget="$5")
def main(folders: Annotated[list[str], MaxLen(5)]) -> int:
    entries: list[Entry] = []
    seen: list[str] = []
    for folder in folders:
        for path in sorted(vega.file.list(folder)):
            if path.endswith(".md"):
                text = vega.file.read(path)
                found = lexicographer.ask(
                    f"Which terms are in this text?\n{text}",
                    returns=Annotated[list[Entry], MaxLen(10)],
                )
                for entry in found:
                    if entry.term.lower() not in seen:
                        seen = seen + [entry.term.lower()]
                        entries = entries + [entry]
    ordered = sorted(entries, key=lambda e: e.term.lower())
    vega.file.write("glossary.md", "\n".join([f"- {e.term}: {e.meaning}" for e in ordered]))
    return len(entries)
