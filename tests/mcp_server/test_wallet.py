"""The wallet of a server is shared by all who call it, and never exceeded."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.mcp_server.stage import AGENT, ASK, Gated, staged
from tests.patience import until
from vegakit.money import Money, dollars
from vegakit.server import operations as desk
from vegakit.server.runs import Runs

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
        return Storm(held, ran, refused, Money(int(await rt.spent())), stage.operations.runs.left())


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
    monkeypatch.setattr(desk, "over_remaining_budget", lambda _, room: None)
    came = await storm(tmp_path)
    assert came.held <= WALLET
    assert all("BudgetExceeded" in one for one in came.refused)
    assert came.spent + came.left == WALLET


BUDGETED = 'agent A { model fast  max_tokens 100  budget $0.10 }\nprint(A <- "hello there");\n'
INSIDE = [
    BUDGETED,
    AGENT + 'print(A <- "hello there" budget $0.10);\n',
    AGENT + 'session budget $0.10 { print(A <- "hello there"); }\n',
    AGENT + 'let a = spawn A wallet $0.10; print(a <- "hello there");\n',
    AGENT + 'session budget $0.10 { let a = spawn A wallet $0.09; a <- "x" budget $0.08; }\n',
    BUDGETED + 'print(A <- "and again");\n',
]


@pytest.mark.parametrize("source", INSIDE)
async def test_a_budget_above_the_quote_refuses_nothing(tmp_path: Path, source: str) -> None:
    """The wallet of a run is its quote, what its calls may cost: a budget in it that allows more is
    not set aside there. A program that was accepted failed before its first call."""
    async with staged(tmp_path) as stage, stage.client() as call:
        most = dollars((await call("cost", source=source)).page["at_most"])
        assert most < dollars("$0.08")
        ran = await call("run", source=source)
        assert not ran.refused, ran.text
        assert await stage.runtime.spent() <= most


async def test_a_budget_inside_still_caps(tmp_path: Path) -> None:
    """Each of these is too small for all its sends."""
    async with staged(tmp_path) as stage, stage.client() as call:
        one = dollars((await call("cost", source=ASK)).page["at_most"])
        small = f"${one * 3 // 10 / 10**9:.6f}"
        for text in (f"session budget {small} {{ HERE }}", f"let a = spawn A wallet {small}; HERE"):
            who = "a" if "spawn" in text else "A"
            sends = f'for i in range(90) {{ {who} <- "hello there"; }}'
            ran = await call("run", source=f"{AGENT}{text.replace('HERE', sends)}\n")
            assert "BudgetExceeded" in ran.text
        assert await stage.runtime.spent() <= 2 * dollars(small)
