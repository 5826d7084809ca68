"""JSON-RPC 2.0 over two pipes, a message a line: the peer that starts us on stdin and stdout.

| what comes                        | what is answered                                            |
|-----------------------------------|-------------------------------------------------------------|
| a request                         | its result, or why not, under its id                        |
| a notification                    | nothing, whatever comes of it                               |
| a line that is no JSON, too long  | error -32700 without an id; the next line is read           |
| JSON that is no message           | error -32600                                                |
| a method that there is not        | error -32601; a notification of one is passed over          |
| `$/cancel_request`                | the request that it names is cancelled, and still answered  |
| the end of the input              | all that is under way is cancelled                          |

Requests are carried out at once, each in a task; notifications in the order in which they come,
before what comes after them. What is sent goes out in the order in which it was said.
"""

import asyncio
import json
import logging
import os
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeAlias, cast

from vegakit.concurrency import cancel_all
from vegakit.errors import UserError, VegaError

_LOG = logging.getLogger("vegakit")

MOST_LINE_BYTES: Final = 64 << 20
"""A prompt with images; what is longer is passed over."""
_MOST_UNSENT: Final = 4 << 20
"""Bytes that wait for a peer that does not read; then who has more to say waits, too."""
_CANCEL: Final = "$/cancel_request"

PARSE_ERROR: Final = -32_700
INVALID_REQUEST: Final = -32_600
METHOD_NOT_FOUND: Final = -32_601
INVALID_PARAMS: Final = -32_602
INTERNAL_ERROR: Final = -32_603
REQUEST_CANCELLED: Final = -32_800

Params: TypeAlias = dict[str, Any]
RpcMethod: TypeAlias = Callable[[Params], Awaitable[Any]]
RpcId: TypeAlias = "str | int | float | None"


def object_of(value: object) -> dict[str, Any]:
    """Return an object of JSON; an empty one if it is something else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


class RpcError(Exception):
    """A request cannot be carried out, or the peer said so of ours."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code, self.data = code, data


class RpcPeer:
    """One connection. `methods` answer requests, `notified` take notifications; `cancels` end
    requests that their peer cancels in a way of their own, by their parameters."""

    def __init__(
        self,
        methods: Mapping[str, RpcMethod],
        notified: Mapping[str, Callable[[Params], None]],
        cancels: Mapping[str, Callable[[Params], None]] | None = None,
        *,
        most_bytes: int = MOST_LINE_BYTES,
    ) -> None:
        self._cancels, self._ends = cancels or {}, dict[RpcId, Callable[[], None]]()
        self._methods, self._notified, self._most = methods, notified, most_bytes
        self._under_way: dict[RpcId, asyncio.Task[None]] = {}
        self._cancelled: set[RpcId] = set()
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._last_id = 0
        self._writing: asyncio.WriteTransport | None = None
        self._room = asyncio.Event()
        self._room.set()

    async def serve(self, reading: int, writing: int) -> None:
        """Serve over two file descriptors until the input ends or nobody reads the output; then
        end what is under way."""
        loop = asyncio.get_running_loop()
        lines = _Lines(self._most)
        source, _ = await loop.connect_read_pipe(lambda: lines, os.fdopen(reading, "rb", 0))
        output = _Output(self._room, lines.end)
        self._writing, _ = await loop.connect_write_pipe(
            lambda: output, os.fdopen(writing, "wb", 0)
        )
        self._writing.set_write_buffer_limits(_MOST_UNSENT)
        try:
            while (line := await lines.next()) is not None:
                await self._take(line)
        finally:
            source.close()
            for waiting in self._asked.values():
                waiting.cancel()
            await cancel_all([*self._under_way.values()])
            await self._flush()
            self._writing.close()

    async def _flush(self) -> None:
        """Let what was said go out, unless nobody reads it."""
        assert self._writing is not None
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                while self._writing.get_write_buffer_size() and not self._writing.is_closing():  # noqa: ASYNC110
                    await asyncio.sleep(0.01)

    async def _take(self, line: bytes | int) -> None:
        if isinstance(line, int):
            await self._answer_error(
                None,
                RpcError(
                    PARSE_ERROR,
                    f"a line of {line} bytes is longer than {self._most}; send less at once",
                ),
            )
            return
        try:
            message = json.loads(line)
        except (ValueError, RecursionError) as error:
            await self._answer_error(None, RpcError(PARSE_ERROR, f"this is no JSON: {error}"))
            return
        if isinstance(message, dict):
            await self._dispatch(cast("dict[str, Any]", message))
        else:
            await self._answer_error(
                None, RpcError(INVALID_REQUEST, "a message is a JSON object; batches are not taken")
            )

    async def _dispatch(self, message: dict[str, Any]) -> None:
        method, given = message.get("method"), message.get("params", {})
        params: Params | None = cast("Params", given) if isinstance(given, dict) else None
        key = message.get("id")
        if isinstance(key, list | dict | bool):
            await self._answer_error(None, RpcError(INVALID_REQUEST, "an id is a text or a number"))
        elif isinstance(method, str):
            if "id" not in message:
                self._notice(method, params)
            else:
                await self._begin(cast("RpcId", key), method, params)
        elif "id" in message and ("result" in message or "error" in message):
            self._settle(cast("RpcId", key), message)
        else:
            await self._answer_error(
                cast("RpcId", key),
                RpcError(
                    INVALID_REQUEST, "a message has a method, or an id and a result or an error"
                ),
            )

    def _notice(self, method: str, params: Params | None) -> None:
        if params is None:
            return
        if method == _CANCEL:
            self._cancel(params.get("requestId"))
            return
        react = self._notified.get(method)
        if react is None:
            return
        try:
            react(params)
        except Exception as error:  # noqa: BLE001  (nobody waits for an answer, and the peer stays)
            _LOG.warning("notification %s: %s", method[:80], error)

    def _cancel(self, key: object) -> None:
        if not isinstance(key, str | int | float) or key not in self._under_way:
            return
        if key in self._ends:
            self._ends[key]()
        else:
            self._cancelled.add(key)
            self._under_way[key].cancel()

    async def _begin(self, key: RpcId, method: str, params: Params | None) -> None:
        carry_out = self._methods.get(method)
        if carry_out is None:
            await self._answer_error(
                key, RpcError(METHOD_NOT_FOUND, f"there is no method {method[:80]!r} here")
            )
        elif params is None:
            await self._answer_error(
                key, RpcError(INVALID_PARAMS, f"{method}: params is an object")
            )
        elif key in self._under_way:
            await self._answer_error(
                key, RpcError(INVALID_REQUEST, f"request {key!r} is under way already")
            )
        else:
            task = asyncio.create_task(self._carry_out(key, method, carry_out, params))
            self._under_way[key] = task
            if end := self._cancels.get(method):
                self._ends[key] = partial(end, params)
            task.add_done_callback(lambda _: self._forget(key))

    def _forget(self, key: RpcId) -> None:
        self._under_way.pop(key, None)
        self._ends.pop(key, None)

    async def _carry_out(
        self, key: RpcId, method: str, carry_out: RpcMethod, params: Params
    ) -> None:
        try:
            result = await carry_out(params)
        except asyncio.CancelledError:
            if key not in self._cancelled:
                raise
            self._cancelled.discard(key)
            await self._answer_error(key, RpcError(REQUEST_CANCELLED, "cancelled"))
        except RpcError as error:
            await self._answer_error(key, error)
        except UserError as error:
            await self._answer_error(key, RpcError(INVALID_PARAMS, str(error)))
        except VegaError as error:
            _LOG.error("%s failed: %s", method, error)
            await self._answer_error(key, RpcError(INTERNAL_ERROR, str(error)))
        except Exception:  # noqa: BLE001  (the peer is told, and we go on)
            _LOG.exception("%s failed by a bug", method)
            await self._answer_error(
                key,
                RpcError(
                    INTERNAL_ERROR, "this is a bug of vega; what it wrote to stderr says more"
                ),
            )
        else:
            self._cancelled.discard(key)
            await self._send({"jsonrpc": "2.0", "id": key, "result": result})

    async def _answer_error(self, key: RpcId, error: RpcError) -> None:
        told: dict[str, Any] = {"code": error.code, "message": str(error)}
        if error.data is not None:
            told["data"] = error.data
        await self._send({"jsonrpc": "2.0", "id": key, "error": told})

    # What we ask and tell.

    async def notify(self, method: str, params: Params) -> None:
        """Tell the peer; wait while it does not read."""
        await self._send({"jsonrpc": "2.0", "method": method, "params": params})

    async def request(self, method: str, params: Params) -> Any:  # noqa: ANN401
        """Ask the peer, and return its result. Who is cancelled tells it so."""
        self._last_id += 1
        key = self._last_id
        answered = self._asked[key] = asyncio.get_running_loop().create_future()
        try:
            await self._send({"jsonrpc": "2.0", "id": key, "method": method, "params": params})
            return await answered
        except asyncio.CancelledError:
            if not answered.cancelled():
                await self.notify(_CANCEL, {"requestId": key})
            raise
        finally:
            self._asked.pop(key, None)

    def _settle(self, key: RpcId, message: dict[str, Any]) -> None:
        waiting = self._asked.pop(key, None) if isinstance(key, int) else None
        if waiting is None or waiting.done():
            return  # what we no longer ask
        error: Any = message.get("error")
        if error is None:
            waiting.set_result(message.get("result"))
            return
        told = object_of(error)
        code = told.get("code", INTERNAL_ERROR)
        waiting.set_exception(RpcError(code, str(told.get("message", error))))

    async def _send(self, message: dict[str, Any]) -> None:
        assert self._writing is not None
        text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
        # A lone surrogate, as a file name may hold one, is no UTF-8 and would end the connection.
        self._writing.write(text.encode("utf-8", "backslashreplace") + b"\n")
        await self._room.wait()


class _Lines(asyncio.Protocol):
    """The input as lines; of one that is too long, how many bytes it had."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._pieces: list[bytes] = []
        self._size = 0
        self._ready: deque[bytes | int] = deque()
        self._is_over = False
        self._changed = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        """Take a piece of the input."""
        *ended, rest = data.split(b"\n")
        for piece in ended:
            self._add(piece)
            line = self._size if self._size > self._most else b"".join(self._pieces)
            if not isinstance(line, bytes) or line.strip():
                self._ready.append(line)
            self._pieces, self._size = [], 0
        self._add(rest)
        self._changed.set()

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size <= self._most:
            self._pieces.append(piece)
        else:
            self._pieces = []

    def eof_received(self) -> None:
        """End the lines after those that came; one that was cut off is none."""
        self.end()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the lines."""
        del exc
        self.end()

    def end(self) -> None:
        """End the lines, whoever says so."""
        self._is_over = True
        self._changed.set()

    async def next(self) -> bytes | int | None:
        """Return the next line; None when there are no more."""
        while not self._ready:
            if self._is_over:
                return None
            self._changed.clear()
            await self._changed.wait()
        return self._ready.popleft()


class _Output(asyncio.BaseProtocol):
    """The output: says when there is room, and when nobody reads any more."""

    def __init__(self, room: asyncio.Event, on_lost: Callable[[], None]) -> None:
        self._room, self._on_lost = room, on_lost

    def pause_writing(self) -> None:
        """Have who says something wait."""
        self._room.clear()

    def resume_writing(self) -> None:
        """Let them go on."""
        self._room.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let all go on that wait: what they say is read by nobody."""
        del exc
        self._room.set()
        self._on_lost()
