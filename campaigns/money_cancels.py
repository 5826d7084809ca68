"""Reservations never leak, one runtime: asks are cancelled at every point where they wait.

    python -m campaigns.money_cancels 10000      at least so many cancels

Each way of asking is asked again and again beside another ask that goes on, cancelled at its first
wait, its second, … until it ends by itself; on both ledgers; at the wait itself, or when what it
waits for is there and it has not heard of it; once, or once more while it gives up. After each
cancel nothing is reserved; in the end the ledger has charged what its claims add up to, and what
the traces tell.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping
from contextlib import nullcontext, suppress
from contextvars import Context, ContextVar, copy_context
from functools import partial
from itertools import count, cycle, product
from pathlib import Path
from types import MappingProxyType, coroutine
from typing import Any, NamedTuple, cast

from campaigns.money_kills import reserved_and_drift
from vegakit.conversation import ModelReply, ModelRequest, ToolMessage
from vegakit.errors import BudgetExceeded, ErrorClass, Phase, WorldError
from vegakit.events import CallKind, CallTraced
from vegakit.host import Agent, LimiterRules
from vegakit.policy import Backoff, BreakerRule, RateRule, RetryBudgetRule, RetryRule
from vegakit.ports import Ledger
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.store import MemoryLedger, SqliteLedger

__all__ = ["LEDGERS", "MOMENTS", "WAYS", "Moment", "Sweep", "Way", "main", "sweep"]

PATIENCE_S = 1.0
ROOM = LimiterRules(
    RateRule(slots=2), BreakerRule(threshold=1_000_000), RetryBudgetRule(stock=1_000_000)
)
QUICK = RetryRule(backoff=Backoff(1, 1.0, 1))
TURNS = 200
ONE_CALL = "$0.0006"


class Pondering(ScriptedModel):
    """Waits several times before and after it answers."""

    async def ask(self, request: ModelRequest) -> ModelReply:
        await _ponder()
        reply = await super().ask(request)
        await _ponder()
        return reply


async def _ponder() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def look(where: str) -> str:
    await _ponder()
    return f"nothing {where}"


def _looks_first(request: ModelRequest) -> dict[str, Any]:
    if isinstance(request.messages[-1], ToolMessage):
        return {"text": "nothing there"}
    return {"calls": [{"name": "look", "arguments": {"where": place}} for place in ("up", "down")]}


def _every_other_fails() -> Callable[[ModelRequest], WorldError | str]:
    busy = WorldError("busy", ErrorClass.OVERLOADED, phase=Phase.ANSWERED)
    turns: Iterator[WorldError | str] = cycle([busy, "one two"])
    return lambda _: next(turns)


def _agent(script: Any = "one two three", **settings: Any) -> Agent[Any]:
    return Agent("asked", model=Pondering(script), max_tokens=100, retry=QUICK, **settings)


NOTHING: Mapping[str, Any] = MappingProxyType({})


class Way(NamedTuple):
    """How a question is asked; `room` is a budget around it and the ask beside it."""

    name: str
    agent: Agent[Any]
    stream: bool = False
    options: Mapping[str, Any] = NOTHING
    room: str | None = None


WAYS = (
    Way("plain", _agent()),
    Way("streamed", _agent(), stream=True),
    Way("retried", _agent(_every_other_fails())),
    Way("with a deadline", _agent(), options={"timeout": 60}),
    Way("waiting for budget", _agent(), options={"wait_for_budget": True}, room=ONE_CALL),
    Way("with a budget of its own", _agent(budget="$0.01")),
    Way("with tools", _agent(_looks_first, tools=[look])),
    Way("with tools, streamed", _agent(_looks_first, tools=[look]), stream=True),
)


BESIDE = Way("beside", _agent(), options={"wait_for_budget": True})


class Moment(NamedTuple):
    """`heard`: what it waits for is there; `again`: so many waits later it is cancelled again."""

    name: str
    heard: bool = False
    again: int | None = None


MOMENTS = (
    Moment("at the wait"),
    Moment("as it is answered", heard=True),
    Moment("twice", again=1),
    Moment("twice, as it is answered", heard=True, again=1),
)
LEDGERS = ("memory", "SQLite")


class Sweep(NamedTuple):
    """`leaks` are the waits after whose cancel something stayed reserved. `drift` is what the
    ledger charged beyond its claims, `untold` what it charged beyond the traces."""

    name: str
    cancels: int
    leaks: list[int]
    drift: int
    untold: int

    @property
    def holds(self) -> bool:
        return self.cancels > 0 and not (self.leaks or self.drift or self.untold)

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.cancels} cancels, leaks {self.leaks}, drift {self.drift}, "
            f"untold {self.untold}: {'ok' if self.holds else 'BROKEN'}"
        )


class _Waits:
    """The waits of all tasks that an ask makes, counted together; at some it is cancelled."""

    def __init__(self, at: set[int], *, heard: bool) -> None:
        self._at = at
        self._heard = heard
        self._number = 0
        self.asker: asyncio.Task[Any] | None = None

    def on_wait(self, awaited: Any) -> None:
        number, self._number = self._number, self._number + 1
        if number not in self._at:
            return
        when_heard = getattr(awaited, "add_done_callback", None) if self._heard else None
        if when_heard is None:
            self._cancel()
        else:
            when_heard(self._cancel)

    def _cancel(self, _: object = None) -> None:
        assert self.asker is not None
        self.asker.cancel()


_WAITS: ContextVar[_Waits | None] = ContextVar("waits", default=None)
"""The tasks of an ask inherit it from who asked."""


@coroutine
def _counted(work: Coroutine[Any, Any, Any], waits: _Waits) -> Generator[Any, Any, Any]:
    step: Callable[[], Any] = partial(work.send, None)
    while True:
        try:
            awaited = step()
        except StopIteration as ended:
            return ended.value
        waits.on_wait(awaited)
        try:
            step = partial(work.send, (yield awaited))
        except BaseException as error:  # noqa: BLE001  (passed on)
            step = partial(work.throw, error)


def _counting(
    loop: asyncio.AbstractEventLoop,
    work: Coroutine[Any, Any, Any],
    context: Context | None = None,
) -> asyncio.Task[Any]:
    waits = _WAITS.get() if context is None else context.get(_WAITS)
    if waits is None:
        return asyncio.Task(work, loop=loop, context=context)
    task = asyncio.Task(_awaited(work, waits), loop=loop, context=context)
    task.add_done_callback(lambda _: work.close())  # one cancelled before it began never came to it
    return task


async def _awaited(work: Coroutine[Any, Any, Any], waits: _Waits) -> Any:
    return await _counted(work, waits)


class _Charges:
    """A sink that adds up what model calls are said to have cost."""

    def __init__(self) -> None:
        self.total = 0

    def record(self, call: CallTraced) -> None:
        if call.kind is CallKind.MODEL:
            self.total += call.cost

    async def aclose(self) -> None:
        pass


async def sweep(way: Way, ledger_name: str, moment: Moment, folder: Path) -> Sweep:
    """Cancels one ask after the other, each a wait later, until one ends before its turn."""
    path, charges = folder / f"{time.monotonic_ns()}.db", _Charges()
    ledger: Ledger = SqliteLedger(path) if ledger_name == "SQLite" else MemoryLedger()
    leaks: list[int] = []
    left = wait = 0
    asyncio.get_running_loop().set_task_factory(cast("Any", _counting))
    async with Runtime("$1000", ledger=ledger, trace=charges, limits=lambda _: ROOM) as rt:
        for wait in count():
            cancelled = await _ask_and_cancel(rt, way, wait, moment)
            before, left = left, await _reserved(rt, ledger, left)
            if left > before:
                leaks.append(wait)
            if not cancelled:
                break
        root = await ledger.scope(rt.budgets.root)
        assert root is not None
    drift = reserved_and_drift(path)[1] if path.exists() else 0
    name = f"{way.name}, {ledger_name}, {moment.name}"
    return Sweep(name, wait, leaks, drift, root.settled - charges.total)


async def _reserved(rt: Runtime, ledger: Ledger, expected: int) -> int:
    """A stream left in the body of its loop is closed by the event loop, a little later."""
    reserved = -1
    for _ in range(TURNS):
        scope = await ledger.scope(rt.budgets.root)
        assert scope is not None
        reserved = scope.reserved
        if reserved == expected:
            break
        await asyncio.sleep(0)
    return reserved


async def _ask_and_cancel(rt: Runtime, way: Way, wait: int, moment: Moment) -> bool:
    at = {wait} if moment.again is None else {wait, wait + moment.again}
    waits = _Waits(at, heard=moment.heard)
    with rt.budget(way.room) if way.room else nullcontext():
        beside = asyncio.ensure_future(_consume(rt, BESIDE))
        context = copy_context()
        context.run(_WAITS.set, waits)
        loop = asyncio.get_running_loop()
        waits.asker = asked = loop.create_task(_consume(rt, way), context=context)
        _, hung = await asyncio.wait([beside, asked], timeout=PATIENCE_S)
    for task in hung:
        task.cancel()
    if hung:
        await asyncio.wait(hung)
        return True
    with suppress(BudgetExceeded):  # the cancelled ask was charged all there was
        beside.result()
    return asked.cancelled()


async def _consume(rt: Runtime, way: Way) -> None:
    if not way.stream:
        await rt.ask(way.agent, "hi", **way.options)
        return
    async for _ in rt.stream(way.agent, "hi", **way.options):
        await asyncio.sleep(0)


def main(cancels: int = 10_000) -> int:
    sweeps: list[Sweep] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in count():
            for way, ledger, moment in product(WAYS, LEDGERS, MOMENTS):
                varied = moment._replace(again=moment.again and moment.again + number % 4)
                sweeps.append(asyncio.run(sweep(way, ledger, varied, Path(folder))))
            if sum(made.cancels for made in sweeps) >= cancels:
                break
    for made in sweeps:
        if not made.holds:
            print(made)
    broken = sum(not made.holds for made in sweeps)
    print(
        f"{sum(made.cancels for made in sweeps)} cancels in {len(sweeps)} sweeps: "
        f"{sum(len(made.leaks) for made in sweeps)} leaks, "
        f"drift {sum(abs(made.drift) for made in sweeps)}, "
        f"untold {sum(abs(made.untold) for made in sweeps)}: {'BROKEN' if broken else 'ok'}"
    )
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
