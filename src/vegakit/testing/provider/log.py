"""Every request that arrived, in order, and what became of it; readable from any thread.

A request is in the log before a byte of its answer is sent, and has its end there before the last
byte is: what a client has seen, the log knows.

With a file, each request is a JSON line when it is received and one when it ended; keys that the
client sent are left out of it.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import msgspec

from vegakit.records import to_json
from vegakit.testing.provider.http import HttpRequest
from vegakit.testing.provider.requests import Api, Request, RequestStatus, read_request

__all__ = ["Log"]

_KEYS = frozenset({"authorization", "x-api-key", "api-key"})


class Log:
    def __init__(self, path: Path | None) -> None:
        self.requests: list[Request] = []
        self._attempts: Counter[tuple[Api, bytes]] = Counter()
        self._lock = threading.Lock()
        self._waiting: list[tuple[Callable[[], bool], Future[None]]] = []
        self._path = path

    def reset(self) -> None:
        self.requests.clear()
        self._attempts.clear()

    def received(self, api: Api, http: HttpRequest) -> Request:
        """Raises msgspec.DecodeError for a body that no provider would take."""
        n, same = len(self.requests) + 1, (api, http.body)
        attempt = self._attempts[same] + 1
        request = read_request(n, api, http.body, http.headers, attempt, _now_ms())
        self._attempts[same] = attempt
        self.requests.append(request)
        self._write(request, _received_line)
        self._tell()
        return request

    def ended(self, request: Request, status: RequestStatus) -> None:
        """Only the first end counts."""
        if request.ended_ms is not None:
            return
        request.status, request.ended_ms = status, _now_ms()
        self._write(request, _ended_line)
        self._tell()

    def received_so_far(self) -> list[Request]:
        return list(self.requests)

    def ended_so_far(self) -> list[Request]:
        return [request for request in self.requests if request.ended_ms is not None]

    def when(self, holds: Callable[[], bool]) -> Future[None]:
        future: Future[None] = Future()
        with self._lock:
            self._waiting.append((holds, future))
        self._tell()
        return future

    def _tell(self) -> None:
        with self._lock:
            due = [future for holds, future in self._waiting if future.cancelled() or holds()]
            if due:
                self._waiting = [w for w in self._waiting if w[1] not in due]
        for future in due:
            if future.set_running_or_notify_cancel():
                future.set_result(None)

    def _write(self, request: Request, line: Callable[[Request], dict[str, Any]]) -> None:
        if self._path:
            with self._path.open("ab") as file:
                file.write(to_json(line(request)) + b"\n")


def _received_line(request: Request) -> dict[str, Any]:
    fields = msgspec.structs.asdict(request)
    del fields["raw"]
    headers = {name: value for name, value in request.headers.items() if name not in _KEYS}
    return {"event": "received", **fields, "headers": headers, "body": request.body}


def _ended_line(request: Request) -> dict[str, Any]:
    return {
        "event": "ended",
        "n": request.n,
        "status": request.status,
        "code": request.code,
        "sent": request.sent,
        "ended_ms": request.ended_ms,
    }


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
