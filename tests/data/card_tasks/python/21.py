from typing import Annotated

from pydantic import BaseModel
from vegakit import Agent, MaxLen, program, vega


class Term(BaseModel):
    term: str
    meaning: str


lexicographer = Agent(
    "lexicographer", model="smart", system="List the terms that a text explains.", max_tokens=300
)


@program(may=["fs::read", "fs::write"], allowed_paths=["**"], budget="$5")
def main(folders: Annotated[list[str], MaxLen(5)]) -> int:
    keys: list[str] = []
    lines: dict[str, str] = {}
    for folder in folders:
        paths = [p for p in sorted(vega.file.list(folder)) if p.endswith(".md")]
        for path in vega.list.take(paths, 10):
            text = vega.file.read(path)
            terms = lexicographer.ask(
                f"List the terms and their meanings:\n{text}",
                returns=Annotated[list[Term], MaxLen(10)],
            )
            for t in terms:
                key = t.term.lower()
                if key not in keys:
                    keys = keys + [key]
                    lines[key] = f"- {t.term}: {t.meaning}"
    vega.file.write("glossary.md", "\n".join([lines[k] for k in sorted(keys)]) + "\n")
    return len(keys)
