"""A reply that the gate has received is never bought again, whatever was not yet recorded."""

import asyncio
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
from vegakit.ports.storage import KeptOutcome
from vegakit.providers.scripted import ScriptedModel
from vegakit.sdk.runtime import Runtime
from vegakit.store.seals import Seal
from vegakit.store.spool import Spool
from vegakit.store.sqlite.journal import SqliteJournal
from vegakit.store.sqlite.stores import SqliteLedger
from vegakit.tools.decorator import tool

BURST = 60
QUESTIONS = sorted(f"q{number}" for number in range(BURST))


class KilledInABurst(SqliteLedger):
    """Settles nothing, and kills its process when all replies of the burst wait to be settled."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._waiting = 0

    async def answer(self, effect: EffectKey, attempt: int, bill: Money, now: int) -> Settlement:
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
