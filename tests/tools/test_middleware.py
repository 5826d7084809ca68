"""What stands around a tool: each alone, and several in their order."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from vegakit.conversation import ToolSpec
from vegakit.errors import CapabilityDenied, RateLimited, Timeout, UserError
from vegakit.ids import Digest, Pid
from vegakit.policy import (
    Allowed,
    ApprovalPending,
    Approved,
    Attempt,
    Denied,
    Grant,
    Interrupts,
    Permissions,
    Rate,
    RateLimiter,
    RateRule,
    RateStrategy,
    Use,
    dispatch,
)
from vegakit.ports.execution import Tool
from vegakit.testing.harness import FakeClock
from vegakit.tools.middleware import (
    Middleware,
    Proposal,
    approved,
    cached,
    limited,
    logged,
    timed,
    wrapped,
)


class Echo:
    """Says how often it was called, with what; `answer` may be something else."""

    spec = ToolSpec("echo", "Echoes.", {"type": "object"})
    repeatable, timeout_ms = True, 1_000

    def __init__(self, answer: Callable[[], Awaitable[str]] | None = None) -> None:
        self.calls: list[dict[str, Any]] = []
        self._answer = answer

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        self.calls.append(dict(arguments))
        return await self._answer() if self._answer else f"{len(self.calls)} {deps}"


async def for_ever() -> str:
    await asyncio.Event().wait()
    return ""


async def fails() -> str:
    raise ValueError("no")


def noting(notes: list[str], name: str) -> Middleware:
    class Noting(Echo):
        def __init__(self, inner: Tool) -> None:
            super().__init__()
            self.inner = inner

        async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
            notes.append(f"before {name}")
            result = await self.inner.call(arguments, deps)
            notes.append(f"after {name}")
            return f"{name}({result})"

    return Noting


async def test_the_first_is_the_outermost() -> None:
    """It sees the call first and the result last."""
    notes: list[str] = []
    tool = wrapped(Echo(), noting(notes, "a"), noting(notes, "b"))
    assert await tool.call({}, None) == "a(b(1 None))"
    assert notes == ["before a", "before b", "after b", "after a"]


def test_around_a_tool_is_a_tool_that_says_the_same() -> None:
    """All that a model is told, and whether it may be repeated."""
    clock, limiter = FakeClock(), RateLimiter(RateRule())
    tool = wrapped(
        Echo(),
        logged(print, clock),
        approved(Desk(), wanted, wait_ms=7),
        limited(limiter, clock, wait_ms=20),
        cached(clock, ttl_ms=1),
        timed(300),
    )
    assert (tool.spec, tool.repeatable) == (Echo.spec, True)
    assert tool.timeout_ms == 300 + 20 + 7
    assert wrapped(Echo()).timeout_ms == timed(9_999)(Echo()).timeout_ms == 1_000


# log


async def test_a_call_is_one_line_without_its_content() -> None:
    """How it ended and how long it took."""
    clock, lines = FakeClock(), list[str]()

    async def takes_a_while() -> str:
        clock.advance(12)
        return "secret"

    await logged(lines.append, clock)(Echo(takes_a_while)).call({"key": "secret"}, None)
    with pytest.raises(ValueError, match="no"):
        await logged(lines.append, clock)(Echo(fails)).call({}, None)
    assert lines == ["echo: ok after 12 ms", "echo: ValueError after 0 ms"]


async def test_a_cancelled_call_is_logged_too() -> None:
    """And stays cancelled."""
    lines: list[str] = []
    task = asyncio.create_task(started(logged(lines.append, FakeClock())(Echo(for_ever))))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert lines == ["echo: CancelledError after 0 ms"]


async def started(tool: Tool) -> str:
    return await tool.call({}, None)


# time limit


async def test_a_call_that_takes_too_long_is_ended() -> None:
    """Really ended, and told as a timeout that a program may catch."""
    ended = asyncio.Event()

    async def slow() -> str:
        try:
            return await for_ever()
        finally:
            ended.set()

    with pytest.raises(Timeout, match="echo took longer than 1 ms"):
        await timed(1)(Echo(slow)).call({}, None)
    assert ended.is_set()


async def test_a_timeout_of_the_tool_itself_is_its_own() -> None:
    """It is not taken for the limit."""

    async def gives_up() -> str:
        raise TimeoutError("the server")

    with pytest.raises(TimeoutError, match="the server"):
        await timed(1_000)(Echo(gives_up)).call({}, None)


# rate limit


def one_a_second(strategy: RateStrategy = RateStrategy.QUEUE) -> RateLimiter:
    return RateLimiter(RateRule(Rate(1, per_ms=1_000, burst=1), strategy=strategy))


async def test_a_call_waits_for_its_turn() -> None:
    """And tools that share a limiter wait for each other."""
    clock, limiter = FakeClock(), one_a_second()
    one, other = limited(limiter, clock)(Echo()), limited(limiter, clock)(Echo())
    await one.call({}, None)
    waiting = asyncio.create_task(started(other))
    for passed_ms in (0, 999):
        clock.advance(passed_ms)
        await turns()
        assert not waiting.done()
    clock.advance(1)
    assert await waiting == "1 None"


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize("wait_ms", [0, 999])
async def test_a_turn_that_comes_too_late_is_refused(wait_ms: int) -> None:
    """The tool is not called, and nobody stands in the queue."""
    clock, limiter, echo = FakeClock(), one_a_second(), Echo()
    tool = limited(limiter, clock, wait_ms=wait_ms)(echo)
    await tool.call({}, None)
    with pytest.raises(RateLimited, match="echo takes no more calls"):
        await tool.call({}, None)
    assert (len(echo.calls), limiter.waiting, limiter.in_flight) == (1, [], {})


async def test_a_limit_that_rejects_refuses_at_once() -> None:
    """Nothing waits."""
    tool = limited(one_a_second(RateStrategy.REJECT), FakeClock())(Echo())
    await tool.call({}, None)
    with pytest.raises(RateLimited):
        await tool.call({}, None)


@pytest.mark.parametrize("ahead", [0, 1])
async def test_a_cancelled_call_leaves_the_limit_as_it_was(ahead: int) -> None:
    """In flight, or waiting."""
    limiter = RateLimiter(RateRule(slots=1))
    tool = limited(limiter, FakeClock())(Echo(for_ever))
    tasks = [asyncio.create_task(started(tool)) for _ in range(ahead + 1)]
    await turns()
    for task in tasks[::-1]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (limiter.waiting, limiter.in_flight) == ([], {})


# cache


async def test_a_result_is_remembered_for_its_time() -> None:
    """For the same arguments, whatever their order, to the millisecond."""
    clock = FakeClock()
    tool = cached(clock, ttl_ms=10)(Echo())
    assert await tool.call({"a": 1, "b": 2}, None) == "1 None"
    clock.advance(9)
    assert await tool.call({"b": 2, "a": 1}, None) == "1 None"
    assert await tool.call({"a": 2, "b": 2}, None) == "2 None"
    clock.advance(1)
    assert await tool.call({"a": 1, "b": 2}, None) == "3 None"


async def test_the_longest_unused_is_forgotten_first() -> None:
    """Memory is bounded."""
    echo = Echo()
    tool = cached(FakeClock(), ttl_ms=10, most=2)(echo)
    for number in (1, 2, 1, 3, 1, 2):
        await tool.call({"n": number}, None)
    assert [call["n"] for call in echo.calls] == [1, 2, 3, 2]


async def test_what_one_was_told_is_not_for_another() -> None:
    """Unless somebody says whose it is, a call with deps is made."""
    plain = cached(FakeClock(), ttl_ms=10)(Echo())
    assert [await plain.call({}, who) for who in ("ann", "ann")] == ["1 ann", "2 ann"]
    named = cached(FakeClock(), ttl_ms=10, whose=str)(Echo())
    told = [await named.call({}, who) for who in ("ann", "ann", "bob")]
    assert told == ["1 ann", "1 ann", "2 bob"]


async def test_a_failure_is_not_remembered() -> None:
    """The next call is made."""
    echo = Echo(fails)
    tool = cached(FakeClock(), ttl_ms=10)(echo)
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            await tool.call({}, None)
    assert len(echo.calls) == 2


def test_what_must_not_be_repeated_is_not_cached() -> None:
    """A second payment is not the first one's receipt."""
    echo = Echo()
    echo.repeatable = False
    with pytest.raises(UserError, match="echo is not repeatable"):
        cached(FakeClock(), ttl_ms=10)(echo)


# approval


def wanted(_arguments: Mapping[str, Any]) -> Use:
    return Use("demo")


class Desk:
    """A host in small: dispatches, and lets `while_asking` happen while a person thinks."""

    def __init__(self, while_asking: Callable[[], object] = lambda: None) -> None:
        self.interrupts = Interrupts()
        self.proposed: list[Proposal] = []
        self._while_asking = while_asking

    async def approve(self, propose: Callable[[], Awaitable[Proposal]]) -> None:
        for _ in range(2):
            proposal = await propose()
            self.proposed.append(proposal)
            verdict = self._dispatch(proposal)
            if isinstance(verdict, Allowed):
                return
            if isinstance(verdict, Denied):
                raise CapabilityDenied(verdict.reason)
            shown = self.interrupts.by_id[verdict.id].ask.action
            self.interrupts.answer(verdict.id, Approved(), "ann", shown, 0)
            self._while_asking()
        raise CapabilityDenied("it changed while it was asked about")

    def _dispatch(self, proposal: Proposal) -> Allowed | ApprovalPending | Denied:
        attempt = Attempt(
            "place",
            Pid("program/agent#1"),
            "agent",
            proposal.tool,
            proposal.arguments,
            proposal.schema,
            proposal.wanted,
            contents=proposal.contents,
        )
        return dispatch(Permissions(Grant(("demo",))), attempt, self.interrupts, 0)


async def test_an_approved_call_is_made_once() -> None:
    """The same call again at the same place is another use of the same approval."""
    echo, desk = Echo(), Desk()
    tool = approved(desk, wanted)(echo)
    assert await tool.call({"a": 1}, None) == "1 None"
    with pytest.raises(CapabilityDenied, match="already_used"):
        await tool.call({"a": 1}, None)
    assert echo.calls == [{"a": 1}]


async def test_arguments_changed_meanwhile_do_not_reach_the_tool() -> None:
    """What was approved is called."""
    arguments = {"paths": ["a"]}
    echo = Echo()
    desk = Desk(lambda: arguments["paths"].append("b"))
    await approved(desk, wanted)(echo).call(arguments, None)
    assert echo.calls == [{"paths": ["a"]}]
    assert arguments == {"paths": ["a", "b"]}


async def test_who_is_shown_the_arguments_cannot_change_them() -> None:
    """Neither the approver nor what reads the files."""

    async def contents(shown: Mapping[str, Any]) -> dict[str, Digest]:
        shown["paths"].append("c")
        return {}

    echo = Echo()
    await approved(Desk(), wanted, contents=contents)(echo).call({"paths": ["a"]}, None)
    assert echo.calls == [{"paths": ["a"]}]


async def test_a_tool_that_describes_itself_otherwise_is_not_called() -> None:
    """The approval was of what it was."""
    echo = Echo()

    def rug_pull() -> None:
        echo.spec = ToolSpec("echo", "Deletes.", {"type": "object"})

    with pytest.raises(CapabilityDenied, match="it changed"):
        await approved(Desk(rug_pull), wanted)(echo).call({}, None)
    assert echo.calls == []


async def test_a_file_that_changed_meanwhile_is_not_run() -> None:
    """Its content is part of what was approved."""
    scripts = ["one"]

    async def contents(_shown: Mapping[str, Any]) -> dict[str, Digest]:
        return {"run.sh": Digest(scripts[-1])}

    echo = Echo()
    desk = Desk(lambda: scripts.append("two" * len(scripts)))
    with pytest.raises(CapabilityDenied, match="it changed"):
        await approved(desk, wanted, contents=contents)(echo).call({}, None)
    assert echo.calls == []


async def test_an_approval_outside_a_cache_is_asked_for_each_call() -> None:
    """Inside it would not be: that is why the order is told."""
    clock, echo, desk = FakeClock(), Echo(), Desk()
    outside = wrapped(echo, approved(desk, wanted), cached(clock, ttl_ms=10))
    await outside.call({}, None)
    with pytest.raises(CapabilityDenied):
        await outside.call({}, None)
    inside = wrapped(echo, cached(clock, ttl_ms=10), approved(Desk(), wanted))
    assert [await inside.call({}, None) for _ in range(2)] == ["2 None", "2 None"]
