"""A store that is away throws no reply away: it is handed over, and its cost is written later."""

import asyncio
import logging
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.durability.lives import LoggedModel, asked
from vegakit.errors import StoreError
from vegakit.events import EffectOutcome
from vegakit.host import Agent, Backlog, retry_store
from vegakit.ids import EffectKey
from vegakit.money import dollars
from vegakit.policy import Admission, Claim, Settlement
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.store import MemoryLedger, SqliteJournal, SqliteLedger
from vegakit.testing import VirtualClock, run_virtual

AWAY = "the server is being restarted; try again"


class AwayWhenAnswered(MemoryLedger):
    """Takes no settlement until it is back."""

    def __init__(self) -> None:
        super().__init__()
        self.is_away = True

    async def answer(self, *facts: Any, **more: Any) -> Settlement:
        if self.is_away:
            raise StoreError(AWAY)
        return await super().answer(*facts, **more)


async def test_an_answer_is_handed_over_although_its_ledger_is_away(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is charged when the ledger is back, until when it stays reserved; one warning tells of the
    outage and one of its end."""
    ledger, agent = AwayWhenAnswered(), Agent("a", model=ScriptedModel("fine"))
    async with Runtime("$1", ledger=ledger) as rt:
        replies = await asyncio.gather(*(rt.ask(agent, f"q{number}") for number in range(20)))
        assert {reply.text for reply in replies} == {"fine"}
        assert len(rt.backlog) == 20
        ledger.is_away = False
        await rt.backlog.aclose()
        assert await rt.spent() == sum(reply.cost for reply in replies) > 0
        assert await rt.remaining() == dollars("$1") - await rt.spent()
    told = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert len(told) == 2
    assert AWAY in told[0]
    assert "all 20 writes that waited are made" in told[1]


class AwayBeforeSending(MemoryLedger):
    """Answers no reservation the first times; one of them it has made all the same."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures

    async def reserve(self, *claim: Any, **how: Any) -> Admission:
        self.failures -= 1
        if self.failures == 0:
            await super().reserve(*claim, **how)
        if self.failures >= 0:
            raise StoreError(AWAY)
        return await super().reserve(*claim, **how)


async def test_a_short_restart_before_the_call_is_not_seen_by_the_program() -> None:
    """The call waits; what was reserved in the last moment is found and not reserved again."""
    model = ScriptedModel("fine")
    async with Runtime("$1", ledger=AwayBeforeSending(3)) as rt:
        reply = await rt.ask(Agent("a", model=model), "hi")
        assert await rt.remaining() == dollars("$1") - reply.cost
    assert len(model.requests) == 1


class AwayAfterReserving(MemoryLedger):
    """Reserves, and is away before it can confirm that."""

    is_away = True

    async def reserve(self, *claim: Any, **how: Any) -> Admission:
        admission = await super().reserve(*claim, **how)
        if self.is_away:
            raise StoreError(AWAY)
        return admission

    async def claims(self, effects: Sequence[EffectKey]) -> Mapping[EffectKey, tuple[Claim, ...]]:
        if self.is_away:
            raise StoreError(AWAY)
        return await super().claims(effects)


def test_a_call_that_is_refused_in_an_outage_leaves_nothing_reserved() -> None:
    """The commit went through and its confirmation was lost. The runtime lives on and renews its
    lease, so nobody else frees the reservation."""
    clock, model = VirtualClock(), ScriptedModel("fine")

    async def work() -> None:
        ledger = AwayAfterReserving()
        async with Runtime("$1", ledger=ledger, clock=clock) as rt:
            with pytest.raises(StoreError, match=AWAY):
                await rt.ask(Agent("a", model=model), "hi")
            ledger.is_away = False
            await rt.backlog.aclose()
            assert await rt.remaining() == dollars("$1")

    run_virtual(work())
    assert not model.requests


def test_a_store_that_stays_away_is_waited_for_within_bounds() -> None:
    """Then whoever waits is told why."""
    clock = VirtualClock()

    async def is_away() -> None:
        raise StoreError(AWAY)

    async def wait() -> int:
        began = clock.now()
        with pytest.raises(StoreError, match=AWAY):
            await retry_store(clock, is_away)
        return clock.now() - began

    assert 1_000 < run_virtual(wait()) <= 5_000


async def test_nothing_is_sent_when_too_much_waits_to_be_written() -> None:
    """What came of it could not be kept, either."""
    ledger, model = AwayWhenAnswered(), ScriptedModel("fine")
    async with Runtime("$1", ledger=ledger) as rt:
        rt.backlog._most = 2
        for number in range(2):
            await rt.ask(Agent("a", model=model), f"q{number}")
        with pytest.raises(Exception, match="nothing more is sent"):
            await rt.ask(Agent("a", model=model), "too many")
        ledger.is_away = False
    assert len(model.requests) == 2


def test_one_write_that_is_never_taken_does_not_hold_up_the_others() -> None:
    """It goes to the end each time, and closing does not wait for it for ever."""
    clock, made = VirtualClock(), list[int]()

    async def never() -> None:
        raise StoreError("not this one")

    def writes(number: int) -> None:
        made.append(number)

    async def work() -> int:
        backlog = Backlog(clock, closing_s=5)
        backlog.put(never, StoreError(AWAY))
        for number in range(100):

            async def write(number: int = number) -> None:
                writes(number)

            backlog.put(write, StoreError(AWAY))
        await backlog.aclose()
        return len(backlog)

    assert run_virtual(work()) == 1
    assert sorted(made) == list(range(100))


class AwayWhenRecorded(SqliteJournal):
    """Records nothing, as on a disk that is full."""

    def record(self, key: EffectKey, outcome: EffectOutcome) -> Awaitable[None]:
        raise StoreError("the disk is full; free some space and try again")


class CutOffError(Exception):
    pass


async def test_an_answer_that_its_journal_cannot_take_is_not_bought_again(tmp_path: Path) -> None:
    """The program has it, the spool has it, and the run that is resumed has it, too."""
    path, log = tmp_path / "run.db", tmp_path / "asked"
    agent = Agent("a", model=LoggedModel(log))

    async def cut_off() -> None:
        async with Runtime("$1", journal=AwayWhenRecorded(path), ledger=_ledger(tmp_path)) as rt:
            rt.backlog._closing_s = 0
            assert (await rt.ask(agent, "q")).text == "<q>"
            raise CutOffError

    with pytest.raises(CutOffError):
        await cut_off()
    async with Runtime("$1", journal=path, ledger=_ledger(tmp_path)) as rt:
        reply = await rt.ask(agent, "q")
        assert reply.text == "<q>"
        assert await rt.remaining() == dollars("$1") - reply.cost
    assert asked(log) == ["q"]


def _ledger(folder: Path) -> SqliteLedger:
    return SqliteLedger(folder / "money.db")
