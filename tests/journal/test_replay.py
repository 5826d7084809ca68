"""The fixture `vega_replay`: a program's test on the answers of a recorded run."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.journal.test_formats import FORMAT, STORED
from tests.journal.test_resume import CutOffError, echo, three_asks
from vegakit.conversation import ModelRequest
from vegakit.errors import ProgramChanged, UserError
from vegakit.host import Agent
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.store import list_runs

Replays = Callable[..., None]


def asked(request: ModelRequest) -> str:
    raise AssertionError("a model was asked")


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def test_a_program_runs_on_what_was_recorded(vega_replay: Replays, tmp_path: Path) -> None:
    """As it stands, whatever journal it names itself; that one is not even made."""
    said = await three_asks(tmp_path / "recorded.db", ScriptedModel(echo))
    before = (tmp_path / "recorded.db").read_bytes()
    vega_replay(tmp_path / "recorded.db")
    assert await three_asks(tmp_path / "other.db", ScriptedModel(asked)) == said
    assert not (tmp_path / "other.db").exists()
    assert (tmp_path / "recorded.db").read_bytes() == before


async def test_nothing_is_asked_beyond_the_record(vega_replay: Replays, tmp_path: Path) -> None:
    """Also where the program has no journal."""
    await three_asks(tmp_path / "recorded.db", ScriptedModel(echo))
    vega_replay(tmp_path / "recorded.db")
    agent = Agent("a", model=ScriptedModel(asked))
    async with Runtime() as rt:
        assert (await rt.ask(agent, "question 1")).text == "echo question 1"
    with pytest.raises(ProgramChanged, match="nothing is recorded"):
        async with Runtime() as rt:
            await rt.ask(agent, "another question")


async def test_a_run_is_chosen_by_its_id(vega_replay: Replays, tmp_path: Path) -> None:
    """The last one if none is."""
    path = tmp_path / "recorded.db"
    await three_asks(path, ScriptedModel(lambda _: "first"))
    await three_asks(path, ScriptedModel(lambda _: "second"))
    for run, word in ((list_runs(path)[0].run.program, "first"), ("", "second")):
        vega_replay(path, run)
        assert await three_asks(tmp_path / "other.db", ScriptedModel(asked)) == [word] * 3
    vega_replay(path, "none")
    with pytest.raises(UserError, match="holds no run none; to see those it holds"):
        await three_asks(tmp_path / "other.db", ScriptedModel(asked))


async def test_a_stored_journal_replays_as_far_as_it_goes(
    vega_replay: Replays, tmp_path: Path
) -> None:
    """Its third call was cut off; it needs no lock, and leaves nothing beside it."""
    stored = tmp_path / "stored.db"
    shutil.copy(STORED / f"format-{FORMAT}.db", stored)
    vega_replay(stored)
    with pytest.raises(CutOffError):
        await three_asks(tmp_path / "other.db", ScriptedModel(asked), stop_after=2)
    with pytest.raises(ProgramChanged, match="was cut off here or before"):
        await three_asks(tmp_path / "other.db", ScriptedModel(asked))
    assert names_in(tmp_path) == ["stored.db"]
