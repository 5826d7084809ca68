from typing import Annotated

from pydantic import BaseModel
from vegakit import Agent, MaxLen, program, vega


class Digest(BaseModel):
    title: str
    points: Annotated[list[str], MaxLen(5)]


summarizer = Agent("summarizer", model="fast", system="You summarize notes.", max_tokens=300)
editor = Agent("editor", model="smart", system="You write digests.", max_tokens=300)


@program(
    may=["fs::read", "fs::write"],
    allowed_paths=["notes", "notes/**", "digest.md"],
    budget="$5",
)
def main() -> list[str]:
    paths = vega.list.take(sorted(vega.file.list("notes")), 40)
    groups = vega.list.take(vega.list.chunks(paths, 4), 10)
    summaries: list[str] = []
    for group in groups:
        texts: list[str] = []
        for path in group:
            texts = texts + [vega.file.read(path)]
        notes = "\n\n".join(texts)
        summary = summarizer(f"Summarize these notes:\n\n{notes}")
        summaries = summaries + [summary]
    everything = "\n\n".join(summaries)
    digest = editor.ask(
        f"Write a digest, a title and at most 5 points, of these summaries:\n\n{everything}",
        returns=Digest,
    )
    lines = [f"# {digest.title}"] + [f"- {point}" for point in digest.points]
    lines = lines + [f"From {len(paths)} notes in {len(groups)} groups."]
    vega.file.write("digest.md", "\n".join(lines))
    return digest.points
