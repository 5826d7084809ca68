from typing import Annotated

from pydantic import BaseModel
from vegakit import Agent, MaxLen, program, vega


class Answer(BaseModel):
    figure: int | None
    remark: str


@program.tool(capabilities=["fs::read"], allowed_paths=["tables/**"])
def total(table: str, column: str) -> str:
    "The sum of the whole numbers in a column of a table."
    path = f"tables/{table}.csv"
    if not vega.file.exists(path):
        return "no such table"
    text = vega.file.read(path)
    rows = vega.csv.parse(text)
    known = False
    for line in vega.list.take(vega.str.lines(text), 1):
        if column in line.strip().split(","):
            known = True
    amount = 0
    for row in vega.list.take(rows, 50):
        cell = vega.map.get(row, column)
        if cell is not None:
            known = True
            try:
                amount = amount + int(cell.strip())
            except ValueError:
                print(f"not a whole number: {cell}")
    if not known:
        return "no such column"
    return f"{amount}"


analyst = Agent(
    "analyst",
    model="smart",
    system="You answer questions with a figure from the tables, or null if there is none.",
    max_tokens=300,
    max_steps=8,
    budget="$0.50",
    tools=[total],
)


@program(may=["fs::write"], allowed_paths=["figures.md"], budget="$5")
def main(questions: Annotated[list[str], MaxLen(8)]) -> int:
    lines: list[str] = []
    everything = 0
    for question in questions:
        answer = analyst.ask(question, returns=Answer)
        figure = answer.figure
        if figure is None:
            lines = lines + [f"{question}: unknown"]
        else:
            lines = lines + [f"{question}: {figure}"]
            everything = everything + figure
    vega.file.write("figures.md", "\n".join(lines))
    return everything
