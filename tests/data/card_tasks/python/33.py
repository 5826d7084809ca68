from typing import Annotated

from pydantic import BaseModel
from vegakit import Agent, MaxLen, program, vega


class Outcome(BaseModel):
    name: str
    state: str
    runs: int
    cause: str | None


doctor = Agent("doctor", model="smart", system="You find why a test fails.", max_tokens=300)


@program(may=["process::exec"], allowed_commands=["sh scripts/test.sh **"], budget="$5")
def main(tests: Annotated[list[str], MaxLen(10)]) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for name in tests:
        runs = 0
        passed = False
        printed = ""
        for i in range(3):
            if not passed:
                ran = vega.exec.run(f"sh scripts/test.sh {name}")
                runs = runs + 1
                printed = ran.out
                if ran.code == 0:
                    passed = True
        state = "broken"
        cause: str | None = None
        if passed:
            if runs == 1:
                state = "fine"
            else:
                state = "flaky"
        else:
            cause = doctor(f"A test failed. What is the cause? It printed:\n{printed}")
        outcomes = outcomes + [Outcome(name=name, state=state, runs=runs, cause=cause)]
    return outcomes
