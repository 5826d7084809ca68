"""Traces as JSON lines: the format of one line, and the sink that writes them.

Several processes may share the file. It is opened anew for each batch, so that it may be
rotated; one that has become too large is set aside.
"""

import asyncio
import atexit
import errno
import logging
import os
import stat
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from msgspec import Raw
from msgspec.structs import fields

from vegakit.events import CallKind, CallTraced
from vegakit.ids import SpanId, TraceId
from vegakit.money import NANOS, Money
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
    called twice at once, and does not raise. `release` is called after the last batch."""

    def __init__(
        self,
        write: Callable[[list[CallTraced], int], None],
        capacity: int = 10_000,
        *,
        keeps_money: bool = True,
        release: Callable[[], None] = lambda: None,
    ) -> None:
        self._write = write
        self._keeps_money = keeps_money
        self._release = release
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
        nothing, or all if it keeps no money: then no caller ever writes."""
        with self._lock:
            first, full = not self._waiting, len(self._waiting) >= self._capacity
            if full and not (call.cost and self._keeps_money):
                self._dropped += 1
                return
            self._waiting.append(call)
        if full or self._closed.is_set():
            self.flush()
        elif first:
            self._wake()

    @property
    def is_closed(self) -> bool:
        """Whether who records something writes it at once."""
        return self._closed.is_set()

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
        with self._writing:
            self._release()

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


_REQUIRED = (
    "v trace_id span_id parent_span kind name agent model at latency_ms status input_tokens "
    "output_tokens cost_usd retries"
)
_OPTIONAL = (
    "reserved_usd cache_read_tokens cache_write_tokens first_token_ms finish error attributes "
    "content request_id run cached"
)
_OWN = {"v": int, "at": datetime, "cost_usd": Raw, "reserved_usd": Raw}
"""Fields that a line spells otherwise than `CallTraced`. The others are the same."""
_TYPES = {one.name: one.type for one in fields(CallTraced)} | _OWN
_DEFAULTS: dict[str, Any] = {one.name: one.default for one in fields(CallTraced)} | {
    "reserved_usd": _NOTHING,
    "attributes": {},
}
_Line: Any = msgspec.defstruct(
    "_Line",
    [(name, _TYPES[name]) for name in _REQUIRED.split()]
    + [(name, _TYPES[name], _DEFAULTS[name]) for name in _OPTIONAL.split()],
    omit_defaults=True,
)
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
_ADVICE = {
    errno.ENOSPC: "free space there",
    errno.EDQUOT: "free space there",
    errno.EBUSY: "end what keeps it locked",
}
"""What to do about a file that cannot be written, by the number of its error."""


class FileSink(ABC):
    """Implements `ports.Sink` for a file of any format. A full disk loses records that cost
    nothing, counted in a note; up to `capacity` records that cost money are kept and tried
    again."""

    setting: ClassVar[str]

    def __init__(
        self, path: Path, redactor: Redactor | None = None, *, capacity: int = 10_000
    ) -> None:
        self._path = path
        self._redactor = redactor or Redactor()
        self.traits = self._redactor.traits
        self._capacity = capacity
        self._kept: list[CallTraced] = []
        self._lost = 0
        self._failing = False
        self._writer = BackgroundWriter(self._write, capacity, release=self._release)

    def record(self, call: CallTraced) -> None:
        self._writer.record(call)

    async def aclose(self) -> None:
        await self._writer.aclose()

    def _release(self) -> None:  # noqa: B027  (most formats hold nothing)
        """Let go of what is held open between batches."""

    @abstractmethod
    def _append(self, calls: Sequence[CallTraced]) -> None:
        """Write records that are redacted already; raises `OSError`."""

    def _write(self, batch: list[CallTraced], dropped: int) -> None:
        self._lost += dropped
        calls = [self._redactor.redact_call(call) for call in batch]
        note = [_note(self._lost, batch)] if self._lost else []
        try:
            self._append([*self._kept, *calls, *note])
        except OSError as error:
            self._keep([call for call in calls if call.cost], len(batch), error)
        else:
            self._kept, self._lost, self._failing = [], 0, False

    def _keep(self, billed: list[CallTraced], all_of_them: int, error: OSError) -> None:
        wanted = [*self._kept, *billed]
        if not self._failing:
            _LOG.error(
                "traces cannot be written to %s (%s); %s, or set %s to another file",
                self._path,
                error.strerror,
                _ADVICE.get(error.errno or 0, "make it a file that can be written"),
                self.setting,
            )
        self._failing = True
        self._kept = wanted[: self._capacity]
        self._lost += all_of_them - len(billed) + len(wanted) - len(self._kept)


class JsonLinesSink(FileSink):
    """Records as JSON lines. A file that is larger than `most_bytes` becomes `FILE.1`, in place of
    the one before, so that there is never more than about twice as much."""

    setting = "telemetry.jsonl"
    _torn = False

    def __init__(
        self,
        path: Path,
        redactor: Redactor | None = None,
        *,
        capacity: int = 10_000,
        most_bytes: int | None = None,
    ) -> None:
        super().__init__(path, redactor, capacity=capacity)
        self._most_bytes = most_bytes

    def _append(self, calls: Sequence[CallTraced]) -> None:
        file = open_own(self._path, _FLAGS)
        try:
            if self._most_bytes is not None and set_aside(self._path, file, self._most_bytes):
                os.close(file)
                file = open_own(self._path, _FLAGS)
                self._torn = False
            text = b"".join(map(line_of, calls))
            rest = memoryview(b"\n" + text if self._torn else text)
            while rest:
                written = os.write(file, rest)
                rest, self._torn = rest[written:], True
            self._torn = False
        finally:
            os.close(file)


def aside_of(path: Path) -> Path:
    """Return where a file of traces that was too large is set aside."""
    return path.with_name(f"{path.name}.1")


def set_aside(path: Path, file: int, most_bytes: int) -> bool:
    """Set a file aside that has become too large, and say whether it was. Of several processes that
    find it so one does: the others see that it is locked, or that another stands in its place."""
    found = os.fstat(file)
    if found.st_size <= most_bytes or not stat.S_ISREG(found.st_mode):
        return False
    try:
        import fcntl  # not on every system; there somebody else has to rotate it
    except ImportError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.lstat(path), found):
            return True  # by another process, just before
        path.replace(aside_of(path))
    except OSError:
        return False  # it goes on growing, and the next batch tries again
    return True


def open_own(path: Path, flags: int) -> int:
    """Open a file that only its owner may read, and make its directory. A link is refused."""
    path.parent.mkdir(parents=True, exist_ok=True)
    no_link = 0 if path.is_relative_to("/dev") else _NO_LINK
    return os.open(path, flags | no_link, _ONLY_MINE)


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
