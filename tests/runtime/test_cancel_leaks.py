"""An ask cancelled at any of its waits leaves nothing reserved and tells what it was charged.

At full size: `python -m campaigns.money_cancels 10000`.
"""

import asyncio
import gc
import warnings
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from campaigns.money_cancels import LEDGERS, MOMENTS, WAYS, Moment, Sweep, Way, sweep

from vegakit.host import Account, Gate, ToolCalled
from vegakit.sdk import Runtime

BY_NAME = {way.name: way for way in WAYS}


def swept(way: Way, ledger: str, moment: Moment, folder: Path) -> Sweep:
    return asyncio.run(sweep(way, ledger, moment, folder))


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: moment.name)
@pytest.mark.parametrize("ledger", LEDGERS)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_a_cancel_leaks_nothing(way: Way, ledger: str, moment: Moment, tmp_path: Path) -> None:
    """Wherever the ask waits, and also if it is cancelled once more while it gives up."""
    made = swept(way, ledger, moment, tmp_path)
    assert made.cancels > 5
    assert made.holds, made


def test_a_stream_left_before_its_tools_run_leaves_no_call_behind() -> None:
    """What was never awaited would warn."""

    async def leave() -> None:
        way = BY_NAME["with tools, streamed"]
        async with Runtime("$1") as rt, aclosing(rt.stream(way.agent, "hi")) as events:
            async for event in events:
                if isinstance(event, ToolCalled) and event.index == 1:
                    break

    with warnings.catch_warnings(record=True) as warned:
        asyncio.run(leave())
        gc.collect()
    assert [str(warning.message) for warning in warned] == []


Settle = Callable[..., Awaitable[None]]


def settles_nothing(_truly: Settle) -> Settle:
    async def settle(*_: object) -> None:
        pass

    return settle


def tells_nobody(truly: Settle) -> Settle:
    async def settle(gate: Gate, *facts: Any) -> None:
        await truly(gate, *facts[:-1], Account())

    return settle


@pytest.mark.parametrize(
    ("fault", "seen_in"), [(settles_nothing, "leaks"), (tells_nobody, "untold")]
)
def test_a_gate_that_is_wrong_is_seen(
    fault: Callable[[Settle], Settle],
    seen_in: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It keeps what it reserved, or charges in silence."""
    monkeypatch.setattr(Gate, "_settle", fault(Gate._settle))
    made = swept(BY_NAME["plain"], "memory", MOMENTS[0], tmp_path)
    assert getattr(made, seen_in)
    assert not made.holds
