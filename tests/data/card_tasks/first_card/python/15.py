from typing import Annotated

from pydantic import BaseModel
from vegakit import Agent, BudgetExceeded, MaxLen, program, session, vega


class Paragraph(BaseModel):
    title: str
    text: str


class Result(BaseModel):
    done: int
    left: int


writer = Agent("writer", model="fast", system="Write one paragraph with a title.", max_tokens=200)


@program(may=["fs::write"], allowed_paths=["paragraphs.md"], budget="$5")
def main(topics: Annotated[list[str], MaxLen(50)]) -> Result:
    lines: list[str] = []
    done = 0
    try:
        with session(budget="$0.02"):
            for topic in topics:
                p = writer.ask(f"Write a paragraph about: {topic}", returns=Paragraph)
                lines = lines + [f"## {p.title}", p.text]
                done = done + 1
    except BudgetExceeded:
        print(f"the money went as far as {done} topics")
    vega.file.write("paragraphs.md", "\n".join(lines))
    return Result(done=done, left=len(topics) - done)
