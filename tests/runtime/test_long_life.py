"""A runtime keeps nothing of programs and questions that have ended."""

from pathlib import Path

import msgspec
import pytest

from vegakit.host import Agent
from vegakit.providers.scripted import ScriptedModel
from vegakit.sdk.programs import load
from vegakit.sdk.runtime import Runtime

TEXT = """
agent echo { model "any" max_tokens 50 }
fn main(n: int) -> int {
    session budget $0.10 {
        let worker = spawn echo;
        let said = worker <- "{n}";
        let other = echo <- "{n} {said}";
    }
    return n;
}
"""


PYTHON = """
from vegakit import Agent, program

echo = Agent("echo", model="any", max_tokens=50)


@program
def main(n: int) -> str:
    said = echo.ask(f"{n}")
    return echo.ask(f"{n} {said}")
"""
PIPELINE = """
stages:
  - {name: plan, agent: planner, default_next: write}
  - {name: write, agent: writer}
agents:
  planner: {model: any, prompt: "Plan {input}"}
  writer: {model: any}
bounds: {max_iterations: 3}
"""
PROGRAMS = {"main.vega": TEXT, "main.py": PYTHON, "main.yaml": PIPELINE}


def _sizes(rt: Runtime) -> dict[str, int]:
    state = rt.program.machine.state
    parts = {name: getattr(state, name) for name in state.__struct_fields__} | vars(rt.program)
    return {name: len(part) for name, part in parts.items() if isinstance(part, dict | list | set)}


@pytest.mark.parametrize("journal", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
async def test_what_is_kept_does_not_grow_with_what_has_ended(
    tmp_path: Path, name: str, *, journal: bool
) -> None:
    file = tmp_path / name
    file.write_text(PROGRAMS[name], encoding="utf-8")
    place = tmp_path / "run.db" if journal else None
    model, program, sizes, lengths = ScriptedModel(lambda _: "yes"), load(file), [], []
    agent = Agent("asked", model=model)
    async with Runtime("$100", models=lambda _: model, journal=place) as rt:
        for number in range(20):
            await rt.run(program, f"{number}" if name.endswith("yaml") else number)
            await rt.ask(agent, f"question {number}")
            if number in (9, 19):
                sizes.append(_sizes(rt))
                lengths.append(len(msgspec.json.encode(rt.program.machine.state)))
    if journal:  # which question of equal ones it was, as the journal names them
        assert sizes[1].pop("_equals") - sizes[0].pop("_equals") == 10
    assert sizes[1] == sizes[0]
    assert lengths[1] <= lengths[0] + 40
