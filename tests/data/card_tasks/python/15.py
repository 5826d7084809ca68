from typing import Annotated

from pydantic import BaseModel
from vegakit import Agent, BudgetExceeded, MaxLen, program, session, vega


class Paragraph(BaseModel):
    title: str
    text: str


class Result(BaseModel):
    done: int
    left: int


writer = Agent("writer", model="fast", system="Write one paragraph.", max_tokens=200)


@program(may=["fs::write"], allowed_paths=["paragraphs.md"], budget="$5")
def main(topics: Annotated[list[str], MaxLen(50)]) -> Result:
    done = 0
    lines: list[str] = []
    try:
        with session(budget="$0.02"):
            for topic in topics:
                paragraph = writer.ask(f"Write a paragraph about: {topic}", returns=Paragraph)
                lines = lines + [f"## {paragraph.title}", paragraph.text]
                done = done + 1
    except BudgetExceeded:
        print("the money is spent")
    vega.file.write("paragraphs.md", "\n".join(lines) + "\n")
    return Result(done=done, left=len(topics) - done)
