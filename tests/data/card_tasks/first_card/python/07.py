from pydantic import BaseModel
from vegakit import program, vega


class Task(BaseModel):
    title: str
    owner: str | None


class Result(BaseModel):
    assigned: int
    open: int


@program(may=["fs::read", "fs::write"], allowed_paths=["tasks.json"])
def main() -> Result:
    tasks = vega.cast(vega.json.parse(vega.file.read("tasks.json")), list[Task])
    done: list[Task] = []
    assigned = 0
    unowned = 0
    for task in tasks:
        owner = task.owner
        if owner is None:
            owner = vega.human.ask(f"Who should own the task: {task.title}", timeout="10s")
            if owner is None:
                unowned = unowned + 1
            else:
                assigned = assigned + 1
        done = done + [Task(title=task.title, owner=owner)]
    vega.file.write("tasks.json", vega.json.text(done))
    return Result(assigned=assigned, open=unowned)
