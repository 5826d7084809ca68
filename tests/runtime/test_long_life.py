"""A runtime keeps nothing of programs and questions that have ended."""

from pathlib import Path

import msgspec
import pytest

from vegakit.host import Agent
from vegakit.lang.codegen.compiler import compile_program
from vegakit.lang.frontends import check_program
from vegakit.providers.scripted import ScriptedModel
from vegakit.sdk.programs import VegaProgram
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


def _program() -> VegaProgram:
    checked, diagnostics = check_program(TEXT, "main.vega", lambda _path: None)
    assert checked is not None, diagnostics
    return VegaProgram(compile_program(checked), Path())


def _sizes(rt: Runtime) -> dict[str, int]:
    state = rt.program.machine.state
    parts = {name: getattr(state, name) for name in state.__struct_fields__}
    return {name: len(part) for name, part in parts.items() if isinstance(part, dict | list)}


@pytest.mark.parametrize("journal", [False, True])
async def test_what_is_kept_does_not_grow_with_what_has_ended(
    tmp_path: Path, *, journal: bool
) -> None:
    place = tmp_path / "run.db" if journal else None
    model, program, sizes, lengths = ScriptedModel(lambda _: "yes"), _program(), [], []
    agent = Agent("asked", model=model)
    async with Runtime("$100", models=lambda _: model, journal=place) as rt:
        for number in range(20):
            await rt.run(program, number)
            await rt.ask(agent, f"question {number}")
            if number in (9, 19):
                sizes.append(_sizes(rt))
                lengths.append(len(msgspec.json.encode(rt.program.machine.state)))
    assert sizes[1] == sizes[0]
    assert lengths[1] <= lengths[0] + 40
