"""Clocks that tests control, an event loop on virtual time, and `Vega`, which asks agents with a
scripted model (kit, host).

`FakeClock` moves only when a test advances it; on `VirtualLoop` time jumps to the next timer as
soon as nothing is ready.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import aclosing
from dataclasses import replace
from typing import Any, TypeVar

from vegakit.errors import BugError, UserError
from vegakit.host import Agent, Reply, ToolCalled, TurnEnded
from vegakit.money import Dollars
from vegakit.providers import ScriptedAnswer, ScriptedCall, ScriptedModel, ScriptedReply
from vegakit.sdk import Runtime
from vegakit.store import MemoryLedger

# A clock that moves only when a test says so.
#
#     steady  ──advance──▶      what the runtime reads: `now()`
#     wall    ──advance──▶      what people and files read: `wall()`; `step_wall` sets it
#
# Who waits wakes up after the `advance` that reaches its time, in the order of the times. One
# large step looks like a machine that was asleep: everybody wakes late. Small steps wake them in
# time.


_START_MS = 1_750_000_000_000


class FakeClock:
    """Implements `ports.Clock`."""

    def __init__(self, now_ms: int = _START_MS) -> None:
        self._now_ms = self._wall_ms = now_ms
        self._sleepers: list[tuple[int, asyncio.Future[None]]] = []

    def now(self) -> int:
        return self._now_ms

    def wall(self) -> int:
        """Return the wall clock's time, which may be set."""
        return self._wall_ms

    def advance(self, ms: int) -> None:
        """Let time pass, and wake who waited for it."""
        if ms < 0:
            raise ValueError(f"time only goes forward; got {ms} ms, use step_wall to set a clock")
        self._now_ms += ms
        self._wall_ms += ms
        for due_ms, sleeper in sorted(self._sleepers, key=lambda entry: entry[0]):
            if due_ms <= self._now_ms and not sleeper.done():
                sleeper.set_result(None)

    def step_wall(self, ms: int) -> None:
        """Set the wall clock, as an operator or a time server does; steady time does not notice."""
        self._wall_ms += ms

    async def wait_until(self, at_ms: int) -> None:
        if at_ms <= self._now_ms:
            await asyncio.sleep(0)
            return
        entry = (at_ms, asyncio.get_running_loop().create_future())
        self._sleepers.append(entry)
        try:
            await entry[1]
        finally:
            self._sleepers.remove(entry)


# An event loop on virtual time: when nothing is ready, time jumps to the next timer.
#
# No file, socket, thread or real clock takes part, so the same work runs the same way every time,
# and an hour of waiting takes no longer than what is done in it. It stops with an error when all
# that is left waits for something that cannot happen.


Result = TypeVar("Result")

_VIRTUAL_START_MS = 1_750_000_000_000


class _NoFiles:
    """A selector that moves the loop's time where a real one waits for files."""

    def __init__(self, loop: "VirtualLoop") -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("everybody waits and no timer is set: nothing will ever happen")
        self._loop.advance(timeout)
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop on which waiting takes no time."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _NoFiles(self)
        self._now_s = 0.0

    def time(self) -> float:
        """Return the virtual time."""
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Also as if the machine had slept: who waits wakes late."""
        self._now_s += seconds

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> "asyncio.Future[Any]":  # noqa: ANN401
        """Call the function at once: nothing happens beside anything else."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001
            future.set_exception(error)
        return future

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


class VirtualClock:
    """Implements `ports.Clock` on the time of the running loop. `wall` is what people read; to
    set it does not move `now`."""

    def __init__(self) -> None:
        self._stepped_ms = 0

    def now(self) -> int:
        return _VIRTUAL_START_MS + round(asyncio.get_running_loop().time() * 1000)

    def wall(self) -> int:
        """Return the wall clock's time, which may be set."""
        return self.now() + self._stepped_ms

    def step_wall(self, ms: int) -> None:
        """Set the wall clock."""
        self._stepped_ms += ms

    async def wait_until(self, at_ms: int) -> None:
        await asyncio.sleep(max(0, at_ms - self.now()) / 1000)


def run_virtual(work: Coroutine[Any, Any, Result]) -> Result:
    """Run as `asyncio.run` does, on virtual time; whatever the work leaves behind is cancelled."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


T = TypeVar("T")


def tool(name: str, /, **arguments: object) -> ScriptedReply:
    """An answer that calls this tool."""
    return ScriptedReply(calls=(ScriptedCall(name, arguments),))


class Vega:
    """The script answers in place of the agent's own model. All asks share one budget of $10."""

    def __init__(self) -> None:
        self.tools_called: list[str] = []
        """In the order the model called them; names it made up are not among them."""
        self._model: ScriptedModel | None = None
        self._ledger = MemoryLedger()
        self._spent = Dollars()

    @property
    def spent(self) -> Dollars:
        """Return what all asks have spent so far, failed ones too."""
        return self._spent

    def script(self, *replies: ScriptedAnswer) -> None:
        """Set what the model says, in order; called again, it begins anew."""
        self._model = ScriptedModel(replies)

    def run(self, agent: Agent[T], prompt: str, **options: Any) -> Reply[T]:  # noqa: ANN401
        """Takes what `Runtime.ask` takes."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.call(agent, prompt, **options))
        raise UserError("vega.run is for plain tests; in this one write `await vega.call(…)`")

    async def call(self, agent: Agent[T], prompt: str, **options: Any) -> Reply[T]:  # noqa: ANN401
        """Ask an agent; the model says what is scripted."""
        if self._model is None:
            raise UserError('the model has nothing to say; write vega.script("…") before the ask')
        scripted = replace(agent, model=self._model)
        async with Runtime(ledger=self._ledger, observable=False) as rt:
            try:
                return await self._watched(rt, scripted, prompt, **options)
            finally:
                self._spent = await rt.spent()

    async def _watched(
        self,
        rt: Runtime,
        agent: Agent[T],
        prompt: str,
        **options: Any,  # noqa: ANN401
    ) -> Reply[T]:
        async with aclosing(rt.ask(agent, prompt, **options).events(stream=False)) as events:
            async for event in events:
                if isinstance(event, ToolCalled):
                    self.tools_called.append(event.name)
                elif isinstance(event, TurnEnded):
                    return event.reply
        raise BugError(f"the turn of {agent.name} ended without a reply")
