from typing import Annotated

from pydantic import BaseModel
from vegakit import Agent, MaxLen, program, vega


class Task(BaseModel):
    who: str
    what: str
    due: str | None


class Dated(BaseModel):
    due: str
    what: str


secretary = Agent(
    "secretary", model="smart", system="You find the tasks in minutes of meetings.", max_tokens=300
)


@program(
    may=["fs::read", "fs::write"],
    allowed_paths=["minutes.txt", "actions/**"],
    budget="$5",
)
def main() -> dict[str, int]:
    minutes = vega.file.read("minutes.txt")
    tasks = secretary.ask(
        "List the tasks: who does what, and until which date (such as 2026-03-09, or null).\n\n"
        f"{minutes}",
        returns=Annotated[list[Task], MaxLen(15)],
    )
    counts: dict[str, int] = {}
    for who in vega.list.unique([t.who for t in tasks]):
        dated: list[Dated] = []
        rest: list[str] = []
        count = 0
        for task in tasks:
            if task.who == who:
                count = count + 1
                if task.due is not None:
                    dated = dated + [Dated(due=task.due, what=task.what)]
                else:
                    rest = rest + [f"- {task.what} (no date)"]
        first = [f"- {d.what} ({d.due})" for d in sorted(dated, key=lambda d: d.due)]
        vega.file.write(f"actions/{who.lower()}.md", "\n".join(first + rest))
        counts[who] = count
    return counts
