"""Hostile programs: refused before anything of them runs, or ended by a bound."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.compiled.test_bridge import written
from vegakit.errors import AgentFailed, VegaError, error_name
from vegakit.lang import check_program
from vegakit.program import Printed
from vegakit.providers import ScriptedModel
from vegakit.sdk import ProgramRefused, Runtime

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "data/attacks/vega.jsonl").read_text().splitlines()
]
REFUSED = [row for row in ROWS if row["expect"] == "refused" and "input" in row]
BOUNDED = [row for row in ROWS if row["expect"] == "bounded"]
BOMBS = [row for row in ROWS if "opening" in row]


def ids(row: dict[str, Any]) -> str:
    return f"{row['id']} {row['why']}"


async def outcome(folder: Path, text: str) -> tuple[VegaError | None, int, list[str]]:
    """Its error if it had one, how often a model was asked, what it printed."""
    model, printed = ScriptedModel(lambda _: "said"), list[str]()
    async with Runtime("$5", models=lambda _: model) as rt:
        rt.on(Printed, lambda news: printed.append(news.text))
        try:
            await rt.load(written(folder, text)).main()
        except VegaError as error:
            return error, len(model.requests), printed
    return None, len(model.requests), printed


def test_the_attacks_are_all_here() -> None:
    """A row that is lost is not a row that was held."""
    assert len(REFUSED) + len(BOUNDED) + len(BOMBS) == len(ROWS) == 54


@pytest.mark.parametrize("row", REFUSED, ids=ids)
async def test_it_is_refused_and_does_nothing(tmp_path: Path, row: dict[str, Any]) -> None:
    """For the reason that is meant."""
    error, calls, printed = await outcome(tmp_path, row["input"])
    assert isinstance(error, ProgramRefused)
    assert [one.code for one in error.diagnostics if one.severity == "error"] == row["codes"]
    assert (calls, printed, _names_in(tmp_path)) == (0, [], ["main.vega"])


@pytest.mark.parametrize("row", BOUNDED, ids=ids)
async def test_it_ends_by_a_bound(tmp_path: Path, row: dict[str, Any]) -> None:
    """And asks a model no more than it may."""
    error, calls, _ = await outcome(tmp_path, row["input"])
    assert ("" if error is None else error_name(error)) == row["error"]
    assert calls <= row.get("most_calls", 0)


@pytest.mark.parametrize("row", BOMBS, ids=ids)
def test_a_bomb_is_refused(row: dict[str, Any]) -> None:
    """In words that can be shown."""
    text = row["opening"] * row["times"] + row["closing"] * row["times"]
    checked, found = check_program(text, "main.vega", lambda _: None)
    assert checked is None
    assert 1 <= len(found) <= 100


@pytest.mark.parametrize("name", ["a/b", "a#b", "a#2", "x|1:2", "", "\x1b[2J", "n" * 201])
async def test_a_name_cannot_be_taken_for_a_path(tmp_path: Path, name: str) -> None:
    """With such a name a process could stand in another's place, or end the whole runtime."""
    text = 'agent A { model m } let a = spawn A named {name}; a <- "x"; print("sent");'
    error, _, printed = await outcome(tmp_path, text.replace("{name}", _quoted(name)))
    assert isinstance(error, AgentFailed) == bool(name)
    assert printed == ([] if name else ["sent"])


def _names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def _quoted(name: str) -> str:
    return '"' + "".join(f"\\u{{{ord(char):x}}}" for char in name) + '"'
