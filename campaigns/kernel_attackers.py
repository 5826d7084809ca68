"""Whoever attacks a kernel that is served, in a process of its own, at a pace that is said.

    python -m campaigns.kernel_attackers CLASS[:NUMBER] HTTP_PORT GRPC_PORT TOKEN OTHER_TOKEN PACE

Answers each line `SECONDS` of input with a line of JSON: how many attacks were made in that time,
and what the server answered. Attackers have valid tokens of two tenants, a forged one, or none.
"""

import http.client
import json
import os
import random
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import cycle
from typing import Any

import grpc
from tests.kernel import test_attacks_grpc as frames, test_attacks_web as web
from tests.kernel.examples import EXAMPLES
from tests.kernel.rpc import PACKAGE, UNKNOWN_FIELD, filled, message_class, method_of
from tests.tools.confined.attacks import known

from vegakit.control import KERNEL_OPERATIONS, ReplyShape

__all__ = ["ATTACKS", "main"]

_FORGED = "vega_0123456789abcdef_" + "x" * 43
_PATIENCE_S = 20
_OPEN = 48
_UNARY = [name for name, row in KERNEL_OPERATIONS.items() if row.shape is not ReplyShape.STREAM]
_TEXT = "\u202e" + "approve rm -rf / " * 500


class Attacker:
    """What an attacker does over both doors, and what it was answered."""

    def __init__(self, http_port: int, grpc_port: int, tokens: list[str]) -> None:
        self.http_port, self.grpc_port, self.tokens = http_port, grpc_port, tokens
        self.answers: Counter[str] = Counter()
        self.chance = random.Random(7)
        self._channel: Any = grpc.insecure_channel(f"127.0.0.1:{grpc_port}")
        self._held: list[Any] = []
        self._callers = cycle([*tokens, _FORGED, ""])

    def who(self) -> str:
        """Return the next token: of a tenant, of another, a forged one, none."""
        return next(self._callers)

    def post(self, name: str, body: bytes | dict[str, Any], token: str, **headers: str) -> Any:
        """Call over HTTP; return the reply."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"} | headers
        return self.request("POST", f"/v1/{name}", data, sent)

    def request(self, method: str, path: str, data: bytes | None, headers: dict[str, str]) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=_PATIENCE_S)
        try:
            connection.request(method, path, data, headers)
            response = connection.getresponse()
            self.answers[f"http {response.status}"] += 1
            return json.loads(response.read(4 << 20) or b"null")
        except (OSError, ValueError, http.client.HTTPException) as error:
            self.answers[f"http {type(error).__name__}"] += 1
            return {}
        finally:
            connection.close()

    def rpc(self, name: str, body: bytes, token: str, **options: Any) -> None:
        """Call over gRPC without waiting for the answer; a stream is not read."""
        _, method = method_of(name)
        path = f"/{PACKAGE}.{method.containing_service.name}/{method.name}"
        metadata = (("authorization", f"Bearer {token}"),) if token else ()
        options = {"timeout": 5, "metadata": metadata} | options
        if method.server_streaming:
            self.hold(self._channel.unary_stream(path)(body, **options))
        else:
            called = self._channel.unary_unary(path).future(body, **options)
            called.add_done_callback(self._count)

    def _count(self, done: Any) -> None:
        self.answers[f"grpc {done.code().name}"] += 1

    def hold(self, thing: Any) -> None:
        """Keep a connection or a stream open, and let go of the oldest of many."""
        self._held.append(thing)
        while len(self._held) > _OPEN:
            self.let_go(self._held.pop(0))

    def let_go(self, thing: Any) -> None:
        with suppress(OSError):
            thing.close() if isinstance(thing, socket.socket) else thing.cancel()

    def end(self) -> None:
        while self._held:
            self.let_go(self._held.pop())

    def wire(self, port: int, data: bytes, *, narrow: bool = False) -> None:
        """Send bytes on a connection that stays open and is not read."""
        made = socket.socket()
        if narrow:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        made.settimeout(2)
        with suppress(OSError):
            made.connect(("127.0.0.1", port))
            made.sendall(data)
        self.hold(made)


Attack = Callable[[Attacker], object]


def request_bytes(name: str, fields: dict[str, Any]) -> bytes:
    message = message_class(method_of(name)[1].input_type.name)()
    return filled(message, fields).SerializeToString()


# gRPC: what a client of the library can send, and frames that it cannot.


def _frames(*made: bytes, settings: bytes = b"") -> bytes:
    return frames.PREFACE + frames.frame(frames.SETTINGS, 0, 0, settings) + b"".join(made)


def _rapid_resets(it: Attacker) -> None:
    block = frames.headers("GetNextRunnable", it.tokens[0])
    reset = struct.pack(">I", 8)
    made = [
        frames.frame(kind, flags, stream, payload)
        for stream in range(1, 41, 2)
        for kind, flags, payload in (
            (frames.HEADERS, frames.END_HEADERS, block),
            (frames.RESET, 0, reset),
        )
    ]
    it.wire(it.grpc_port, _frames(*made))


def _header_of_gigabytes(it: Attacker) -> None:
    block = b"\x00\x7f" + b"\xff" * 4 + b"\x0f"
    it.wire(it.grpc_port, _frames(frames.frame(frames.HEADERS, frames.END_HEADERS, 1, block)))


def _pings(it: Attacker) -> None:
    it.wire(it.grpc_port, _frames(*[frames.frame(frames.PING, 0, 0, b"12345678")] * 500))


def _no_window(it: Attacker) -> None:
    ask = frames.frame(
        frames.HEADERS, frames.END_HEADERS, 1, frames.headers("WatchEvents", it.tokens[0])
    )
    empty = frames.frame(0, frames.END_STREAM, 1, b"\x00" * 5)
    it.wire(it.grpc_port, _frames(ask, empty, settings=struct.pack(">HI", 4, 0)))


def _tiny_values(it: Attacker) -> None:
    request = message_class("CreateEnvelopeRequest")()
    request.input.list_value.MergeFromString(b"\n\x00" * 500_000)
    it.rpc("create_envelope", request.SerializeToString(), it.tokens[0])


def _deep_values(it: Attacker) -> None:
    body = b""
    for _ in range(200):
        inner = b"\n" + _varint(len(body)) + body
        body = b"2" + _varint(len(inner)) + inner
    it.rpc("publish", b"\n\x01t\x12" + _varint(len(body)) + body, it.tokens[0])


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


_LISTED = "list_processes"
_GRPC: list[Attack] = [
    lambda it: it.rpc("submit", b"\n" + _varint(4 << 20) + b"p" * (4 << 20), it.who()),
    lambda it: it.rpc(_LISTED, UNKNOWN_FIELD * 250_000, it.tokens[1]),
    lambda it: it.rpc(_LISTED, b"", it.tokens[0], compression=grpc.Compression.Gzip),
    lambda it: [it.rpc("watch_events", b"\x20\x01", it.tokens[0]) for _ in range(10)],
    lambda it: [it.wire(it.grpc_port, b"") for _ in range(30)],
    _rapid_resets,
    _header_of_gigabytes,
    _pings,
    lambda it: it.rpc(_LISTED, b"", it.who(), timeout=None),
    lambda it: it.rpc(_LISTED, b"", it.who(), timeout=1e9),
    lambda it: it.rpc(_LISTED, b"", it.who(), timeout=1e-9),
    _no_window,
    lambda it: it.rpc(_LISTED, b"", it.who(), metadata=(("x-large", "a" * 20_000),)),
    lambda it: it.rpc(_LISTED, b"", "", metadata=(("authorization", "a"), ("authorization", "b"))),
    _deep_values,
    _tiny_values,
    lambda it: it.rpc("terminate_process", b"\n\x04good", it.who()),
    lambda it: it.rpc("submit", request_bytes("submit", {"pid": "p" * 5_000}), it.tokens[0]),
    lambda it: it.rpc(
        "register_service", request_bytes("register_service", {"name": "s"}), it.who()
    ),
    lambda it: it.rpc("subscribe", b"\n\x06t" + b"%05d" % it.chance.randrange(99_999), it.who()),
    lambda it: [it.rpc(name, b"", it.who()) for name in _UNARY[:20]],
]


# People: approvals that are replayed, raced, forged, and too many.


def _ask(it: Attacker, key: str, **more: Any) -> None:
    asked = {"pid": "a", "kind": "confirmation", "question": "Send?", "action": "0" * 32, "id": key}
    it.post("create_interrupt", asked | more, it.tokens[0])


def _fatigue(it: Attacker) -> None:
    words = {"question": "x" * 9_000, "kind": "clarification"}
    for _ in range(5):
        _ask(it, f"q{it.chance.random()}", **words)


def _raced(it: Attacker) -> None:
    key = f"r{it.chance.random()}"
    _ask(it, key)
    for kind in ("Approved", "Declined", "Approved"):
        fields = {"id": key, "action": "0" * 32, "answer": {"type": kind}}
        it.rpc("resolve_interrupt", request_bytes("resolve_interrupt", fields), it.tokens[0])
    for action in ("0" * 32, "0" * 32, "1" * 32):
        it.post("use_approval", {"id": key, "action": action}, it.tokens[0])


def _late(it: Attacker) -> None:
    key = f"l{it.chance.random()}"
    _ask(it, key, expires_ms=1)
    answer = {"id": key, "action": "0" * 32, "answer": {"type": "Approved"}}
    it.post("resolve_interrupt", answer, it.tokens[0])


_HITL: list[Attack] = [
    lambda it: it.post("submit", {"pid": "a"}, it.tokens[0]),
    _fatigue,
    _raced,
    _late,
    lambda it: _ask(it, "turned", question=_TEXT),
    lambda it: it.post("resolve_interrupt", {"id": "q", "answer": {"type": "Approved"}}, it.who()),
    lambda it: it.post("list_interrupts", {"limit": 200}, it.tokens[0]),
    lambda it: it.rpc("list_interrupts", b"", it.tokens[0]),
    lambda it: it.post("get_pending_interrupt", {"pid": "good"}, it.who()),
]


# Redis: topics that look like commands and patterns, floods of what is published.

_TOPICS = ("*", "user:*\\r\\nFLUSHALL", "__keyspace@0__:*", "t", "EVAL return 1")


def _published(it: Attacker) -> None:
    """To readers of its own, each of whom gets all of it."""
    for _ in range(3):
        it.post("publish", {"topic": "t", "message": "x" * 60_000}, it.tokens[0])


_REDIS: list[Attack] = [
    lambda it: it.rpc(
        "subscribe",
        request_bytes("subscribe", {"topic": "t", "follow": True}),
        it.tokens[0],
        timeout=60,
    ),
    _published,
    lambda it: [it.post("publish", {"topic": t, "message": t}, it.who()) for t in _TOPICS],
    lambda it: it.post("publish", {"topic": f"{it.chance.random()}", "message": 1}, it.tokens[1]),
    lambda it: it.post("publish", {"topic": "t", "message": "x" * 900_000}, it.tokens[0]),
    lambda it: it.post("send", {"topic": "t", "body": "x" * 60_000}, it.tokens[0]),
    lambda it: it.rpc("query", request_bytes("query", {"topic": "t", "wait_ms": 3_000}), it.who()),
    lambda it: it.post("take_command", {"topic": "t", "holder": "h"}, it.tokens[0]),
    lambda it: it.post("subscribe", {"topic": "t", "after": 0, "follow": False}, it.tokens[0]),
    lambda it: it.post("subscribe", {"topic": "t\\r\\nFLUSHALL", "follow": False}, it.who()),
]


# SQL, in every text that a request has.


def _sql() -> Iterator[Attack]:
    for known_attack in known("sql").values():
        literal = str(known_attack["input"])
        for name in _UNARY:
            if name not in ("take_command", "take_request", "query", "dispatch"):
                body = web.hostile(KERNEL_OPERATIONS[name], literal)
                yield lambda it, name=name, body=body: it.post(name, body, it.who())
        yield lambda it, literal=literal: it.post("list_processes", {literal: 1}, it.who())


# The web.


def _browser(it: Attacker) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        sent = {"Content-Type": kind, "Origin": "http://evil.example"}
        it.post("submit", b"pid=p", it.who(), **sent)


def _half_a_head(it: Attacker) -> None:
    for _ in range(10):
        it.wire(it.http_port, b"POST /v1/submit HTTP/1.1\r\nHost: x\r\nX-Slow: ")


def _half_a_body(it: Attacker) -> None:
    head = "POST /v1/submit HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    sent = f"{head}Authorization: Bearer {it.tokens[0]}\r\nContent-Length: 99\r\n\r\n{{"
    it.wire(it.http_port, sent.encode())


def _stream_unread(it: Attacker) -> None:
    head = "POST /v1/watch_events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    sent = f"{head}Authorization: Bearer {it.tokens[1]}\r\nContent-Length: 2\r\n\r\n{{}}"
    it.wire(it.http_port, sent.encode(), narrow=True)


_JSON_BOMBS = (
    b"[" * 65 + b'"\\' * 400_000,
    b"[" * 65 + b'"' * 900_000,
    b'{"input": [' + b"[]," * 99_000 + b"[]]}",
    b'{"input": ' + b"[" * 400_000,
    b'{"input": ' + b"9" * 900_000 + b"}",
    b'{"input": "' + b"\\u0041" * 150_000 + b'"}',
)
_PATHS = ("/v1/../../etc/passwd", "/v1/%2e%2e%2f", "//v1/submit", "/index.html", "/?" + "x" * 9_000)
_SOCKET = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
_WEB: list[Attack] = [
    lambda it: it.post("submit", {"request": "<img src=x onerror=fetch(1)>"}, it.tokens[1]),
    _browser,
    lambda it: it.request("GET", "/v1/watch_events", None, _SOCKET),
    lambda it: [it.request("GET", path, None, {}) for path in _PATHS],
    lambda it: it.post("get_process", {"pid": "good"}, it.who()),
    _stream_unread,
    _half_a_head,
    _half_a_body,
    lambda it: [it.request("GET", "/openapi.json", None, {}) for _ in range(3)],
    lambda it: it.request("GET", "/health", None, {}),
    lambda it: it.post("create_envelope", it.chance.choice(_JSON_BOMBS), it.tokens[0]),
    lambda it: it.post("create_envelope", it.chance.choice(_JSON_BOMBS), it.who()),
    lambda it: it.post("list_processes", {"limit": 200}, it.tokens[1]),
]


# Every message of the protos, with chance in it.


def _noise(it: Attacker, name: str) -> None:
    body = bytearray(request_bytes(name, EXAMPLES[name].fields))
    for _ in range(it.chance.randrange(4)):
        place = it.chance.randrange(len(body) + 1)
        body[place:place] = it.chance.randbytes(it.chance.choice((1, 1, 2, 9, 300)))
    if body and it.chance.random() < 0.5:
        body[it.chance.randrange(len(body))] ^= 1 << it.chance.randrange(8)
    cut = body[: it.chance.randrange(len(body) + 1)] if it.chance.random() < 0.2 else body
    it.rpc(name, bytes(cut), it.chance.choice(it.tokens), timeout=2)


ATTACKS: dict[str, Callable[[], list[Attack]]] = {
    "grpc": lambda: _GRPC,
    "hitl": lambda: _HITL,
    "redis": lambda: _REDIS,
    "sql": lambda: [*_sql()],
    "web": lambda: _WEB,
    "fuzz": lambda: [lambda it, name=name: _noise(it, name) for name in EXAMPLES],
}


def attack(it: Attacker, attacks: Iterator[Attack], seconds: float, pace: float) -> int:
    """Begin so many a second; return how many that were."""
    began, made = time.monotonic(), 0
    while (now := time.monotonic()) < began + seconds:
        if now < (due := began + made / pace):
            time.sleep(due - now)
        next(attacks)(it)
        made += 1
    it.end()
    return made


def main(kind: str, http_port: str, grpc_port: str, *rest: str) -> None:
    *tokens, pace = rest
    os.nice(10)  # what the machine has is for the server first: this is not about its scheduler
    it = Attacker(int(http_port), int(grpc_port), tokens)
    kind, _, one = kind.partition(":")
    found = ATTACKS[kind]()
    attacks = cycle([found[int(one)]] if one else found)
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        made = attack(it, attacks, float(line), float(pace))
        print(json.dumps([made, it.answers]), flush=True)
        it.answers = Counter()


if __name__ == "__main__":
    main(*sys.argv[1:])
