"""Traces as JSON lines: the format of one line, the sink that writes them, and runs read back and
rendered.

Several processes may share the file. It is opened anew for each batch, so that it may be
rotated.
"""

import asyncio
import atexit
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw, Struct

from vegakit.events import CallKind, CallStatus, CallTraced
from vegakit.ids import SpanId, TraceId
from vegakit.money import NANOS, Money, format_money
from vegakit.telemetry.redaction import Redactor

# A writer in the background: records wait in memory, and one thread writes them a batch at a time.
#
# caller ── record ──▶ waiting ──▶ thread: gather a moment, take all, write
#                         └── full ─▶ costs money? the caller writes the batch : count and drop


_LOG = logging.getLogger("vegakit")
_GATHER_S = 0.05
_CLOSE_WITHIN_S = 15


class BackgroundWriter:
    """`write` gets a batch and how many records were dropped since the last one; it is never
    called twice at once, and does not raise."""

    def __init__(
        self, write: Callable[[list[CallTraced], int], None], capacity: int = 10_000
    ) -> None:
        self._write = write
        self._capacity = capacity
        self._waiting: list[CallTraced] = []
        self._dropped = 0
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._filled = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def record(self, call: CallTraced) -> None:
        """Take a record, to be written later. A full queue drops records of calls that cost
        nothing."""
        with self._lock:
            first, full = not self._waiting, len(self._waiting) >= self._capacity
            if full and not call.cost:
                self._dropped += 1
                return
            self._waiting.append(call)
        if full or self._closed.is_set():
            self.flush()
        elif first:
            self._wake()

    def flush(self) -> None:
        """Write all that waits."""
        with self._writing:
            with self._lock:
                batch, self._waiting = self._waiting, []
                dropped, self._dropped = self._dropped, 0
            if batch or dropped:
                self._write(batch, dropped)

    def close(self) -> None:
        """Write all that waits and end the thread. A later record is written at once, by who
        records it."""
        self._closed.set()
        self._filled.set()
        if self._thread is not None:
            self._thread.join()
            atexit.unregister(self.close)
        self.flush()

    async def aclose(self) -> None:
        """Close in the background, for a bounded time."""
        try:
            async with asyncio.timeout(_CLOSE_WITHIN_S):
                await asyncio.to_thread(self.close)
        except TimeoutError:
            _LOG.warning("traces were not all written within %s s", _CLOSE_WITHIN_S)

    def _wake(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._write_on, name="vega traces", daemon=True
                )
                self._thread.start()
                atexit.register(self.close)
        self._filled.set()

    def _write_on(self) -> None:
        while not self._closed.is_set():
            self._filled.wait()
            self._closed.wait(_GATHER_S)
            self._filled.clear()
            self.flush()


# One call as one line of JSON, there and back: the file format of `vega trace`.
#
# The names are the language's. Dollars are written as exact numbers, up to nine decimals.


LINE_VERSION = 1

_NOTHING = Raw(b"0")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class _Line(Struct, omit_defaults=True):
    v: int
    trace_id: TraceId
    span_id: SpanId
    parent_span: SpanId | None
    kind: CallKind
    name: str
    agent: str
    model: str
    at: datetime
    latency_ms: float
    status: CallStatus
    input_tokens: int
    output_tokens: int
    cost_usd: Raw
    retries: int
    reserved_usd: Raw = _NOTHING
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    first_token_ms: float | None = None
    finish: str = ""
    error: str = ""
    attributes: dict[str, Any] = {}
    content: Any = None


_SAME = tuple({*_Line.__struct_fields__} & {*CallTraced.__struct_fields__})
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Line)


def line_of(call: CallTraced) -> bytes:
    """Return a record as a JSON line."""
    same = {name: getattr(call, name) for name in _SAME}
    line = _Line(
        v=LINE_VERSION,
        at=_EPOCH + call.at_ms * _MILLISECOND,
        cost_usd=_dollars(call.cost),
        reserved_usd=_dollars(call.reserved) if call.reserved else _NOTHING,
        **same,
    )
    return _encoder.encode(line) + b"\n"


def call_of(text: bytes) -> CallTraced | None:
    """None for a line that is torn, damaged, or of a kind that a later version writes."""
    try:
        line = _decoder.decode(text)
        cost, reserved = _money(line.cost_usd), _money(line.reserved_usd)
        at_ms = (line.at - _EPOCH) // _MILLISECOND
    except (msgspec.DecodeError, InvalidOperation, UnicodeError, RecursionError, TypeError):
        return None
    same = {name: getattr(line, name) for name in _SAME}
    return CallTraced(at_ms=at_ms, cost=cost, reserved=reserved, **same)


def _dollars(amount: Money) -> Raw:
    sign, nanos = ("-", -amount) if amount < 0 else ("", int(amount))
    whole, fraction = divmod(nanos, NANOS)
    return Raw(f"{sign}{whole}.{fraction:09d}".rstrip("0").rstrip(".").encode())


def _money(number: Raw) -> Money:
    return Money(int(Decimal(bytes(number).decode()).scaleb(9)))


# Calls as JSON lines in a file that several processes may share.
#
# The file is opened anew for each batch, so that it may be rotated, and each batch of whole lines
# is one write at the end of the file. (Windows keeps apart what several threads write, not
# processes.)


NO_TRACE = TraceId("0" * 32)
"""Of notes that belong to no run."""

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
"""One that somebody planted in a project would have us write to a file that is not ours."""
_ONLY_MINE = 0o600


class JsonLinesSink:
    """Implements `ports.Sink`. A full disk loses records that cost nothing, counted in a note; up
    to `capacity` records that cost money are kept and tried again."""

    def __init__(
        self, path: Path, redactor: Redactor | None = None, *, capacity: int = 10_000
    ) -> None:
        self._path = path
        self._redactor = redactor or Redactor()
        self._capacity = capacity
        self._kept: list[bytes] = []
        self._lost = 0
        self._failing = self._torn = False
        self._writer = BackgroundWriter(self._write, capacity)

    def record(self, call: CallTraced) -> None:
        self._writer.record(call)

    async def aclose(self) -> None:
        await self._writer.aclose()

    def _write(self, batch: list[CallTraced], dropped: int) -> None:
        self._lost += dropped
        calls = [(line_of(self._redactor.redact_call(call)), call) for call in batch]
        note = [line_of(_note(self._lost, batch))] if self._lost else []
        try:
            self._append(b"".join([*self._kept, *(line for line, _ in calls), *note]))
        except OSError as error:
            self._keep([line for line, call in calls if call.cost], len(batch), error)
        else:
            self._kept, self._lost, self._failing = [], 0, False

    def _append(self, text: bytes) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        no_link = 0 if self._path.is_relative_to("/dev") else _NO_LINK
        file = os.open(self._path, _FLAGS | no_link, _ONLY_MINE)
        try:
            rest = memoryview(b"\n" + text if self._torn else text)
            while rest:
                written = os.write(file, rest)
                rest, self._torn = rest[written:], True
            self._torn = False
        finally:
            os.close(file)

    def _keep(self, billed_lines: list[bytes], all_of_them: int, error: OSError) -> None:
        wanted = [*self._kept, *billed_lines]
        if not self._failing:
            _LOG.error(
                "traces cannot be written to %s (%s); free space there, or set telemetry.jsonl to "
                "another file",
                self._path,
                error.strerror,
            )
        self._failing = True
        self._kept = wanted[: self._capacity]
        self._lost += all_of_them - len(billed_lines) + len(wanted) - len(self._kept)


def _note(dropped: int, batch: list[CallTraced]) -> CallTraced:
    at_ms = batch[-1].at_ms if batch else 0
    return CallTraced(
        NO_TRACE,
        SpanId("0" * 16),
        CallKind.EVENT,
        "records dropped",
        at_ms,
        0.0,
        attributes={"dropped": dropped},
    )


# Runs read back from a file of JSON lines.


_TAIL_BYTES = 64 * 1024 * 1024
_BILLED = {CallKind.MODEL, CallKind.TOOL}


class TracedRun:
    """All calls of one trace, in the order they began."""

    def __init__(self, trace_id: TraceId, calls: Sequence[CallTraced]) -> None:
        self.trace_id = trace_id
        self.calls = sorted(calls, key=lambda call: call.at_ms)

    @cached_property
    def root(self) -> CallTraced:
        """Its first ask, or whatever began first if none has ended yet."""
        return next((call for call in self.calls if call.parent_span is None), self.calls[0])

    @property
    def status(self) -> CallStatus:
        """Return how the run ended."""
        return self.root.status

    @property
    def agent(self) -> str:
        """Return the agent that was asked, or the name of the run."""
        return self.root.agent or self.root.name

    @property
    def at_ms(self) -> int:
        """Return when the run began."""
        return self.calls[0].at_ms

    @property
    def latency_ms(self) -> float:
        """Return how long the run took."""
        return max(call.at_ms + call.latency_ms for call in self.calls) - self.at_ms

    @property
    def billed(self) -> Sequence[CallTraced]:
        """An ask may repeat the sum of what stands below it."""
        return [call for call in self.calls if call.kind in _BILLED]

    @property
    def tokens(self) -> int:
        """Return the tokens that were billed."""
        return sum(call.input_tokens + call.output_tokens for call in self.billed)

    @property
    def cost(self) -> Money:
        """Return what the run cost."""
        return Money(sum(call.cost for call in self.billed))


def load_runs(path: Path, wanted: str = "") -> list[TracedRun]:
    """Latest last; those whose id begins with `wanted`, or the latest 64 MB of all. Lines that
    cannot be read are passed over. Raises `OSError`."""
    runs: dict[TraceId, dict[str, CallTraced]] = {}
    for line in _lines(path, wanted):
        call = call_of(line)
        if call and call.trace_id != NO_TRACE and call.trace_id.startswith(wanted):
            runs.setdefault(call.trace_id, {})[call.span_id] = call
    found = [TracedRun(trace_id, [*calls.values()]) for trace_id, calls in runs.items()]
    return sorted(found, key=lambda run: run.at_ms)


def _lines(path: Path, wanted: str) -> Iterator[bytes]:
    mark = wanted.encode(errors="replace")
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0 if wanted else max(0, size - _TAIL_BYTES))
        yield from (line for line in file if mark in line)


# A run as a tree, and runs as a table: plain text with time, tokens and cost.


_PLAIN = "\x1b[0m"
_COLOURS = {
    CallStatus.OK: "",
    CallStatus.FAILED: "\x1b[31m",
    CallStatus.REFUSED: "\x1b[33m",
    CallStatus.CANCELLED: "\x1b[2m",
}
_HEAD = ("ID", "STARTED", "AGENT", "STATUS", "CALLS", "TOKENS", "COST")
_MOST_ERROR = 200
_WIDEST_INDENT = 120


class _Node(Struct):
    call: CallTraced
    lead: str = ""
    children: "list[_Node]" = []
    tokens: tuple[int, int] = (0, 0)
    cost: int = 0


def render_tree(
    calls: Iterable[CallTraced], *, colour: bool = False, redactor: Redactor | None = None
) -> str:
    """Sums stand at asks and spans; what the calls below them cost is counted once."""
    hide = (redactor or Redactor()).redact_call
    nodes = _in_order(hide(call) for call in calls)
    for node in reversed(nodes):
        _add_up(node)
    rows = [(node.lead + _label(node.call), *_figures(node)) for node in nodes]
    statuses = [node.call.status for node in nodes]
    return _table(rows, statuses, colour=colour)


def render_runs(
    runs: Sequence[TracedRun], *, colour: bool = False, redactor: Redactor | None = None
) -> str:
    """Return the runs as a table."""
    redact = (redactor or Redactor()).redact
    rows = [_run_row(run, redact(run.agent)) for run in runs]
    statuses = [CallStatus.OK, *(run.status for run in runs)]
    return _table([_HEAD, *rows], statuses, colour=colour)


def _in_order(calls: Iterable[CallTraced]) -> list[_Node]:
    """Return the calls as they are printed. A call whose parent was not recorded stands at the
    top."""
    nodes = {call.span_id: _Node(call) for call in sorted(calls, key=lambda call: call.at_ms)}
    tops: list[_Node] = []
    for node in nodes.values():
        parent = nodes.get(node.call.parent_span or SpanId(""))
        (parent.children if parent else tops).append(node)
    ordered: list[_Node] = []
    waiting = [(node, "") for node in reversed(tops)]
    while waiting:
        node, indent = waiting.pop()
        ordered.append(node)
        last = node.children[-1] if node.children else None
        for child in reversed(node.children):
            child.lead = indent + ("└─ " if child is last else "├─ ")
            deeper = indent + ("   " if child is last else "│  ")
            waiting.append((child, deeper[-_WIDEST_INDENT:]))
    return ordered


def _add_up(node: _Node) -> None:
    call = node.call
    billed = call.kind in {CallKind.MODEL, CallKind.TOOL}
    own = (call.input_tokens, call.output_tokens, call.cost) if billed else (0, 0, 0)
    below = [(*child.tokens, child.cost) for child in node.children]
    given, taken, cost = (sum(column) for column in zip(own, *below, strict=True))
    node.tokens, node.cost = (given, taken), cost


def _label(call: CallTraced) -> str:
    name = call.name if call.kind is not CallKind.ASK else call.agent or call.name
    return f"{call.kind} {_one_line(name)}"


def _figures(node: _Node) -> tuple[str, str, str, str]:
    call = node.call
    tokens = "{:,} → {:,}".format(*node.tokens) if any(node.tokens) else ""
    retries = f" retried {call.retries}×" if call.retries else ""
    status = "" if call.status is CallStatus.OK else str(call.status)
    error = f": {_one_line(call.error)}" if call.error else ""
    time = "" if call.kind is CallKind.EVENT else _duration(call.latency_ms)
    money = format_money(Money(node.cost)) if node.cost else ""
    return time, tokens, money, f"{status}{retries}{error}".strip()


def _run_row(run: TracedRun, agent: str) -> tuple[str, ...]:
    started = datetime.fromtimestamp(run.at_ms / 1000, UTC)
    return (
        _one_line(run.trace_id[:12]),
        f"{started:%Y-%m-%d %H:%M:%S}Z",
        _one_line(agent),
        str(run.status),
        str(len(run.billed)),
        f"{run.tokens:,}",
        format_money(run.cost),
    )


def _table(rows: Sequence[Sequence[str]], statuses: Sequence[CallStatus], *, colour: bool) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    if not colour:
        return "\n".join(lines)
    marks = [_COLOURS[status] for status in statuses]
    return "\n".join(
        f"{mark}{line}{_PLAIN}" if mark else line for mark, line in zip(marks, lines, strict=True)
    )


def _duration(ms: float) -> str:
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.2f} s"


def _one_line(text: str) -> str:
    """Return a text on one line: what a model wrote may not steer the terminal."""
    clean = "".join(letter if letter.isprintable() else " " for letter in text[:_MOST_ERROR])
    return clean + ("…" if len(text) > _MOST_ERROR else "")
