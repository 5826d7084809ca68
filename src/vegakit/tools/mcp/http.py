"""A server that is reached over HTTP: at the host of its URL, whose addresses are checked first.

Every connection is made to an address that was looked up once and that the grant reaches, and every
request is held against the grant, as for `Http`. Redirects stay within the origin, nothing is
unpacked, the environment's proxies are not used. There is no OAuth: a server that wants a token is
given one by `headers`, which goes to that server alone.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, cast

import httpcore2
import httpx2

from vegakit.errors import CapabilityDenied, LimitReached
from vegakit.policy import Grant
from vegakit.tools.confined.addresses import look_up
from vegakit.tools.confined.messages import Request, Target, checked_headers, target_of
from vegakit.tools.confined.reaching import reachable
from vegakit.tools.confined.sending import Pinned, public_certificates
from vegakit.tools.mcp.servers import McpServer
from vegakit.tools.mcp.streams import Streams

__all__ = ["http_streams"]

_MOST_ANSWER_BYTES = 4_000_000
_MOST_STREAM_BYTES = 64_000_000
_CONNECT_S = 5.0
_NOT_FOUND = 404


@asynccontextmanager
async def http_streams(
    server: McpServer, on_over: Callable[[str], None]
) -> AsyncGenerator[Streams]:
    from mcp.client.streamable_http import streamable_http_client

    timeout = httpx2.Timeout(_CONNECT_S, read=None)  # how long an answer may take is the call's
    headers = {**dict(checked_headers(server.headers)), "Accept-Encoding": "identity"}
    async with (
        httpx2.AsyncClient(
            transport=_Confined(server.net_grant, on_over),
            headers=headers,
            timeout=timeout,
            trust_env=False,
        ) as client,
        streamable_http_client(
            server.url, http_client=client, max_sse_event_size=_MOST_ANSWER_BYTES
        ) as streams,
    ):
        yield streams


class _Checked(httpcore2.AsyncNetworkBackend):
    def __init__(self, grant: Grant) -> None:
        self._grant = grant

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  (httpcore's signature)
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        target = Target(secure=True, method="POST", host=host, port=port, path="/")
        addresses = await reachable(self._grant, target, look_up)
        return await Pinned(addresses).connect_tcp(host, port, timeout=timeout)


class _Confined(httpx2.AsyncBaseTransport):
    def __init__(self, grant: Grant, on_over: Callable[[str], None]) -> None:
        self._grant = grant
        self._on_over = on_over
        self._pool = httpcore2.AsyncConnectionPool(
            public_certificates(), network_backend=_Checked(grant)
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        target_of(self._grant, Request(request.method, str(request.url)))
        answer = await self._pool.handle_async_request(_as_sent(request))
        received = httpx2.Response(answer.status, headers=answer.headers)
        if answer.status == _NOT_FOUND and "mcp-session-id" in request.headers:
            self._on_over("it knows nothing of this session, as if it was started anew")
        if received.headers.get("content-encoding", "identity") != "identity":
            await answer.aclose()
            raise CapabilityDenied("the server packed its answer, though it was asked not to")
        streams = received.headers.get("content-type", "").startswith("text/event-stream")
        most = _MOST_STREAM_BYTES if streams else _MOST_ANSWER_BYTES
        return httpx2.Response(
            answer.status,
            headers=answer.headers,
            stream=_Bounded(cast("AsyncIterator[bytes]", answer.stream), most),
            extensions=cast("Any", answer.extensions),
        )

    async def aclose(self) -> None:
        await self._pool.aclose()


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, inner: AsyncIterator[bytes], most: int) -> None:
        self._inner = inner
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        received = 0
        async for part in self._inner:
            received += len(part)
            if received > self._most:
                raise LimitReached(f"the server answered with more than {self._most:,} bytes")
            yield part

    async def aclose(self) -> None:
        await cast("Any", self._inner).aclose()


def _as_sent(request: httpx2.Request) -> httpcore2.Request:
    url = request.url
    return httpcore2.Request(
        method=request.method,
        url=httpcore2.URL(
            scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
        ),
        headers=request.headers.raw,
        content=cast("Any", request.stream),
        extensions=request.extensions,
    )
