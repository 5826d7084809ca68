"""The client of a kernel that is served over HTTP: the kernel's table, for a program elsewhere.

    async with KernelClient("https://vega.example.com", token) as kernel:
        process = await kernel.submit(CreateProcessRequest(request="owls"))

A refusal is the same `OperationError` as where the kernel is near. A call that got no answer is
made again only if its row says that this does no harm. A stream that is followed goes on from its
cursor when its server ends or is killed: nothing is missed or told twice.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Self, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct, json as msgspec_json
from msgspec.structs import replace

from vegakit.config import environment_proxy
from vegakit.control.kernel_calls import KernelCalls
from vegakit.control.kernel_operations import KERNEL_OPERATIONS
from vegakit.control.operations import OperationError, RefusalCode
from vegakit.errors import UserError
from vegakit.providers import BrokenError, ConnectionPool, Deadlines
from vegakit.records import UNREADABLE_JSON, to_json
from vegakit.wires import EventDecoder, Header

ValueT = TypeVar("ValueT", bound=Struct)

_MARGIN_S = 5.0
"""The server answers at the deadline that it is told; only one that cannot is left later."""
_CONNECT_S = 10.0
_SILENCE_S = 60.0
"""A server says every 15 s that a stream is still there."""
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 2.0
_ERROR_EVENT, _NUMBER = b"error", "number"


class KernelUnavailableError(UserError):
    """A call got no answer. `may_be_done` says whether it may have been carried out all the
    same."""

    def __init__(self, text: str, *, may_be_done: bool) -> None:
        super().__init__(text)
        self.may_be_done = may_be_done


class _Refusal(Struct):
    code: str
    message: str


class _RefusalBody(Struct):
    error: _Refusal


class KernelClient(KernelCalls):
    """A kernel at a URL, as the owner of a token sees it. `timeout_ms` is how long a call may take,
    which the server is told; a call that waits on purpose has its `wait_ms` on top. A stream that
    lost its server looks for it, or for another one at the same URL, for `reconnect_ms`."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout_ms: int = 30_000,
        reconnect_ms: int = 60_000,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        if not _is_address(url):
            raise UserError(
                f"{url!r} is no URL of a kernel; write it like https://vega.example.com"
            )
        if not token.isascii() or not token.isprintable() or " " in token:
            raise UserError("this is no token; type: vega token create --tenant acme --user ann")
        self._root = f"{url.rstrip('/')}/v1/"
        self._token = token
        self._timeout_ms, self._reconnect_ms = timeout_ms, reconnect_ms
        self._pool = ConnectionPool(proxy=environment_proxy(url), tls=tls)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"KernelClient({self._root.removesuffix('v1/')!r})"

    def close(self) -> None:
        """Close the connections that no call uses."""
        self._pool.close()

    async def call(self, name: str, request: Struct, reply: type[ValueT]) -> ValueT:
        """Carry out the operation of this name, and return its reply."""
        body = to_json(request)
        timeout_ms = self._timeout_ms + int(getattr(request, "wait_ms", 0))
        is_last = not KERNEL_OPERATIONS[name].idempotent
        while True:
            try:
                return await self._once(name, body, timeout_ms, reply)
            except BrokenError as error:
                # A connection that was kept may have been closed while we wrote to it.
                if is_last or not error.sent or error.timed_out:
                    raise _unavailable(name, str(error), may_be_done=error.sent) from error
                is_last = True

    async def _once(self, name: str, body: bytes, timeout_ms: int, reply: type[ValueT]) -> ValueT:
        headers = [*self._headers(), (b"vega-timeout-ms", b"%d" % timeout_ms)]
        within_s = timeout_ms / 1_000 + _MARGIN_S
        waits = Deadlines(min(_CONNECT_S, within_s), within_s, within_s, within_s)
        try:
            async with (
                asyncio.timeout(within_s),
                self._pool.post(self._root + name, headers, body, waits) as answer,
            ):
                said = await answer.read()
                if answer.status != 200:
                    raise _refusal(name, answer.status, said)
        except TimeoutError as error:
            raise _unavailable(name, "the deadline passed", may_be_done=True) from error
        return _decoded(name, said, reply)

    async def stream(
        self, name: str, request: Struct, reply: type[ValueT]
    ) -> AsyncGenerator[ValueT]:
        """Begin the stream of this name, and yield what it tells; go on from its cursor when it
        was cut off, or ended though it is to be followed."""
        has_cursor = "after" in request.__struct_fields__
        follows = has_cursor and bool(getattr(request, "follow", False))
        loop = asyncio.get_running_loop()
        wait_s, give_up_at, is_begun = _FIRST_WAIT_S, 0.0, False
        while True:
            try:
                async with aclosing(self._events(name, request, reply)) as events:
                    async for event in events:
                        wait_s, give_up_at, is_begun = _FIRST_WAIT_S, 0.0, True
                        if event is None:
                            continue
                        if has_cursor:
                            request = replace(request, after=getattr(event, _NUMBER))
                        yield event
                if not follows:
                    return
                problem: Exception | None = None
            except (BrokenError, KernelUnavailableError, OperationError) as error:
                if not (has_cursor and is_begun and _is_passing(error)):
                    raise _told(name, error) from error
                problem = error
            give_up_at = give_up_at or loop.time() + self._reconnect_ms / 1_000
            if problem is not None and loop.time() >= give_up_at:
                raise _told(name, problem) from problem
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)

    async def _events(
        self, name: str, request: Struct, reply: type[ValueT]
    ) -> AsyncGenerator[ValueT | None]:
        """Yield None when the stream has begun, and then its events."""
        waits = Deadlines(_CONNECT_S, _SILENCE_S, _SILENCE_S, _SILENCE_S)
        async with self._pool.post(
            self._root + name, self._headers(), to_json(request), waits
        ) as answer:
            if answer.status != 200:
                raise _refusal(name, answer.status, await answer.read())
            yield None
            decoder = EventDecoder()
            async with aclosing(answer.pieces()) as pieces:
                async for piece in pieces:
                    for event in decoder.feed(piece):
                        if event.name == _ERROR_EVENT:
                            raise _refusal_of(name, _decoded(name, event.data, _Refusal))
                        yield _decoded(name, event.data, reply)

    def _headers(self) -> list[Header]:
        return [
            (b"authorization", b"Bearer " + self._token.encode()),
            (b"content-type", b"application/json"),
        ]


def _is_address(url: str) -> bool:
    """Whether a URL names a server that can be connected to."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none, or half an address of IPv6
        return False


def _decoded(name: str, body: bytes, reply: type[ValueT]) -> ValueT:
    try:
        return msgspec_json.decode(body, type=reply)
    except UNREADABLE_JSON as error:
        raise KernelUnavailableError(
            f"the reply to {name} is none that this version knows ({error}); look whether the URL "
            "leads to a kernel, and whether both have the same version",
            may_be_done=True,
        ) from error


def _refusal(name: str, status: int, body: bytes) -> UserError:
    with suppress(*UNREADABLE_JSON):
        return _refusal_of(name, msgspec_json.decode(body, type=_RefusalBody).error)
    return _unavailable(
        name,
        f"status {status}, and not from a kernel: look at the URL",
        may_be_done=status >= 500,
    )


def _refusal_of(name: str, refused: _Refusal) -> UserError:
    if refused.code in {code.value for code in RefusalCode}:
        return OperationError(RefusalCode(refused.code), refused.message)
    return _unavailable(name, refused.message, may_be_done=True)


def _unavailable(name: str, why: str, *, may_be_done: bool) -> KernelUnavailableError:
    return KernelUnavailableError(f"{name} got no answer: {why}", may_be_done=may_be_done)


def _is_passing(error: Exception) -> bool:
    """Say whether what broke a stream may be over soon: its server ends or has too much to do."""
    return not isinstance(error, OperationError) or error.code is RefusalCode.EXHAUSTED


def _told(name: str, error: Exception) -> Exception:
    if isinstance(error, BrokenError):
        return _unavailable(name, str(error), may_be_done=error.sent)
    return error
