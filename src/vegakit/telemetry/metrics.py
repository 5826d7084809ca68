"""Metrics of a runtime: counters and histograms that every call feeds, as Prometheus reads them.

They are kept whether anybody reads them or not: `host.ActivityLog` hands over some hundred calls at
once, and each costs one dictionary lookup and a few additions. The text format is written here: it
is one page, and its client library would be a dependency for everybody.

The number of series is bounded by construction. Kinds and statuses are closed sets. An agent, a
model, a tool or an error has a label of its own if it was among the first that were seen, and is
`other` after that; so are all of them once there are 500 combinations. No label is ever a prompt,
a path, an id or a message.
"""

import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

from vegakit.events import CallKind, CallStatus, CallTraced
from vegakit.money import NANOS
from vegakit.telemetry.redaction import error_type, redact

METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OTHER = "other"
_MOST_VALUES = 50
"""Of one label."""
_MOST_COMBINATIONS = 500
_MOST_REMEMBERED = 2_000
"""Calls as they came, each with its series; more of them are looked up by their labels."""
_LONGEST_LABEL = 80

BOUNDS_S = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0),
)
_BOUNDS_MS = tuple(bound * 1000 for bound in BOUNDS_S)

# Metrics and their samples, as text.


Labels: TypeAlias = Mapping[str, str]
MetricSample: TypeAlias = tuple[str, Labels, int | float | str]
"""What is added to the name (nothing but for histograms), labels and value."""


class Metric(NamedTuple):
    """Samples of one name."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    says: str
    samples: Iterable[MetricSample]


class Histogram:
    """Counts of durations up to each bound, with their sum."""

    __slots__ = ("bounds_ms", "counts", "sum_ms")

    def __init__(self, bounds_ms: tuple[float, ...] = _BOUNDS_MS) -> None:
        self.bounds_ms = bounds_ms
        self.counts = [0] * (len(bounds_ms) + 1)
        self.sum_ms = 0.0

    def add(self, ms: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(self.bounds_ms, ms)] += 1
        self.sum_ms += ms

    def samples(self, labels: Labels, *, in_ms: bool = False) -> Iterator[MetricSample]:
        """Yield what was counted, in seconds unless its name says otherwise: the buckets are
        cumulative."""
        total = 0
        bounds = self.bounds_ms if in_ms else BOUNDS_S
        for bound, count in zip((*bounds, "+Inf"), self.counts, strict=True):
            total += count
            yield "_bucket", {**labels, "le": f"{bound}"}, total
        yield "_sum", labels, self.sum_ms if in_ms else self.sum_ms / 1000
        yield "_count", labels, total


def metrics_text(metrics: Iterable[Metric]) -> str:
    """Return the text that Prometheus reads."""
    lines: list[str] = []
    for name, kind, says, samples in metrics:
        lines += [f"# HELP {name} {says}", f"# TYPE {name} {kind}"]
        for suffix, labels, value in samples:
            pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            lines.append(f"{name}{suffix}{f'{{{pairs}}}' if pairs else ''} {value}")
    return "\n".join([*lines, ""])


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _dollars(nanos: int) -> str:
    """Exactly: a sum of floats would drift from the ledger."""
    return f"{nanos // NANOS}.{nanos % NANOS:09d}"


# Counters of calls. A call as it came leads to its series; many lead to one where a label is
# `other`.


_Key: TypeAlias = tuple[str, str, str, str, str]
"""Kind, agent, model, tool and status."""


Wait: TypeAlias = tuple[str, int]
"""What an attempt waited for, and for how many milliseconds."""


class _Usage:
    """Tokens and money of the model calls of one agent and model."""

    __slots__ = ("cache_read", "cache_write", "cost", "input", "output", "reserved", "retries")

    def __init__(self) -> None:
        self.input = self.output = self.cache_read = self.cache_write = 0
        self.cost = self.reserved = self.retries = 0


class _Series:
    __slots__ = ("calls", "first_chunk", "latency", "usage")

    def __init__(self, latency: Histogram, first_chunk: Histogram, usage: _Usage) -> None:
        self.calls = 0
        self.latency, self.first_chunk, self.usage = latency, first_chunk, usage


class Metrics:
    """Counts the calls of one runtime. Any thread may record: a tool's spans end where it runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: defaultdict[str, dict[str, str]] = defaultdict(dict)
        self._remembered: dict[_Key, _Series] = {}
        self._series: dict[_Key, _Series] = {}
        self._latency: defaultdict[tuple[str, str], Histogram] = defaultdict(Histogram)
        self._first_chunk: defaultdict[str, Histogram] = defaultdict(Histogram)
        self._usage: defaultdict[tuple[str, str], _Usage] = defaultdict(_Usage)
        self._errors: defaultdict[tuple[CallKind, str], int] = defaultdict(int)
        self._waits: defaultdict[str, Histogram] = defaultdict(Histogram)
        self.restarts = 0
        self.wasted = 0

    def count(self, batch: "Iterable[CallTraced | Wait]") -> None:
        """Count calls and waits: many at once, as the lock costs more than to count one."""
        with self._lock:
            for one in batch:
                if isinstance(one, CallTraced):
                    self._count(one)
                else:
                    self._waits[one[0]].add(one[1])

    def _count(self, call: CallTraced) -> None:
        kind, status = call.kind, call.status
        tool = call.name if kind is CallKind.TOOL else ""
        # Members of an enum are hashed in Python, their values in C.
        key = (kind._value_, call.agent, call.model, tool, status._value_)
        series = self._remembered.get(key) or self._series_of(key)
        series.calls += 1
        series.latency.add(call.latency_ms)
        if kind is CallKind.MODEL:
            _add(series, call)
        if status is not CallStatus.OK:
            self._errors[kind, self._label("error", error_type(call))] += 1

    def label(self, name: str, value: str) -> str:
        """Return a value as this label may have it: the first ones as they are, then `other`."""
        with self._lock:
            return self._label(name, value)

    def collect(self) -> list[Metric]:
        """Return all that was counted."""
        with self._lock:
            return [*self._of_calls(), *self._of_models(), *self._of_the_rest()]

    def _series_of(self, key: _Key) -> _Series:
        kind, agent, model, tool, status = key
        labels = self._label("agent", agent), self._label("model", model), self._label("tool", tool)
        bounded: _Key = (kind, *labels, status)
        if bounded not in self._series and len(self._series) >= _MOST_COMBINATIONS:
            agent, model, tool = (OTHER if label else "" for label in labels)
            bounded = (kind, agent, model, tool, status)
        kind, agent, model, _, _ = bounded
        series = self._series.get(bounded)
        if series is None:
            latency, first = self._latency[kind, model], self._first_chunk[model]
            series = self._series[bounded] = _Series(latency, first, self._usage[agent, model])
        if len(self._remembered) < _MOST_REMEMBERED:
            self._remembered[key] = series
        return series

    def _label(self, name: str, value: str) -> str:
        """Hide keys once, when a value is first seen."""
        known = self._values[name]
        if value in known:
            return known[value]
        if not value or len(known) >= _MOST_VALUES:
            return value and OTHER
        known[value] = redact(value)[:_LONGEST_LABEL].encode(errors="replace").decode()
        return known[value]

    def _of_calls(self) -> Iterator[Metric]:
        yield Metric(
            "vega_calls_total",
            "counter",
            "Calls that ended, by kind: asks, model calls, tool calls, spans and events.",
            [
                (
                    "",
                    {"kind": kind, "agent": agent, "model": model, "tool": tool, "status": status},
                    one.calls,
                )
                for (kind, agent, model, tool, status), one in self._series.items()
            ],
        )
        yield Metric(
            "vega_errors_total",
            "counter",
            "Calls that did not succeed, by the name of the error.",
            [
                ("", {"kind": kind, "error": name}, count)
                for (kind, name), count in self._errors.items()
            ],
        )
        yield Metric(
            "vega_call_duration_seconds",
            "histogram",
            "How long calls took, with all their attempts and waits.",
            [
                sample
                for (kind, model), one in self._latency.items()
                for sample in one.samples({"kind": kind, "model": model})
            ],
        )

    def _of_models(self) -> Iterator[Metric]:
        usage = [({"agent": agent, "model": model}, u) for (agent, model), u in self._usage.items()]
        called = [(labels, one) for labels, one in usage if labels["model"]]
        yield Metric(
            "vega_time_to_first_chunk_seconds",
            "histogram",
            "How long model calls took until the first piece of a streamed answer.",
            [
                sample
                for model, one in self._first_chunk.items()
                if any(one.counts)
                for sample in one.samples({"model": model})
            ],
        )
        yield Metric(
            "vega_tokens_total",
            "counter",
            "Tokens as billed; input counts all of them, those of the cache too.",
            [
                ("", {**labels, "type": name}, getattr(one, name))
                for labels, one in called
                for name in ("input", "output", "cache_read", "cache_write")
            ],
        )
        for name, says in (
            ("cost", "Dollars that model calls were charged."),
            ("reserved", "Dollars that were reserved for model calls, whatever they came to."),
        ):
            samples = [("", labels, _dollars(getattr(one, name))) for labels, one in called]
            yield Metric(f"vega_{name}_usd_total", "counter", says, samples)
        retries = [("", labels, one.retries) for labels, one in called]
        yield Metric("vega_retries_total", "counter", "Further attempts at model calls.", retries)

    def _of_the_rest(self) -> Iterator[Metric]:
        yield Metric(
            "vega_wait_seconds",
            "histogram",
            "How long attempts at model calls waited: for their turn (limiter), for ledger and "
            "journal before they were sent (reserve) and after their answer (settle).",
            [
                sample
                for waited_for, one in self._waits.items()
                for sample in one.samples({"for": waited_for})
            ],
        )
        restarts: list[MetricSample] = [("", {}, self.restarts)]
        yield Metric("vega_process_restarts_total", "counter", "Restarts of processes.", restarts)
        yield Metric(
            "vega_wasted_usd_total",
            "counter",
            "Dollars charged for speculative calls that were not used.",
            [("", {}, _dollars(self.wasted))],
        )


def _add(series: _Series, call: CallTraced) -> None:
    usage = series.usage
    usage.input += call.input_tokens
    usage.output += call.output_tokens
    usage.cache_read += call.cache_read_tokens
    usage.cache_write += call.cache_write_tokens
    usage.cost += call.cost
    usage.reserved += call.reserved
    usage.retries += call.retries
    if call.first_token_ms is not None:
        series.first_chunk.add(call.first_token_ms)
