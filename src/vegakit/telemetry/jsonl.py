"""Calls as JSON lines in a file that several processes may share.

The file is opened anew for each batch, so that it may be rotated, and each batch of whole lines is
one write at the end of the file. (Windows keeps apart what several threads write, not processes.)
"""

import logging
import os
from pathlib import Path

from vegakit.events import CallKind, CallTraced
from vegakit.ids import SpanId, TraceId
from vegakit.telemetry.background import BackgroundWriter
from vegakit.telemetry.lines import line_of
from vegakit.telemetry.redaction import Redactor

__all__ = ["NO_TRACE", "JsonLinesSink"]

NO_TRACE = TraceId("0" * 32)
"""Of notes that belong to no run."""

_log = logging.getLogger("vegakit")
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

    def _keep(self, dear: list[bytes], all_of_them: int, error: OSError) -> None:
        wanted = [*self._kept, *dear]
        if not self._failing:
            _log.error(
                "traces cannot be written to %s (%s); free space there, or set telemetry.jsonl to "
                "another file",
                self._path,
                error.strerror,
            )
        self._failing = True
        self._kept = wanted[: self._capacity]
        self._lost += all_of_them - len(dear) + len(wanted) - len(self._kept)


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
