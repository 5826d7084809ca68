from pydantic import BaseModel
from vegakit import Agent, BudgetExceeded, program, session, vega


class Count(BaseModel):
    done: int
    left: int


writer = Agent("writer", model="fast", system="You write short texts.", max_tokens=250)


@program(
    may=["fs::read", "fs::write"],
    allowed_paths=["requests.csv", "texts/**"],
    budget="$5",
)
def main() -> dict[str, Count]:
    rows = vega.list.take(vega.csv.parse(vega.file.read("requests.csv")), 60)
    departments = vega.list.unique([row["department"] for row in rows])
    counts: dict[str, Count] = {}
    for department in vega.list.take(departments, 4):
        subjects = [row["subject"] for row in rows if row["department"] == department]
        parts: list[str] = []
        done = 0
        enough = True
        try:
            with session(budget="$0.006"):
                for subject in vega.list.take(subjects, 60):
                    # The next subject waits for the one before it: what is left must be known.
                    if enough:
                        try:
                            text = writer(f"Write a short text on: {subject}")
                            parts = parts + [f"## {subject}\n{text}"]
                            done = done + 1
                        except BudgetExceeded:
                            enough = False
        except BudgetExceeded:
            enough = False
        vega.file.write(f"texts/{department}.md", "\n".join(parts))
        counts[department] = Count(done=done, left=len(subjects) - done)
    return counts
