"""Attacks between a reservation and its settlement: cancels, kills, retries, doubles."""

import asyncio
import signal
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path

from campaigns.money_cancels import LEDGERS, MOMENTS, WAYS, sweep
from campaigns.money_kills import Later
from campaigns.money_retries import fail_for_ever

from tests.runtime.attacks import WIRES, WORST, asked, attack, figures, spending
from vegakit.money import Money, dollars
from vegakit.policy import ClaimState
from vegakit.sdk import Runtime
from vegakit.store import SqliteLedger

BILL = Money(1_000 + 3 * 5_000)


@attack("budget-002")
async def cancelled_while_reserved(folder: Path) -> None:
    for ledger in LEDGERS:
        made = await sweep(WAYS[0], ledger, MOMENTS[0], folder)
        assert (made.cancels > 5, made.leaks) == (True, [])


@attack("budget-003")
async def killed_before_it_settled(folder: Path) -> None:
    """Nobody knows what it was billed: all of it is charged, when its lease ends."""
    assert await _left_after(folder, "asked") == dollars("$1") - WORST


@attack("budget-004")
async def killed_after_it_settled(folder: Path) -> None:
    """Charged its bill, once."""
    assert await _left_after(folder, "settled") == dollars("$1") - BILL


async def _left_after(folder: Path, moment: str) -> int | None:
    path = folder / "ledger.db"
    command = [sys.executable, "-m", "tests.runtime.dying", str(path), moment]
    died = await asyncio.to_thread(subprocess.run, command, cwd=Path(__file__).parents[2])
    assert died.returncode == -signal.SIGKILL
    async with Runtime("$1", ledger=SqliteLedger(path), clock=Later()) as rt:
        return await rt.remaining()


@attack("budget-011")
async def layers_of_retries(_: Path) -> None:
    """Three attempts are three requests: no client under the gate adds its own."""
    for wire in WIRES:
        for failure in ("500", "529", "drop"):
            counted = await fail_for_ever(wire, failure, 2)
            assert counted.requests == 6, counted


@attack("budget-017")
async def refunded_twice(_: Path) -> None:
    """A late bill gives back the difference once; nothing is released after it was charged."""
    async with spending("$1") as (rt, ledger):
        async with aclosing(rt.stream(asked(), "hi")) as events:
            await anext(events)
        assert await figures(rt, ledger) == (WORST, 0)
        ((effect, claim),) = ledger.claims
        assert claim.state is ClaimState.UNKNOWN
        for _again in range(3):
            await ledger.answer(effect, 1, BILL, rt.clock.now())
            await ledger.cut_off(effect, 1, rt.clock.now())
            assert await figures(rt, ledger) == (BILL, 0)


@attack("budget-018")
async def settled_twice(_: Path) -> None:
    """The first bill stays, whatever comes after it."""
    async with spending("$1") as (rt, ledger):
        await rt.ask(asked(), "hi")
        ((effect, _claim),) = ledger.claims
        for bill in (0, BILL, 10 * WORST):
            await ledger.answer(effect, 1, Money(bill), rt.clock.now())
            await ledger.cut_off(effect, 1, rt.clock.now())
            assert await figures(rt, ledger) == (BILL, 0)
        assert ledger.overrun == set()
