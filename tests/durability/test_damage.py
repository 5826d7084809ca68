"""Damaged, cut, planted and missing files: found, with what to do, and never a wrong answer."""

import asyncio
import os
import random
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from vegakit.cli import main
from vegakit.errors import StoreError, VegaError
from vegakit.host import Agent
from vegakit.money import dollars
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.store import SqliteLedger, list_runs

CALLS = 4


class CutOffError(Exception):
    pass


async def ask(path: Path, *, cut_off: bool, ledger: Path | None = None) -> tuple[list[str], int]:
    """The answers, each of which says which of how many requests it was, and what is left."""
    asked = iter(range(CALLS))
    model = ScriptedModel(lambda _: f"answer {next(asked)}")
    money = None if ledger is None else SqliteLedger(ledger)
    async with Runtime("$1", journal=path, ledger=money) as rt:
        agent = Agent("a", model=model)
        said = [(await rt.ask(agent, f"q{number}")).text for number in range(CALLS)]
        if cut_off:
            raise CutOffError
        return said, await rt.remaining() or 0


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A run that was cut off with four answers recorded, all of it in one file."""
    path = tmp_path / "run.db"
    with pytest.raises(CutOffError):
        asyncio.run(ask(path, cut_off=True))
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA wal_checkpoint(truncate)")
    return path


RIGHT = [f"answer {number}" for number in range(CALLS)]


def test_a_flipped_bit_in_a_recorded_answer_is_refused(recorded: Path) -> None:
    """It is another text that could well be an answer."""
    text = recorded.read_bytes()
    assert text.count(b"answer 2") >= 1
    recorded.write_bytes(text.replace(b"answer 2", b"answer 3"))
    with pytest.raises(StoreError, match=r"run.db was damaged.*type: mkdir -p "):
        asyncio.run(ask(recorded, cut_off=False))


def test_random_flips_are_found_or_harmless(recorded: Path) -> None:
    """Wherever they are: the answers are the right ones, or it is said what to do."""
    good, chance = recorded.read_bytes(), random.Random(14)
    told: list[str] = []
    for _ in range(60):
        at = chance.randrange(len(good))
        recorded.write_bytes(
            good[:at] + bytes([good[at] ^ 1 << chance.randrange(8)]) + good[at + 1 :]
        )
        for left in ("-wal", "-shm"):
            Path(f"{recorded}{left}").unlink(missing_ok=True)
        try:
            said, _ = asyncio.run(ask(recorded, cut_off=False))
        except VegaError as error:
            told.append(str(error))
        else:
            assert said == RIGHT
    assert told
    assert all("; " in one or "type: " in one for one in told)
    assert not [one for one in told if "by another run" in one], "one that was refused lets go"


def test_a_journal_that_was_refused_can_be_put_right_by_the_same_process(recorded: Path) -> None:
    """A server that could not begin lets go of the file, and begins when it is there again."""
    good = recorded.read_bytes()
    os.truncate(recorded, 100)
    for _ in range(2):
        with pytest.raises(StoreError, match="was cut"):
            asyncio.run(ask(recorded, cut_off=False))
    recorded.write_bytes(good)
    assert asyncio.run(ask(recorded, cut_off=False))[0] == RIGHT


@pytest.mark.parametrize("left", [0, 1, 50, 100, 4_096, 8_000])
def test_an_empty_or_cut_journal_is_refused(recorded: Path, left: int) -> None:
    """It does not start over in silence."""
    os.truncate(recorded, left)
    for left_over in ("-wal", "-shm"):
        Path(f"{recorded}{left_over}").unlink(missing_ok=True)
    with pytest.raises(StoreError, match=r"was cut.*type: mkdir -p "):
        asyncio.run(ask(recorded, cut_off=False))
    with pytest.raises(StoreError, match="was cut"):
        list_runs(recorded)


def test_a_planted_journal_is_refused(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answers, and the command it would have us start, come from somebody else."""
    monkeypatch.setenv("VEGA_DATA_DIR", str(recorded.parent / "another user"))
    with pytest.raises(StoreError, match="written by somebody else"):
        asyncio.run(ask(recorded, cut_off=False))
    with pytest.raises(StoreError, match="written by somebody else"):
        list_runs(recorded)


def test_a_log_without_its_file_is_refused_until_the_advice_is_followed(recorded: Path) -> None:
    """SQLite would take it for the log of the file that is made next under this name."""
    log = Path(f"{recorded}-wal")
    log.write_bytes(b"left by a killed process")
    recorded.unlink()
    with pytest.raises(StoreError, match="the log of a file that is gone") as refused:
        asyncio.run(ask(recorded, cut_off=False))
    advice = str(refused.value).rpartition("type: ")[2]
    subprocess.run(advice, shell=True, check=True)
    assert asyncio.run(ask(recorded, cut_off=False))[0] == RIGHT
    assert (recorded.parent / "damaged" / log.name).exists()


def test_a_deleted_ledger_is_rebuilt_from_the_journal(tmp_path: Path) -> None:
    """What the journal knows to be spent is not there to be spent again."""
    path, money = tmp_path / "run.db", tmp_path / "money.db"
    with pytest.raises(CutOffError):
        asyncio.run(ask(path, cut_off=True, ledger=money))
    [run] = list_runs(path)
    assert run.spent > 0
    money.unlink()
    said, left = asyncio.run(ask(path, cut_off=False, ledger=money))
    assert said == RIGHT
    assert left == dollars("$1") - run.spent


def test_a_ledger_that_is_whole_is_not_charged_again(recorded: Path) -> None:
    """Also not after its claims were pruned, since what a scope has spent is kept."""
    [run] = list_runs(recorded)
    with closing(sqlite3.connect(recorded)) as file, file:
        file.execute("DELETE FROM claims")
    said, left = asyncio.run(ask(recorded, cut_off=False))
    assert (said, left) == (RIGHT, dollars("$1") - run.spent)


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (lambda path: path.mkdir(), "is not a file; name another file"),
        (lambda path: path.symlink_to("elsewhere.db"), "is a link; name the file"),
        (lambda path: path.parent.rmdir() or path.parent.write_text(""), "write"),
        (lambda path: shutil.copy(__file__, path), "not a SQLite file; name another file"),
    ],
    ids=["folder", "link", "file for a folder", "something else"],
)
def test_a_place_that_cannot_be_written_is_told_in_one_line(
    harm: Callable[[Path], object], told: str, tmp_path: Path
) -> None:
    """And what to do; no traceback."""
    path = tmp_path / "folder" / "run.db"
    path.parent.mkdir()
    harm(path)
    with pytest.raises(StoreError, match=told) as error:
        asyncio.run(ask(path, cut_off=False))
    assert "\n" not in str(error.value)


def test_a_read_only_folder_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By `vega run`, too. Even root may not write below /proc."""
    (tmp_path / "main.vega").write_text("fn main() -> int { return 1; }")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VEGA_DATA_DIR", "/proc/nowhere")
    assert main(["run", "main.vega"]) == 1
    told = capsys.readouterr().err
    assert "Traceback" not in told
    assert "/proc/nowhere" in told
    assert "write" in told
