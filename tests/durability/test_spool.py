"""A reply that the gate has received is never bought again, whatever was not yet recorded."""

import asyncio
import errno
import os
import signal
import stat
from collections.abc import Awaitable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.durability.lives import LoggedModel, asked, die, live
from vegakit.conversation import ModelReply
from vegakit.errors import StoreError
from vegakit.events import Answered, EffectOutcome
from vegakit.host import Agent
from vegakit.ids import EffectKey, ProgramId
from vegakit.money import Money, dollars
from vegakit.policy import Settlement
from vegakit.ports import KeptOutcome
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.store import SqliteJournal, SqliteLedger, list_runs
from vegakit.store.seals import Seal
from vegakit.store.spool import Spool
from vegakit.tools import tool

BURST = 60
QUESTIONS = sorted(f"q{number}" for number in range(BURST))


class KilledInABurst(SqliteLedger):
    """Settles nothing, and kills its process when all replies of the burst wait to be settled."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._waiting = 0

    async def answer(self, *facts: Any, **more: Any) -> Settlement:
        self._waiting += 1
        if self._waiting == BURST:
            die()
        return await asyncio.get_running_loop().create_future()


async def ask_all(folder: Path, *, is_killed: bool) -> None:
    journal, money = folder / "run.db", folder / "money.db"
    ledger = KilledInABurst(money) if is_killed else SqliteLedger(money)
    async with Runtime("$5", journal=journal, ledger=ledger) as rt:
        agent = Agent("a", model=LoggedModel(folder / "asked"))
        replies = await asyncio.gather(*(rt.ask(agent, question) for question in QUESTIONS))
        assert [reply.text for reply in replies] == [f"<{question}>" for question in QUESTIONS]
        left = await rt.remaining()
        assert left == dollars("$5") - sum(reply.cost for reply in replies)


def test_replies_of_a_burst_are_not_bought_again_after_a_kill(tmp_path: Path) -> None:
    """Sixty replies have arrived and none is recorded or settled when the process is killed."""
    assert live(_killed, tmp_path) == -signal.SIGKILL
    assert asked(tmp_path / "asked") == QUESTIONS
    assert live(_resumed, tmp_path) == 0
    assert asked(tmp_path / "asked") == QUESTIONS


async def _killed(folder: Path) -> None:
    await ask_all(folder, is_killed=True)


async def _resumed(folder: Path) -> None:
    await ask_all(folder, is_killed=False)


class KilledAtTheTool(SqliteJournal):
    """Kills its process when what a tool did is to be recorded."""

    def record(self, key: EffectKey, outcome: EffectOutcome) -> Awaitable[None]:
        if isinstance(outcome, Answered) and not isinstance(outcome.value, ModelReply):
            die()
        return super().record(key, outcome)


async def pay_once(folder: Path, *, is_killed: bool) -> None:
    @tool()
    async def pay() -> str:
        """Pay."""
        with (folder / "paid").open("a") as file:
            file.write("paid\n")
        return "paid"

    calls: dict[str, Any] = {"calls": [{"name": "pay"}]}
    model = ScriptedModel(lambda request: "done" if len(request.messages) > 2 else calls)
    path = folder / "run.db"
    async with Runtime(journal=KilledAtTheTool(path) if is_killed else path) as rt:
        reply = await rt.ask(Agent("a", model=model, tools=[pay]), "pay")
        assert reply.text == "done"


def test_a_tool_that_has_answered_is_not_called_again_after_a_kill(tmp_path: Path) -> None:
    """Nor is it unknown what it did: its answer was kept."""
    assert live(_pay_and_die, tmp_path) == -signal.SIGKILL
    [run] = list_runs(tmp_path / "run.db")
    assert (run.recorded, run.cut_off) == (2, 0)
    assert live(_paid, tmp_path) == 0
    assert asked(tmp_path / "paid") == ["paid"]


async def _pay_and_die(folder: Path) -> None:
    await pay_once(folder, is_killed=True)


async def _paid(folder: Path) -> None:
    await pay_once(folder, is_killed=False)


def frame(number: int, text: str = "reply") -> KeptOutcome:
    key = EffectKey(f"effect{number}")
    return KeptOutcome(ProgramId("run"), key, 1, Money(7), Answered(text, Money(7)))


def written(path: Path, *frames: KeptOutcome) -> None:
    spool = Spool(path, Seal(b"secret"))
    for one in frames:
        spool.append(one)
    spool.close()


def test_a_spool_gives_back_what_was_appended(tmp_path: Path) -> None:
    """In its order; only its user may read it."""
    path, frames = tmp_path / "spool", [frame(1), frame(2, "ä" * 5_000)]
    written(path, *frames)
    with closing(Spool(path, Seal(b"secret"))) as spool:
        assert spool.read() == frames
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("left", [1, 20, 40, 60, -1])
def test_a_torn_last_frame_is_left_out(tmp_path: Path, left: int) -> None:
    """It was being written when the process was killed. What follows is appended where it began."""
    path = tmp_path / "spool"
    written(path, frame(1))
    whole = path.stat().st_size
    written(path, frame(2))
    os.truncate(path, whole + left if left > 0 else path.stat().st_size - 1)
    with closing(Spool(path, Seal(b"secret"))) as spool:
        assert spool.read() == [frame(1)]
        spool.append(frame(3))
        assert spool.read() == [frame(1), frame(3)]


def test_every_flipped_bit_is_refused(tmp_path: Path) -> None:
    """Wherever it is: in a length, a seal or the content; never an answer."""
    path = tmp_path / "spool"
    written(path, frame(1), frame(2))
    good = path.read_bytes()
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1 << at % 8]) + good[at + 1 :])
        with (
            closing(Spool(path, Seal(b"secret"))) as spool,
            pytest.raises(StoreError, match="type: mv"),
        ):
            spool.read()


def test_a_spool_of_another_user_is_refused(tmp_path: Path) -> None:
    """It is sealed with another secret."""
    written(tmp_path / "spool", frame(1))
    spool = Spool(tmp_path / "spool", Seal(b"another secret"))
    with closing(spool), pytest.raises(StoreError, match="not written by you"):
        spool.read()


def test_a_spool_is_not_opened_through_a_link(tmp_path: Path) -> None:
    """It could lead to a file of another program."""
    (tmp_path / "precious").write_text("do not truncate")
    (tmp_path / "spool").symlink_to(tmp_path / "precious")
    with pytest.raises(StoreError, match="no link"):
        Spool(tmp_path / "spool", Seal(b"secret"))
    assert (tmp_path / "precious").read_text() == "do not truncate"


def test_a_spool_is_emptied_when_all_of_it_is_recorded(tmp_path: Path) -> None:
    """Not before: what still waits would be lost."""
    path = tmp_path / "spool"
    spool = Spool(path, Seal(b"secret"), most_bytes=10)
    for number in (1, 2):
        spool.append(frame(number))
    spool.done(frame(1).key)
    assert spool.read() == [frame(1), frame(2)]
    spool.done(frame(1).key)
    spool.done(frame(2).key)
    assert path.stat().st_size == 0


def test_an_answer_has_its_place_before_it_arrives(tmp_path: Path) -> None:
    """The disk has it, and takes no more of it when the answer comes."""
    path, long = tmp_path / "spool", frame(1, "x" * 200_000)
    with closing(Spool(path, Seal(b"secret"))) as spool:
        spool.make_place(long.key, 250_000)
        spool.make_place(frame(2).key, 250_000)
        allocated = path.stat().st_blocks
        assert allocated * 512 >= 500_000
        spool.append(long)
        spool.append(frame(2))
        assert path.stat().st_blocks == allocated
        assert spool.read() == [long, frame(2)]


def test_a_place_that_is_left_is_given_to_others(tmp_path: Path) -> None:
    """A call that was given up, or whose answer was short, holds no room."""
    path = tmp_path / "spool"
    with closing(Spool(path, Seal(b"secret"))) as spool:
        for number in range(100):
            spool.make_place(frame(number).key, 60_000)
            spool.leave_place(frame(number).key)
        assert path.stat().st_size < 200_000


def test_a_call_without_a_place_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it is sent, with what to do; what has a place keeps it."""

    def full(file: int, offset: int, length: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with closing(Spool(tmp_path / "spool", Seal(b"secret"))) as spool:
        spool.make_place(frame(1).key, 1_000)
        monkeypatch.setattr(os, "posix_fallocate", full)
        with pytest.raises(StoreError, match="make room"):
            spool.make_place(frame(2).key, 1_000_000)
        spool.append(frame(1))
        assert spool.read() == [frame(1)]


@pytest.mark.parametrize("kind", ["missing", "not supported"])
def test_a_system_that_allocates_nothing_is_written_zeros(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """As on macOS, and on file systems that cannot."""

    def refuse(file: int, offset: int, length: int) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    if kind == "missing":
        monkeypatch.delattr(os, "posix_fallocate")
    else:
        monkeypatch.setattr(os, "posix_fallocate", refuse)
    with closing(Spool(tmp_path / "spool", Seal(b"secret"))) as spool:
        spool.make_place(frame(1).key, 100_000)
        assert (tmp_path / "spool").stat().st_blocks * 512 >= 100_000
        spool.append(frame(1))
        assert spool.read() == [frame(1)]


def killed(path: Path, *frames: KeptOutcome) -> bytes:
    """Return the file of a process that was killed: places stand behind its frames."""
    spool = Spool(path, Seal(b"secret"))
    spool.make_place(EffectKey("in flight"), 10_000)
    for one in frames:
        spool.append(one)
    return path.read_bytes()


@pytest.mark.parametrize("left", [0, 1, 20, 40, 60, -1])
def test_a_frame_that_is_cut_among_places_is_left_out(tmp_path: Path, left: int) -> None:
    """Zeros stand where the rest of it should be. What follows is written where it began."""
    path = tmp_path / "spool"
    whole = len(killed(tmp_path / "other", frame(1)).rstrip(b"\0"))
    content = killed(path, frame(1), frame(2))
    end = whole + left if left >= 0 else len(content.rstrip(b"\0")) - 1
    path.write_bytes(content[:end].ljust(len(content), b"\0"))
    with closing(Spool(path, Seal(b"secret"))) as spool:
        assert spool.read() == [frame(1)]
        spool.append(frame(3))
        assert spool.read() == [frame(1), frame(3)]


@pytest.mark.parametrize("at", [0, 20, 60])
def test_pages_that_the_power_took_are_left_out(tmp_path: Path, at: int) -> None:
    """The disk wrote a later page and not this one: what was before it is kept."""
    path = tmp_path / "spool"
    first = len(killed(tmp_path / "other", frame(1)).rstrip(b"\0"))
    content = killed(path, frame(1), frame(2, "x" * 5_000), frame(3))
    hole = first + at
    path.write_bytes(content[:hole] + bytes(4_096) + content[hole + 4_096 :])
    with closing(Spool(path, Seal(b"secret"))) as spool:
        assert spool.read() == [frame(1)]


def test_a_run_that_ends_leaves_an_empty_spool(tmp_path: Path) -> None:
    """And a journal and a lock that only its user may read."""
    path, spool = tmp_path / "run.db", tmp_path / "run.db.spool"

    async def ask() -> int:
        async with Runtime(journal=path) as rt:
            await rt.ask(Agent("a", model=LoggedModel(tmp_path / "asked")), "q")
            return spool.stat().st_size

    assert asyncio.run(ask()) > 0
    assert spool.stat().st_size == 0
    for name in ("run.db.spool", "run.db.lock"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
