from typing import Annotated

from pydantic import BaseModel
from vegakit import Agent, MaxLen, program, vega


class Report(BaseModel):
    suite: str
    passed: bool
    reason: str | None


@program.tool(capabilities=["process::exec"], allowed_commands=["sh scripts/suite.sh **"])
def run_suite(name: str) -> str:
    "Runs a test suite; gives its exit code and its output."
    ran = vega.exec.look(f"sh scripts/suite.sh {name}")
    return f"exit code {ran.code}\n{ran.out}"


tester = Agent(
    "tester",
    model="smart",
    system="Run the suite with the tool and report whether it passed, and if not, why.",
    max_tokens=300,
    max_steps=4,
    tools=[run_suite],
)


@program(budget="$5")
def main(suites: Annotated[list[str], MaxLen(6)]) -> list[Report]:
    failed: list[Report] = []
    for suite in suites:
        report = tester.ask(f"Run the test suite {suite} and report.", returns=Report)
        if not report.passed:
            failed = failed + [report]
    return failed
