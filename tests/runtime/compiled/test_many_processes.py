"""Thousands of processes of one program, each sent to by its handle."""

from pathlib import Path

import pytest

from vegakit.cli import main
from vegakit.errors import LimitReached
from vegakit.program import Bounds
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime

PROGRAM = """agent A { model m  max_tokens 10 }
fn main(n: int) -> int {
    let all = [for i in range(n) { spawn A }];
    let total = 0;
    for a in all { total = total + len(a <- "hi"); }
    return total;
}
"""
SPAWNING = """agent A { model fast  max_tokens 10 }
fn main(n: int) -> int { return len([for i in range(n) { spawn A }]); }
"""
MANY = 2_000


async def spawned(folder: Path, count: int, bounds: Bounds | None = None) -> int:
    (folder / "many.vega").write_text(PROGRAM)
    model = ScriptedModel(lambda _: "ok")
    async with Runtime("$10", models=lambda _: model, bounds=bounds) as rt:
        return await rt.load(folder / "many.vega").main(count)


async def test_thousands_live_at_once(tmp_path: Path) -> None:
    """Each is a record and answers; fuel and the quote are no hindrance."""
    assert await spawned(tmp_path, MANY, Bounds(width=MANY, living=MANY + 1)) == MANY * len("ok")


def test_a_program_spawns_thousands_by_two_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They may stand in vega.toml or in the environment too."""
    path, said = tmp_path / "many.vega", tmp_path / "s.json"
    path.write_text(SPAWNING)
    said.write_text('["never asked"]')
    bounds = ["--set", f"bounds.width={MANY}", "--set", f"bounds.living={MANY + 1}"]
    run = ["run", "--no-journal", "--model", f"scripted:{said}", str(path), str(MANY)]
    assert main([*run, *bounds]) == 0
    assert capsys.readouterr().out == f"{MANY}\n"


@pytest.mark.parametrize(
    ("bounds", "name"), [(None, "width=50"), (Bounds(width=MANY, living=100), "living=100")]
)
async def test_a_bound_is_named_with_its_setting(
    bounds: Bounds | None, name: str, tmp_path: Path
) -> None:
    """It stops a runaway, and whoever means so many is told what to write."""
    with pytest.raises(LimitReached, match=rf"bound {name} is reached.*vega\.toml, \[bounds\]"):
        await spawned(tmp_path, 200, bounds)
