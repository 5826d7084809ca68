"""No step of ours holds the loop for long: many requests of one program are begun in several steps,
and Python's collector goes through what is new only."""

import asyncio
import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from vegakit import concurrency
from vegakit.concurrency import CollectorPace
from vegakit.host import Driver
from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.lang import check_program, compile_program
from vegakit.money import Money
from vegakit.policy import ScopeRule
from vegakit.program import Bounds
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime, VegaProgram
from vegakit.store import MemoryLedger

AGENT = 'agent echo { model "any" max_tokens 50 }\n'
PROGRAMS = {
    "asks": """let fs = [for i in range(600) { async echo <- "{i}" }];
        return len([for f in fs { await f }]);""",
    "spawns": "let ps = [for i in range(600) { spawn echo }]; return len(ps);",
}
ROOT, ME = ScopeId("root"), HolderId("me")
MOST = 60
"""Requests that are granted in one step: a slice has room for some thirty."""


@pytest.mark.parametrize("body", PROGRAMS.values(), ids=PROGRAMS)
async def test_a_program_begins_hundreds_of_requests_in_several_steps(
    body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []
    start = Driver.submit

    def counted(driver: Driver, event: object) -> list[object]:
        state = driver.machine.state
        before = len(state.processes)
        actions = start(driver, event)  # pyright: ignore[reportArgumentType]
        begun.append(max(len(state.processes) - before, len(actions)))
        return list(actions)

    monkeypatch.setattr(Driver, "submit", counted)
    checked, wrong = check_program(f"{AGENT}fn main() -> int {{ {body} }}", "p", lambda _: None)
    assert checked is not None, wrong
    model = ScriptedModel(lambda _: "yes")
    bounds = Bounds(living=2_000, width=2_000)
    async with Runtime("$1000", models=lambda _: model, bounds=bounds) as rt:
        assert await rt.run(VegaProgram(compile_program(checked), Path())) == 600
    # The last of them in the step in which what it spawned ends.
    granted = [one for one in begun if one <= MOST]
    assert sum(granted) >= 500


class _Circle:
    def __init__(self) -> None:
        self.me = self


@pytest.fixture
def user() -> Iterator[object]:
    one = object()
    yield one
    CollectorPace.close(one)


def test_what_outlived_a_collection_is_set_aside_until_nobody_paces(user: object) -> None:
    threshold, kept = gc.get_threshold(), _Circle()
    CollectorPace.open(user)
    assert gc.get_freeze_count() > 0
    assert not any(one is kept for one in gc.get_objects())
    CollectorPace.close(user)
    assert gc.get_freeze_count() == 0
    assert gc.get_threshold() == threshold
    assert any(one is kept for one in gc.get_objects())


def test_the_pace_ends_with_the_last_who_uses_it(user: object) -> None:
    other = object()
    CollectorPace.open(user)
    CollectorPace.open(other)
    CollectorPace.close(other)
    CollectorPace.close(other)
    assert gc.get_freeze_count() > 0


def test_circles_that_become_garbage_are_found_when_much_was_set_aside(
    user: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(concurrency, "_MOST_ASIDE", 20_000)
    circle = _Circle()
    seen = weakref.ref(circle)
    CollectorPace.open(user)
    del circle
    for _ in range(10):
        gc.collect()
    assert seen() is None


def test_users_that_were_closed_beside_others_do_not_pile_up(user: object) -> None:
    """Each that was set aside is a circle, and stays until all is gone through."""
    seen: list[weakref.ref[_Circle]] = []
    CollectorPace.open(user)
    most = 2 * concurrency._MOST_CLOSED  # pyright: ignore[reportPrivateUsage]
    for _ in range(most):
        other = _Circle()
        CollectorPace.open(other)
        seen.append(weakref.ref(other))
        gc.collect()
        CollectorPace.close(other)
        del other
        assert sum(one() is not None for one in seen) < most - 10
    gc.collect()
    assert gc.get_freeze_count() > 0


def test_who_tunes_the_collector_is_left_alone(user: object) -> None:
    gc.disable()
    try:
        CollectorPace.open(user)
        assert gc.get_freeze_count() == 0
    finally:
        gc.enable()


async def test_a_runtime_paces_the_collector_while_it_is_open() -> None:
    async with Runtime("$1"):
        assert gc.get_freeze_count() > 0
    assert gc.get_freeze_count() == 0


async def test_asks_and_programs_leave_no_circles_behind() -> None:
    """Else what is set aside would grow with them."""
    model = ScriptedModel(lambda _: "yes")
    text = f'{AGENT}fn main() -> str {{ let f = async echo <- "a"; return echo <- (await f); }}'
    checked, wrong = check_program(text, "p", lambda _: None)
    assert checked is not None, wrong
    program = VegaProgram(compile_program(checked), Path())
    async with Runtime("$1000", models=lambda _: model) as rt:
        for _ in range(3):
            await rt.run(program)
        gc.collect()
        gc.disable()
        try:
            for _ in range(50):
                await rt.run(program)
            assert gc.collect() < 50
        finally:
            gc.enable()


async def test_old_claims_are_forgotten_in_several_turns() -> None:
    ledger, turns = MemoryLedger(), 0
    await ledger.open(ROOT, ScopeRule(None), 0)
    await ledger.renew(ME, 10_000)
    for number in range(5_000):
        effect = EffectKey(f"e{number}")
        await ledger.reserve(effect, 1, ROOT, Money(2), ME, 0)
        await ledger.answer(effect, 1, Money(1), 0)

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.ensure_future(others())
    assert await ledger.prune(1) == 5_000
    beside.cancel()
    assert turns >= 3
