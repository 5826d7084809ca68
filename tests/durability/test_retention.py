"""What the journal of a user forgets, and what it never forgets."""

import json
import os
from contextlib import aclosing
from pathlib import Path

import pytest

from vegakit.cli import main
from vegakit.conversation import ModelRequest, ModelSettings
from vegakit.effects import CallModel, EffectPath, Incarnation, Site, effect
from vegakit.errors import StoreError
from vegakit.events import Answered
from vegakit.host import Agent
from vegakit.ids import ProgramId, ScopeId, TenantId
from vegakit.money import Money
from vegakit.ports import RunRecord
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.store import SqliteJournal
from vegakit.store.sqlite.journal import forget_runs, list_runs

DAY_MS = 86_400_000
TEXT = 100_000


async def recorded(path: Path, program: str, ended_ms: int | None, chars: int = 100) -> None:
    async with aclosing(SqliteJournal(path, shared=True)) as journal:
        await journal.begin(RunRecord(ProgramId(program), 0))
        request = CallModel(ModelRequest("m", (), ModelSettings(1)), Money(1), ScopeId("s"))
        where = EffectPath(TenantId("t"), ProgramId(program), (Incarnation("a", 1),), Site("f", 0))
        made = effect(where, request)
        await journal.claim(made, 0)
        await journal.record(made.key, Answered("x" * chars))
        if ended_ms is not None:
            await journal.end(ended_ms)


def left(path: Path) -> list[str]:
    return [one.run.program for one in list_runs(path)]


async def test_ended_runs_are_forgotten_by_age_and_unfinished_ones_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "vega.db"
    for program, ended_ms in (("1", 5), ("2", None), ("3", 20)):
        await recorded(path, program, ended_ms)
    assert forget_runs(path, 10, 1_000_000_000, dry_run=True).runs == ("1",)
    assert left(path) == ["1", "2", "3"]
    assert forget_runs(path, 10, 1_000_000_000).runs == ("1",)
    assert left(path) == ["2", "3"]
    assert sorted(file.name for file in (tmp_path / "runs").iterdir()) == [
        *("2.lock", "2.spool"),
        *("3.lock", "3.spool"),
    ]


async def test_the_oldest_are_forgotten_while_it_is_too_large(tmp_path: Path) -> None:
    """As many as it takes, and no more; the space is given back to who asks for that."""
    path = tmp_path / "vega.db"
    for number in range(5):
        await recorded(path, str(number), number, TEXT)
    before = path.stat().st_size
    assert forget_runs(path, 0, 3 * TEXT, shrink=True).runs == ("0", "1", "2")
    assert left(path) == ["3", "4"]
    assert path.stat().st_size < before / 2


async def test_who_has_something_else_to_do_forgets_a_few(tmp_path: Path) -> None:
    path = tmp_path / "vega.db"
    for number in range(5):
        await recorded(path, str(number), number)
    assert forget_runs(path, 100, 1_000_000_000, at_most=2).runs == ("0", "1")


def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: str = "") -> Path:
    config = tmp_path / "config" / "vega" / "vega.toml"
    config.parent.mkdir(parents=True)
    config.write_text(settings)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "data" / "vega" / "vega.db"


async def test_a_run_that_ends_forgets_what_is_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As [journal] says."""
    path = home(tmp_path, monkeypatch, '[journal]\nkeep = "1d"\n')
    async with Runtime.from_config() as rt:
        now = rt.clock.now()
        await recorded(path, "1", now - 2 * DAY_MS)
        await recorded(path, "2", now)
        assert (await rt.ask(Agent("a", model=ScriptedModel("hi")), "hello")).text == "hi"
    assert "1" not in left(path)
    assert len(left(path)) == 2


async def test_nothing_is_recorded_where_the_settings_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = home(tmp_path, monkeypatch, "[journal]\nenabled = false\n")
    async with Runtime.from_config() as rt:
        assert (await rt.ask(Agent("a", model=ScriptedModel("hi")), "hello")).text == "hi"
    with pytest.raises(StoreError, match="there is no journal"):
        list_runs(path)


def test_gc_says_what_it_forgot_and_what_it_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import asyncio

    path = home(tmp_path, monkeypatch)
    assert main(["gc"]) == 0
    assert f"nothing is recorded in {path}" in capsys.readouterr().out
    asyncio.run(recorded(path, "1", 1, TEXT))
    asyncio.run(recorded(path, "2", None))
    assert main(["gc", "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert "would forget 1 ended run, 100." in told
    assert "1 unfinished run older than 30 d kept" in told
    assert left(path) == ["1", "2"]
    aside = path.parent / "traces.jsonl.1"
    aside.write_text("{}\n")
    assert main(["gc"]) == 0
    assert "forgot 1 ended run," in capsys.readouterr().out
    assert aside.exists()
    os.utime(aside, (1, 1))
    assert main(["gc", "--dry-run"]) == 0
    assert "would forget old traces, 3 bytes" in capsys.readouterr().out
    assert aside.exists()
    assert main(["gc"]) == 0
    assert "forgot old traces, 3 bytes" in capsys.readouterr().out
    assert not aside.exists()
    assert main(["runs", "--json"]) == 0
    assert [one["run"]["program"] for one in json.loads(capsys.readouterr().out)] == ["2"]
