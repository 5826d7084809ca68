"""What is told of a process: its state, what it waits for, and how it does."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from vegakit.control import Health, ProcessStatus, ProcessView
from vegakit.conversation import ModelReply, ModelRequest
from vegakit.events import CallKind, CallTraced
from vegakit.host import Agent, Supervisor, current_process
from vegakit.ids import SpanId, TraceId
from vegakit.lang import check_program, compile_program
from vegakit.money import dollars
from vegakit.policy import Backoff, BreakerRule
from vegakit.providers import ScriptedModel
from vegakit.records import to_json
from vegakit.sdk import Runtime, VegaProgram
from vegakit.testing import FakeClock


async def settle() -> None:
    for _ in range(30):
        await asyncio.sleep(0)


async def wait_for_ever(message: Any) -> None:
    await asyncio.Event().wait()


def viewed(work: Callable[[Runtime, FakeClock], Awaitable[Any]]) -> Any:
    async def opened() -> Any:
        clock = FakeClock()
        async with Runtime(clock=clock) as rt:
            return await work(rt, clock)

    return asyncio.run(opened())


def only(rt: Runtime) -> ProcessView:
    (view,) = rt.ps()
    return view


@pytest.mark.parametrize(
    ("options", "at_ms", "health"),
    [
        ({}, 29_999, "ok"),
        ({}, 30_000, "slow"),
        ({}, 299_999, "slow"),
        ({}, 300_000, "stuck"),
        ({"stuck_after": 10}, 4_999, "ok"),
        ({"stuck_after": 10}, 5_000, "slow"),
        ({"stuck_after": 10}, 10_000, "stuck"),
    ],
)
def test_health_is_how_long_it_is_at_one_message(
    options: dict[str, Any], at_ms: int, health: str
) -> None:
    """By its own patience, or the usual one."""

    async def work(rt: Runtime, clock: FakeClock) -> None:
        rt.spawn(wait_for_ever, **options).tell("go")
        await settle()
        clock.advance(at_ms)
        view = only(rt)
        assert (view.health, view.state) == (health, "running")
        assert clock.now() - view.since_ms == at_ms

    viewed(work)


def test_an_idle_process_is_well_however_long() -> None:
    """Having nothing to do is no illness, nor is a service's long life."""

    async def service() -> None:
        await asyncio.Event().wait()

    async def work(rt: Runtime, clock: FakeClock) -> None:
        rt.spawn(wait_for_ever)
        rt.spawn(service)
        await settle()
        clock.advance(10_000_000)
        assert [(view.state, view.health) for view in rt.ps()] == [
            ("idle", "ok"),
            ("running", "ok"),
        ]

    viewed(work)


def test_a_program_waits_for_answers_and_is_well_however_long() -> None:
    """What it has asked may be late, and says so itself."""
    text = 'agent echo { model "any" }\nfn main() -> str { let a = echo <- "hi"; return a; }'
    checked, _ = check_program(text, "main.vega", lambda _path: None)
    assert checked is not None
    program = VegaProgram(compile_program(checked), Path())

    class Silent(ScriptedModel):
        async def ask(self, request: ModelRequest) -> ModelReply:
            await asyncio.Event().wait()
            raise AssertionError

    async def opened() -> list[tuple[ProcessStatus, str, Health]]:
        clock = FakeClock()
        async with Runtime("$1", models=lambda _: Silent(["never"]), clock=clock) as rt:
            running = asyncio.ensure_future(rt.run(program))
            await settle()
            clock.advance(400_000)
            seen = [(view.state, view.waiting_for, view.health) for view in rt.ps()]
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        return seen

    main, asked = asyncio.run(opened())
    assert main == ("waiting", "answers", "ok")
    assert (asked[0], asked[2]) == ("waiting", "stuck")


def test_what_was_restarted_lately_is_failing() -> None:
    """Until the window of its supervisor has passed."""
    lives: list[int] = []

    async def fragile() -> None:
        lives.append(1)
        if len(lives) == 1:
            raise ValueError("broken")
        await asyncio.Event().wait()

    async def work(rt: Runtime, clock: FakeClock) -> None:
        rt.spawn(fragile, supervise=Supervisor(window=60))
        await settle()
        view = only(rt)
        assert (view.restarts, view.state, view.health) == (1, "running", "failing")
        assert view.last_exit == "crashed(ValueError: broken)"
        clock.advance(60_000)
        assert only(rt).health == "failing"
        clock.advance(1)
        assert only(rt).health == "ok"

    viewed(work)


def test_between_two_lives_it_waits_for_its_supervisor() -> None:
    """And the view says until when."""

    async def fragile() -> None:
        raise ValueError("broken")

    async def work(rt: Runtime, clock: FakeClock) -> None:
        waits = Backoff(8_000, 2.0, 60_000)
        rt.spawn(fragile, supervise=Supervisor(backoff=waits))
        await settle()
        view = only(rt)
        assert (view.state, view.waiting_for, view.health) == (
            "restarting",
            "its supervisor",
            "failing",
        )
        assert view.until_ms is not None
        assert clock.now() < view.until_ms <= clock.now() + 8_000

    viewed(work)


def test_a_restarted_group_keeps_its_order() -> None:
    """As declared, a group among processes, in every life of the group above."""
    crash = asyncio.Event()

    async def first() -> None:
        await crash.wait()
        raise ValueError("broken")

    async def last() -> None:
        await asyncio.Event().wait()

    async def work(rt: Runtime, clock: FakeClock) -> None:
        inner = Supervisor("restart", [first], max_restarts=0, name="inner")
        rt.spawn(Supervisor("restart_all", [inner, last], name="team"))
        await settle()
        before = ["team", "team/inner", "team/inner/first", "team/last"]
        assert [view.path for view in rt.ps()] == before
        crash.set()
        await asyncio.sleep(0)
        crash.clear()
        await settle()
        assert [(view.path, view.restarts) for view in rt.ps()] == [
            ("team", 0),
            ("team/inner", 1),
            ("team/inner#2/first", 0),
            ("team/last", 1),
        ]

    viewed(work)


def test_a_deadline_is_until_when() -> None:
    """Of the model call under way; past it, the process is stuck."""

    async def work(rt: Runtime, clock: FakeClock) -> None:
        model = ScriptedModel("late", "slow:model", latency_ms=60_000, clock=clock)
        asked = rt.spawn(Agent("poet", model=model), wallet="$2").send("write", timeout=20)
        await settle()
        view = only(rt)
        assert (view.state, view.waiting_for) == ("waiting", "model slow:model")
        assert view.until_ms == clock.now() + 20_000
        assert view.left is not None
        assert view.left < dollars(2)
        clock.advance(20_000)
        assert only(rt).health == "ok"
        clock.advance(1)
        assert only(rt).health == "stuck"
        asked.cancel()

    viewed(work)


def test_an_open_breaker_is_failing() -> None:
    """Of the agent that all its processes share."""

    async def work(rt: Runtime, clock: FakeClock) -> None:
        model = ScriptedModel({"": {"error": "server"}})
        agent = Agent("poet", model=model, breaker=BreakerRule(threshold=1))
        process = rt.spawn(agent)
        with pytest.raises(Exception, match="server"):
            await process.ask("write")
        assert only(rt).health == "failing"

    viewed(work)


def test_looking_changes_nothing() -> None:
    """The state before and after is the same."""

    async def work(rt: Runtime, clock: FakeClock) -> None:
        rt.spawn(Supervisor("restart_all", [wait_for_ever], name="team"))
        rt.spawn(Agent("poet", model=ScriptedModel("fine")), wallet="$1")
        before = to_json(rt.program.machine.state)
        rt.ps()
        assert to_json(rt.program.machine.state) == before

    viewed(work)


@pytest.mark.parametrize(
    ("took_ms", "ago_ms", "rate"),
    [(0, 0, 10.0), (5_000, 0, 10.0), (20_000, 0, 5.0), (5_000, 7_500, 5.0), (5_000, 10_000, 0.0)],
)
def test_tokens_are_spread_over_the_time_they_took(took_ms: int, ago_ms: int, rate: float) -> None:
    """A hundred of them, as seen in the last ten seconds."""

    async def work(rt: Runtime, clock: FakeClock) -> None:
        ended_ms = clock.now() - ago_ms
        call = CallTraced(
            TraceId("1" * 32),
            SpanId("1" * 16),
            CallKind.MODEL,
            "m",
            ended_ms - took_ms,
            float(took_ms),
            output_tokens=100,
        )
        current_process.set("poet")
        rt.activity.record(call)
        assert rt.activity.tokens_per_s(clock.now()).get("poet", 0.0) == rate

    viewed(work)
