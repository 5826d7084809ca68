from typing import Annotated

from pydantic import BaseModel
from vegakit import Agent, MaxLen, program, vega


class Result(BaseModel):
    path: str
    code: int
    problems: int
    advice: str | None


adviser = Agent("adviser", model="smart", system="Say briefly how to fix lint problems.", max_tokens=300)


@program(may=["process::exec"], allowed_commands=["sh scripts/lint.sh **"], budget="$5")
def main(files: Annotated[list[str], MaxLen(20)]) -> list[Result]:
    results: list[Result] = []
    for path in files:
        ran = vega.exec.run(f"sh scripts/lint.sh {path}")
        problems = [line for line in vega.str.lines(ran.out) if line.strip() != ""]
        advice: str | None = None
        if ran.code == 1:
            advice = adviser(f"How should these problems be fixed?\n{ran.out}")
        results = results + [
            Result(path=path, code=ran.code, problems=len(problems), advice=advice)
        ]
    return results
