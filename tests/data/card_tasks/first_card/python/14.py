from typing import Annotated

from pydantic import BaseModel
from vegakit import Agent, MaxLen, program, vega


class Outcome(BaseModel):
    suite: str
    passed: bool
    reason: str | None


@program.tool(capabilities=["process::exec"], allowed_commands=["sh scripts/suite.sh **"])
def run_suite(name: str) -> str:
    "Runs a test suite and gives its exit code and what it printed."
    ran = vega.exec.run(f"sh scripts/suite.sh {name}")
    return f"exit code {ran.code}\n{ran.out}"


tester = Agent(
    "tester",
    model="smart",
    system="Run the suite with your tool and report whether it passed, and if not, why.",
    max_tokens=300,
    max_steps=4,
    budget="$0.50",
    tools=[run_suite],
)


@program(budget="$5")
def main(suites: Annotated[list[str], MaxLen(6)]) -> list[Outcome]:
    outcomes = [tester.ask(f"Does the suite {name} pass?", returns=Outcome) for name in suites]
    return [o for o in outcomes if not o.passed]
