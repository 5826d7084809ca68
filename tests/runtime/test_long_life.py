"""A runtime keeps nothing of programs and questions that have ended."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from vegakit.conversation import ModelReply, ModelRequest
from vegakit.host import Agent, registry
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime, VegaProgram, load

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


ASKING = """
agent echo {{ model "any" max_tokens 50 }}
fn main() -> str {{ return echo <- "{0}"; }}
"""


async def test_programs_that_are_new_for_each_run_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But none of which a process lives, and no name is given twice."""
    monkeypatch.setattr(registry, "_MOST_PROGRAMS", 8)
    arrived, released = asyncio.Event(), asyncio.Event()

    class Slow(ScriptedModel):
        async def ask(self, request: ModelRequest) -> ModelReply:
            if "waits" in str(request.messages):
                arrived.set()
                await released.wait()
            return await super().ask(request)

    def program(said: str, agent: str = "echo") -> VegaProgram:
        file = tmp_path / f"{said}.vega"
        file.write_text(ASKING.format(said).replace("echo", agent), encoding="utf-8")
        return load(file)

    def look() -> None:
        assert len(code) <= 2 * 8, "main and its agent, of eight programs"
        for name, body in code.items():
            assert known.setdefault(name, body) is body, f"{name} is given twice"

    model, first, known = Slow(lambda _: "yes"), program("first", "solo"), dict[str, object]()
    async with Runtime("$1000", models=lambda _: model) as rt:
        code = rt.program.registry.code
        assert await rt.run(first) == "yes"
        waiting = asyncio.create_task(rt.run(program("waits")))
        await arrived.wait()
        for number in range(30):
            assert await rt.run(program(f"other {number}")) == "yes"
            look()
        assert await rt.run(first) == "yes", "one that was forgotten can be run again"
        look()
        released.set()
        assert await waiting == "yes"
