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
    for task in vega.list.take(tasks, 20):
        if task.owner is not None:
            done = done + [task]
        else:
            owner = vega.human.ask(f"Who should own this task: {task.title}", timeout="10s")
            if owner is not None:
                assigned = assigned + 1
            else:
                unowned = unowned + 1
            done = done + [Task(title=task.title, owner=owner)]
    vega.file.write("tasks.json", vega.json.text(done))
    return Result(assigned=assigned, open=unowned)
