"""The wallet of a server is shared by all who call it, and never exceeded."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.mcp_server.stage import ASK, Gated, staged
from tests.patience import until
from vegakit.money import Money, dollars
from vegakit.serving import desk
from vegakit.serving.runs import Runs

EACH = 10
WALLET = dollars("$0.02")


@dataclass
class Storm:
    """`held` is the most that was set aside at one time."""

    held: Money
    ran: int
    refused: list[str]
    spent: Money
    left: Money


async def storm(folder: Path) -> Storm:
    """Many runs at once, for two clients."""
    model = Gated(is_open=False)
    async with (
        staged(folder, model, "$0.02") as stage,
        stage.client() as one,
        stage.client("legacy") as other,
    ):
        most = dollars((await one("cost", source=ASK)).page["at_most"])
        callers = [one, other] * EACH
        asked = [asyncio.ensure_future(call("run", source=ASK)) for call in callers]
        await until(lambda: sum(a.done() for a in asked) + len(model.requests) == len(asked))
        held = Money(len(model.requests) * most)
        model.gate.set()
        said = await asyncio.gather(*asked)
        refused = [one.text for one in said if one.refused]
        ran, rt = len(said) - len(refused), stage.runtime
        return Storm(held, ran, refused, rt.spent, stage.desk.runs.left())


async def test_clients_together_spend_no_more_than_the_wallet(tmp_path: Path) -> None:
    """As many run at once as have room for their worst case; the others are told what is left.
    What is not used comes back."""
    came = await storm(tmp_path)
    assert came.ran > 1
    assert came.held <= WALLET
    assert came.spent + came.left == WALLET
    assert came.refused
    assert all("refused (room)" in one or "BudgetExceeded" in one for one in came.refused)


async def test_a_wallet_that_is_too_large_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: the test above would find it."""
    monkeypatch.setattr(desk, "Runs", lambda rt, most, may: Runs(rt, Money(most * 100), may))
    came = await storm(tmp_path)
    assert came.held > WALLET
    assert came.ran == 2 * EACH


async def test_a_room_that_nobody_looks_at_is_held_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: without the look before the run, the wallet itself refuses."""
    monkeypatch.setattr(desk, "poor", lambda _, room: None)
    came = await storm(tmp_path)
    assert came.held <= WALLET
    assert all("BudgetExceeded" in one for one in came.refused)
    assert came.spent + came.left == WALLET
