from typing import Annotated

from pydantic import BaseModel
from vegakit import Agent, AgentFailed, MaxLen, program, vega


class Result(BaseModel):
    path: str
    code: int
    problems: int
    advice: str | None


adviser = Agent("adviser", model="smart", system="Advise on linter problems.", max_tokens=300)


@program(may=["process::exec"], allowed_commands=["sh scripts/lint.sh **"], budget="$5")
def main(files: Annotated[list[str], MaxLen(20)]) -> list[Result]:
    results: list[Result] = []
    for path in files:
        ran = vega.exec.look(f"sh scripts/lint.sh {path}")
        problems = len([line for line in vega.str.lines(ran.out) if len(line.strip()) > 0])
        advice: str | None = None
        if ran.code == 1:
            try:
                advice = adviser(f"How should these problems be fixed?\n{ran.out}")
            except AgentFailed as e:
                print(f"no advice for {path}: {vega.reason(e)}")
        results = results + [Result(path=path, code=ran.code, problems=problems, advice=advice)]
    return results
