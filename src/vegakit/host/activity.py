"""The last things that happened in a runtime, by process: what `vega logs` shows and follows."""

import asyncio
import logging
import threading
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import suppress
from itertools import dropwhile
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from vegakit.control import LogEntry, is_within
from vegakit.events import CallKind, CallStatus, CallTraced
from vegakit.host.agents import current_process
from vegakit.money import Money, format_money, to_usd
from vegakit.policy import format_wait
from vegakit.ports import Clock, Sink, share_of, traits_of
from vegakit.program import (
    BreakerClosed,
    BreakerOpened,
    CallQueued,
    CallRetried,
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

if TYPE_CHECKING:
    from vegakit.telemetry import Metric, Metrics, Wait

_LOG = logging.getLogger("vegakit")
_KEPT = 2_000
_MOST_UNCOUNTED = 256
_RATE_MS = 10_000


RARE_NEWS = ProcessRestarted | ProcessStuck | CostAlert | BreakerOpened | BreakerClosed | WastedCost
"""News that are told also while nobody looks in: the others come with every process."""
_Occurrence: TypeAlias = tuple[int, int, str, CallTraced | News]


class ActivityLog:
    """Implements `ports.Sink`: counts each call, logs it, passes it on and remembers the last ones,
    with their process.
    Whoever follows and is too slow misses some, and sees it by their numbers."""

    def __init__(self, sink: Sink | None, clock: Clock) -> None:
        self._sink = sink
        self._metrics: Metrics | None = None
        self._making = threading.Lock()
        self._uncounted: deque[CallTraced | Wait] = deque()
        self._restarts = 0
        self._wasted = 0
        self.traits, self.share = traits_of(sink), share_of(sink)
        self._clock = clock
        self._kept: deque[_Occurrence] = deque(maxlen=_KEPT)
        self._number = 0
        self._followers: set[asyncio.Event] = set()
        self.metric_sources: dict[str, Callable[[], Iterable[Metric]]] = {}
        """What is served with the metrics of this runtime, by who adds it."""

    def record(self, call: CallTraced) -> None:
        """Remember a call with the process that made it, and pass it on."""
        process = current_process.get()
        # Without its content, which nobody is shown here, and of which thousands would be kept.
        kept = call if call.content is None else replace(call, content=None)
        self._keep(int(call.at_ms + call.latency_ms), process, kept)
        self._count(kept)
        if _LOG.isEnabledFor(logging.INFO):
            _log_call(call, process)
        if self._sink is not None:
            self._sink.record(call)

    def observe_wait(self, waited_for: str, ms: int) -> None:
        """Count how long an attempt waited for a thing of ours."""
        self._count((waited_for, ms))

    def count_metrics(self) -> "Metrics":
        """Count what happened since the last time, and return all of it."""
        with self._making:  # two threads must not make two
            if self._metrics is None:
                from vegakit.telemetry import Metrics

                self._metrics = Metrics()
        self._metrics.restarts, self._metrics.wasted = self._restarts, self._wasted
        self._metrics.count(self._taken())
        return self._metrics

    def _count(self, one: "CallTraced | Wait") -> None:
        # An append needs no lock, and leaves the counting for a time when it is worth its while.
        self._uncounted.append(one)
        if len(self._uncounted) >= _MOST_UNCOUNTED:
            self.count_metrics()

    def _taken(self) -> "Iterator[CallTraced | Wait]":
        """Yield what was not counted yet; another thread may take some of it at the same time."""
        with suppress(IndexError):
            while True:
                yield self._uncounted.popleft()

    def tell(self, news: News) -> None:
        """Remember news of a process."""
        process = getattr(news, "path", "")
        self._keep(self._clock.now(), process, news)
        if isinstance(news, ProcessRestarted):
            self._restarts += 1
        elif isinstance(news, WastedCost):
            self._wasted += news.amount
        if _LOG.isEnabledFor(logging.INFO) and (text := _news_line(news)):
            from vegakit.telemetry import LOG_FACTS

            _LOG.info(text, extra={LOG_FACTS: {"process": process}})

    async def aclose(self) -> None:
        """Close the sink behind, if there is one."""
        if self._sink is not None:
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


# Calls and news as log lines: names, counts and money, never what was said.


def _log_call(call: CallTraced, process: str) -> None:
    """Asks and failures at `info`, other calls at `debug`; a user's own spans are only traced."""
    if call.kind in {CallKind.SPAN, CallKind.EVENT}:
        return
    from vegakit.telemetry import LOG_FACTS, error_type

    level = logging.DEBUG
    if call.kind is CallKind.ASK or call.status is not CallStatus.OK:
        level = logging.INFO
    tool = call.name if call.kind is CallKind.TOOL else ""
    facts = {
        "process": process,
        "trace_id": call.trace_id,
        "span_id": call.span_id,
        "kind": str(call.kind),
        "agent": call.agent,
        "model": call.model,
        "tool": tool,
        "status": str(call.status),
        "error": error_type(call),
        "duration_ms": call.latency_ms,
        "cost_usd": to_usd(call.cost),
    }
    subject = tool or call.model or call.agent
    _LOG.log(level, "%s of %s: %s", call.kind, subject, call.status, extra={LOG_FACTS: facts})


def _news_line(news: News) -> str:
    match news:
        case ProcessRestarted(path, generation, cause):
            return f"{path} was restarted (life {generation}), after {cause.kind}"
        case ProcessStuck(path, for_ms):
            return f"{path} is stuck: nothing happened for {for_ms / 1000:.0f} s"
        case CostAlert(path, spent, alert_at):
            return f"{path} has spent {format_money(spent)}; its mark was {format_money(alert_at)}"
        case CallQueued(path, _, limit, wait_ms, reason):
            return f"{path} waits for {limit}: {reason}, about {format_wait(wait_ms)}"
        case CallRetried(path, _, reason, attempt, attempts, _):
            return f"{path}: {reason}; attempt {attempt} of {attempts} follows"
        case BreakerOpened(name):
            return f"the breaker of {name} opened"
        case BreakerClosed(name):
            return f"the breaker of {name} closed"
        case _:
            return ""


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
        case BreakerOpened() | BreakerClosed() | CallQueued() | CallRetried():
            return *_limit_fields(news), Money(0)
        case Printed(_, text):
            return "printed", text, Money(0)
        case TraceNote(_, kind, text):
            return kind, text, Money(0)
        case WastedCost() | OverlapReport():
            return _speculation_fields(news)


def _limit_fields(
    news: BreakerOpened | BreakerClosed | CallQueued | CallRetried,
) -> tuple[str, str]:
    match news:
        case BreakerOpened(name):
            return "breaker opened", name
        case BreakerClosed(name):
            return "breaker closed", name
        case CallQueued(_, _, limit, wait_ms, reason):
            return "queued", f"for {limit}: {reason}, about {format_wait(wait_ms)}"
        case CallRetried(_, _, reason, attempt, attempts, _):
            return "retried", f"{reason}; attempt {attempt} of {attempts}"


def _speculation_fields(news: WastedCost | OverlapReport) -> tuple[str, str, Money]:
    if isinstance(news, WastedCost):
        return "wasted", "on a call that was begun early and not used", news.amount
    took, chain = news.sequential_ms / 1000, news.critical_ms / 1000
    return "overlapped", f"calls of {took:.1f} s, longest chain {chain:.1f} s", Money(0)
