"""The last things that happened in a runtime, by process: what `vega logs` shows and follows."""

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Iterator
from itertools import dropwhile
from typing import TypeAlias

from vegakit.control import LogEntry, is_within
from vegakit.events import CallKind, CallTraced
from vegakit.host.agents import current_process
from vegakit.money import Money, format_money
from vegakit.ports import Clock, Sink
from vegakit.program import (
    BreakerClosed,
    BreakerOpened,
    CostAlert,
    News,
    OverlapReport,
    Printed,
    ProcessExited,
    ProcessRestarted,
    ProcessSpawned,
    ProcessStuck,
    TraceNote,
    WastedCost,
)
from vegakit.telemetry import Redactor

_KEPT = 2_000
_RATE_MS = 10_000


_Occurrence: TypeAlias = tuple[int, int, str, CallTraced | News]


class ActivityLog:
    """Implements `ports.Sink`: passes each call on and remembers the last ones, with their process.
    Whoever follows and is too slow misses some, and sees it by their numbers."""

    def __init__(self, sink: Sink, clock: Clock) -> None:
        self._sink = sink
        self._clock = clock
        self._kept: deque[_Occurrence] = deque(maxlen=_KEPT)
        self._number = 0
        self._followers: set[asyncio.Event] = set()

    def record(self, call: CallTraced) -> None:
        """Remember a call with the process that made it, and pass it on."""
        self._keep(int(call.at_ms + call.latency_ms), current_process.get(), call)
        self._sink.record(call)

    def tell(self, news: News) -> None:
        """Remember news of a process."""
        self._keep(self._clock.now(), getattr(news, "path", ""), news)

    async def aclose(self) -> None:
        """Close the sink behind."""
        await self._sink.aclose()

    def processes(self) -> set[str]:
        """Return the processes of which something is remembered."""
        return {process for _, _, process, _ in self._kept if process}

    def tokens_per_s(self, now: int) -> dict[str, float]:
        """Return the rates of the last ten seconds; the tokens of a call are spread over the time
        it took."""
        rates: defaultdict[str, float] = defaultdict(float)
        for _, ended_ms, process, call in reversed(self._kept):
            if not isinstance(call, CallTraced) or call.kind is not CallKind.MODEL:
                continue
            shared_ms = ended_ms - max(call.at_ms, now - _RATE_MS)
            if ended_ms > now - _RATE_MS:
                share = min(1.0, shared_ms / call.latency_ms) if call.latency_ms else 1.0
                rates[process] += call.output_tokens * share * 1000 / _RATE_MS
        return rates

    async def entries(
        self, path: str, redactor: Redactor, *, follow: bool
    ) -> AsyncGenerator[LogEntry]:
        """Yield what is remembered of a process and all below it; with `follow`, go on."""
        seen, happened = 0, asyncio.Event()
        self._followers.add(happened)
        try:
            while True:
                fresh, seen = self._since(seen, path, redactor), self._number
                for entry in fresh:
                    yield entry
                if not follow:
                    return
                await happened.wait()
                happened.clear()
        finally:
            self._followers.discard(happened)

    def _since(self, seen: int, path: str, redactor: Redactor) -> list[LogEntry]:
        fresh: Iterator[_Occurrence] = dropwhile(lambda one: one[0] <= seen, self._kept)
        return [_entry(one, redactor) for one in fresh if is_within(one[2], path)]

    def _keep(self, at_ms: int, process: str, what: CallTraced | News) -> None:
        self._number += 1
        self._kept.append((self._number, at_ms, process, what))
        for follower in self._followers:
            follower.set()


def _entry(happened: _Occurrence, redactor: Redactor) -> LogEntry:
    number, at_ms, process, what = happened
    if isinstance(what, CallTraced):
        call = redactor.redact_call(what)
        return LogEntry(
            number,
            at_ms,
            process,
            call.kind,
            call.name,
            call.status,
            call.latency_ms,
            call.input_tokens,
            call.output_tokens,
            call.cost,
            call.error,
        )
    word, note, cost = _news_fields(what)
    return LogEntry(number, at_ms, process, word, note=redactor.redact(note), cost=cost)


def _news_fields(news: News) -> tuple[str, str, Money]:
    match news:
        case ProcessSpawned(_, body, spawner):
            return "spawned", f"{body} by {spawner}" if spawner else body, Money(0)
        case ProcessRestarted(_, generation, cause):
            return "restarted", f"life {generation}, after {cause}", Money(0)
        case ProcessExited(_, _, reason, spent):
            return "exited", str(reason), spent
        case ProcessStuck(_, for_ms):
            return "stuck", f"nothing happened for {for_ms / 1000:.0f} s", Money(0)
        case CostAlert(_, spent, alert_at):
            return "cost alert", f"the mark was {format_money(alert_at)}", spent
        case BreakerOpened(name) | BreakerClosed(name):
            opened = isinstance(news, BreakerOpened)
            return "breaker opened" if opened else "breaker closed", name, Money(0)
        case Printed(_, text):
            return "printed", text, Money(0)
        case TraceNote(_, kind, text):
            return kind, text, Money(0)
        case WastedCost() | OverlapReport():
            return _speculation_fields(news)


def _speculation_fields(news: WastedCost | OverlapReport) -> tuple[str, str, Money]:
    if isinstance(news, WastedCost):
        return "wasted", "on a call that was begun early and not used", news.amount
    took, chain = news.sequential_ms / 1000, news.critical_ms / 1000
    return "overlapped", f"calls of {took:.1f} s, longest chain {chain:.1f} s", Money(0)
