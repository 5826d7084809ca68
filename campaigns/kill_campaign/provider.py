"""A provider over a socket whose answers follow from the request alone, with a log of its own.

It speaks Anthropic Messages. What a request says decides what it gets, so an undisturbed run and a
killed one hear the same; only how long an answer takes is left to chance.

| in the last message | the request                                                        |
|---------------------|--------------------------------------------------------------------|
| `MAY`               | fails with 500 for good, for one text in five                      |
| `BUSY`              | is refused with 529 the first time a run sends it                  |
| `SLOW`              | takes ten times as long                                            |
| `LONG`              | is answered with as many tokens as it allows                       |

Independent of `vegakit.testing.provider` on purpose: a campaign must not share the faults of what
it judges. One server serves many runs, each under a path of its own.
"""

import asyncio
import json
import random
import re
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

__all__ = ["INPUT_NANO", "OUTPUT_NANO", "Desk", "Request", "serving"]

INPUT_NANO, OUTPUT_NANO = 1_000, 5_000
"""Nano-dollars a token; the settings of each run say the same prices."""
_FATES = 5
_WORDS = "amber birch cedar delta ember flint grove heron".split()
_OUTPUT_TOOL = re.compile("final_result|output|answer")


@dataclass
class Request:
    """One request as the provider saw it. `name` is a digest of all it says: equal names are the
    same request."""

    name: str
    text: str
    came_ns: int
    status: str = "open"
    bill: int = 0


@dataclass
class Desk:
    """Where the requests of one run arrive. `fail` may refuse a request: a status, or None;
    `delays_s` are the shortest and the longest time an answer takes."""

    chance: random.Random
    delays_s: tuple[float, float] = (0.01, 0.16)
    fail: Callable[[Request], int | None] = lambda _: None
    requests: list[Request] = field(default_factory=list[Request])
    answered: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def replies(self) -> int:
        return sum(request.status == "answered" for request in self.requests)

    async def until_replies(self, count: int) -> None:
        async with self.answered:
            await self.answered.wait_for(lambda: self.replies >= count)


class Server:
    def __init__(self) -> None:
        self.desks: dict[str, Desk] = {}
        self.port = 0
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def open_desk(self, name: str, desk: Desk) -> str:
        """The base url of the run."""
        self.desks[name] = desk
        return f"http://127.0.0.1:{self.port}/{name}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = writer
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin1")
                length = re.search(r"(?i)content-length: *(\d+)", head)
                body = json.loads(await reader.readexactly(int(length[1]) if length else 0))
                desk = self.desks[head.split(maxsplit=2)[1].split("/")[1]]
                await self._answer(desk, body, reader, writer)
        writer.close()
        del self._connections[task]

    async def hang_up(self) -> None:
        open_ = dict(self._connections)
        for writer in open_.values():
            writer.transport.abort()
        await asyncio.gather(*open_, return_exceptions=True)

    async def _answer(
        self, desk: Desk, body: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        request = Request(_name_of(body), _last_text(body), time.monotonic_ns())
        sent_before = any(request.name == other.name for other in desk.requests)
        desk.requests.append(request)
        draw = int(request.name, 16)
        status = desk.fail(request)
        low, high = desk.delays_s
        delay_s = desk.chance.uniform(low, high) * (10 if "SLOW" in request.text else 1)
        if "MAY" in request.text and draw % _FATES == 0:
            status = 500
        elif "BUSY" in request.text and not sent_before:
            status = 529
        try:
            await _pause_or_hang_up(reader, delay_s)
            if status is not None:
                await _write(writer, status, _failure(status))
                request.status = f"failed {status}"
                return
            said = _Said(body, request.name)
            if body.get("stream"):
                await _stream(writer, said, desk.chance.uniform(0, delay_s / 4))
            else:
                await _write(writer, 200, said.whole())
            request.status, request.bill = "answered", said.bill
        except ConnectionError:
            request.status = "cut off"
            raise
        finally:
            if request.status == "open":
                request.status = "cut off"
            async with desk.answered:
                desk.answered.notify_all()


@asynccontextmanager
async def serving() -> AsyncGenerator[Server]:
    server = Server()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, backlog=1_000)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        await server.hang_up()


class _Said:
    """What is answered, in both forms of the wire."""

    def __init__(self, body: Any, name: str) -> None:
        draw = int(name, 16)
        self._name, self._model = name, body["model"]
        self._input = 10 + draw % 20
        most = int(body["max_tokens"])
        self._output = most if "LONG" in _last_text(body) else 1 + draw // 32 % min(80, most)
        self.bill = self._input * INPUT_NANO + self._output * OUTPUT_NANO
        self._content = _content(body, name, draw)
        calls = any(part["type"] == "tool_use" for part in self._content)
        self._stop = "tool_use" if calls else "end_turn"

    def whole(self) -> Any:
        usage = {"input_tokens": self._input, "output_tokens": self._output}
        return {**self._message(self._content), "stop_reason": self._stop, "usage": usage}

    def events(self) -> list[Any]:
        begun = {"input_tokens": self._input, "output_tokens": 1}
        events: list[Any] = [
            {"type": "message_start", "message": {**self._message([]), "usage": begun}}
        ]
        for at, part in enumerate(self._content):
            events += _block(at, part)
        delta = {"stop_reason": self._stop, "stop_sequence": None}
        usage = {"output_tokens": self._output}
        events.append({"type": "message_delta", "delta": delta, "usage": usage})
        return [*events, {"type": "message_stop"}]

    def _message(self, content: list[Any]) -> dict[str, Any]:
        return {
            "id": f"msg_{self._name}",
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": content,
            "stop_reason": None,
            "stop_sequence": None,
        }


def _block(at: int, part: Any) -> list[Any]:
    if part["type"] == "text":
        opened: Any = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": word} for word in _pieces(part["text"])]
    else:
        opened = {**part, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": json.dumps(part["input"])}]
    return [
        {"type": "content_block_start", "index": at, "content_block": opened},
        *({"type": "content_block_delta", "index": at, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": at},
    ]


def _pieces(text: str) -> list[str]:
    return re.findall(r"\S+\s*", text)


def _content(body: Any, name: str, draw: int) -> list[Any]:
    """A tool is called once in a conversation; a typed answer fits its type."""
    schema = _wanted_schema(body)
    tools = [tool for tool in body.get("tools", []) if not _OUTPUT_TOOL.search(tool["name"])]
    results = sum(_has_result(message) for message in body["messages"])
    if tools and not results:
        tool = tools[draw % len(tools)]
        given = {"word": f"w{name}"}
        return [{"type": "tool_use", "id": f"toolu_{name}", "name": tool["name"], "input": given}]
    if schema is not None:
        return [{"type": "text", "text": json.dumps(_value(schema, draw))}]
    for tool in body.get("tools", []):
        if _OUTPUT_TOOL.search(tool["name"]):
            value = _value(tool["input_schema"], draw)
            part = {"id": f"toolu_{name}", "name": tool["name"], "input": value}
            return [{"type": "tool_use", **part}]
    words = " ".join(_WORDS[(draw >> (8 * at)) % len(_WORDS)] for at in range(1 + draw % 6))
    return [{"type": "text", "text": f"{words} ({name})"}]


def _wanted_schema(body: Any) -> Any:
    for place in (body.get("output_config", {}).get("format"), body.get("output_format")):
        if place:
            return place["schema"]
    return None


def _has_result(message: Any) -> bool:
    content = message["content"]
    return not isinstance(content, str) and any(part["type"] == "tool_result" for part in content)


def _value(schema: Any, draw: int, root: Any = None) -> Any:
    root = root or schema
    if "$ref" in schema:
        return _value(root["$defs"][schema["$ref"].rsplit("/", 1)[-1]], draw, root)
    if "enum" in schema:
        return schema["enum"][draw % len(schema["enum"])]
    match schema["type"]:
        case "object":
            fields = enumerate(schema["properties"].items())
            return {name: _value(one, draw >> at, root) for at, (name, one) in fields}
        case "array":
            count = draw % (1 + min(3, schema.get("maxItems", 3)))
            return [_value(schema["items"], draw >> at, root) for at in range(count)]
        case "boolean":
            return draw % 2 == 0
        case "integer":
            return draw % 7
        case _:
            return _WORDS[draw % len(_WORDS)]


def _name_of(body: Any) -> str:
    """Without what carries no meaning: whether it streams, and ids that calls were given."""
    said = [body["model"], body.get("system"), body["messages"], body.get("tools")]
    said += [_wanted_schema(body), body["max_tokens"]]
    return blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=6).hexdigest()


def _last_text(body: Any) -> str:
    content = body["messages"][-1]["content"]
    if isinstance(content, str):
        return content
    return " ".join(str(part.get("text") or part.get("content") or "") for part in content)


def _failure(status: int) -> Any:
    kind = "overloaded_error" if status == 529 else "api_error"
    return {"type": "error", "error": {"type": kind, "message": f"told to fail with {status}"}}


async def _pause_or_hang_up(reader: asyncio.StreamReader, delay_s: float) -> None:
    """A client that waits for its answer sends nothing, so whatever comes is its end."""
    with suppress(TimeoutError):
        async with asyncio.timeout(delay_s):
            await reader.read(1)
            raise ConnectionResetError("the client hung up")


async def _write(writer: asyncio.StreamWriter, status: int, body: Any) -> None:
    data = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} Said\r\ncontent-type: application/json\r\n"
    writer.write(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)
    await writer.drain()


async def _stream(writer: asyncio.StreamWriter, said: _Said, pause_s: float) -> None:
    head = "HTTP/1.1 200 Said\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
    writer.write(f"{head}\r\n".encode())
    for event in said.events():
        data = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
        writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await writer.drain()
        await asyncio.sleep(pause_s)
    writer.write(b"0\r\n\r\n")
    await writer.drain()
