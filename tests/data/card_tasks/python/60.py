from pydantic import BaseModel
from vegakit import Agent, ToolFailed, program, vega


class Chat(BaseModel):
    text: str


class Report(BaseModel):
    done: int
    advice: str | None


adviser = Agent("adviser", model="fast", system="You help with runbooks.", max_tokens=300)


@program(
    may=["fs::read", "fs::write", "process::exec", "net::get", "net::post"],
    allowed_paths=["runbook.json", "runbook.log"],
    allowed_commands=["sh **"],
    allowed_hosts=["127.0.0.1:8931"],
    budget="$5",
)
def main(base: str) -> Report:
    steps = vega.cast(vega.json.parse(vega.file.read("runbook.json")), list[dict[str, str]])
    log: list[str] = []
    done = 0
    failed = False
    trouble = ""
    for i, step in enumerate(vega.list.take(steps, 15)):
        if not failed:
            number = i + 1
            kind = step["kind"]
            printed = ""
            if kind == "command":
                name = step["name"]
                ran = vega.exec.run(f"sh scripts/{name}.sh")
                if ran.code != 0:
                    failed = True
                    printed = f" It printed:\n{ran.out}"
            elif kind == "check":
                path = step["path"]
                response = vega.http.get(f"{base}{path}")
                if response.status != 200:
                    failed = True
                    printed = f" The answer was:\n{response.body}"
            elif kind == "confirm":
                question = step["text"]
                if not vega.human.approve(question, "10s"):
                    failed = True
            else:
                said = step["text"]
                try:
                    vega.http.post(f"{base}/chat", vega.json.text(Chat(text=said)))
                except ToolFailed:
                    print(f"step {number} could not be told")
            if failed:
                trouble = f"Step {number} of a runbook, of the kind {kind}, failed.{printed}"
                log = log + [f"{number} {kind} failed"]
            else:
                done = done + 1
                log = log + [f"{number} {kind} ok"]
    advice: str | None = None
    if failed:
        advice = adviser(f"{trouble}\nWhat is to be done?")
    vega.file.write("runbook.log", "\n".join(log))
    return Report(done=done, advice=advice)
