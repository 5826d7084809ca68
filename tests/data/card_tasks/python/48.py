from typing import Annotated

from pydantic import BaseModel
from vegakit import Agent, MaxLen, program, spawn, vega


class Opinion(BaseModel):
    points: int
    remark: str


writer = Agent(
    "writer",
    model="smart",
    system="You write a story, chapter by chapter.",
    max_tokens=300,
    memory="conversation",
)
reader = Agent("reader", model="fast", system="You judge chapters of stories.", max_tokens=300)


@program(may=["fs::write"], allowed_paths=["story.md"], budget="$5")
def main(titles: Annotated[list[str], MaxLen(6)]) -> list[str]:
    author = spawn(writer, wallet="$0.60")
    parts: list[str] = []
    twice: list[str] = []
    for title in titles:
        chapter = author(f"Write the chapter: {title}")
        opinion = reader.ask(
            f"Give 0 to 100 points and a remark for this chapter:\n{chapter}", returns=Opinion
        )
        if opinion.points < 60:
            twice = twice + [title]
            chapter = author(
                f"Write the chapter once more: {title}\nA reader remarked: {opinion.remark}"
            )
        parts = parts + [f"# {title}\n{chapter}"]
    vega.file.write("story.md", "\n".join(parts))
    return twice
