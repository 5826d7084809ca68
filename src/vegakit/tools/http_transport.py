"""One request on a connection of its own, to addresses that were checked."""

import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from functools import cache
from typing import Any, TypeAlias, cast

import httpcore2

from vegakit.errors import ErrorClass, LimitReached, Phase, WorldError
from vegakit.tools.http_requests import FetchRequest, FetchResponse, Target

SendRequest: TypeAlias = Callable[
    [FetchRequest, Target, Sequence[str], int, ssl.SSLContext | None], Awaitable[FetchResponse]
]

_CONNECT_S = 5.0


class PinnedBackend(httpcore2.AsyncNetworkBackend):
    """Whatever host it is asked for, it knows these addresses only."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = addresses
        self._network = cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  (httpcore's signature)
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to one of the addresses that were checked, whatever the host's name leads to by
        now."""
        failure = httpcore2.ConnectError(f"{host} has no address")
        for address in self._addresses:
            try:
                return await self._network.connect_tcp(address, port, timeout=timeout)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure


async def send(
    request: FetchRequest,
    target: Target,
    addresses: Sequence[str],
    max_bytes: int,
    certificates: ssl.SSLContext | None,
) -> FetchResponse:
    """Send a request to addresses that were checked, and read at most `max_bytes` of the answer."""
    trusted = certificates or public_certificates() if target.secure else None
    try:
        async with AsyncExitStack() as open_now:
            pool = await open_now.enter_async_context(
                httpcore2.AsyncConnectionPool(trusted, network_backend=PinnedBackend(addresses))
            )
            response = await open_now.enter_async_context(
                pool.stream(
                    target.method,
                    _url(target),
                    headers=_headers(request, target),
                    content=request.body or None,
                    extensions={"timeout": {"connect": _CONNECT_S}},
                )
            )
            return FetchResponse(
                request.url,
                response.status,
                tuple((_text(name), _text(value)) for name, value in response.headers),
                await _body(response, max_bytes, target.host),
            )
    except (httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError) as error:
        raise _failure(error, target) from error


async def _body(response: httpcore2.Response, max_bytes: int, host: str) -> bytes:
    received = bytearray()
    async for part in response.aiter_stream():
        received += part
        if len(received) > max_bytes:
            raise LimitReached(f"{host} sent more than {max_bytes} bytes; ask for less")
    return bytes(received)


def _url(target: Target) -> httpcore2.URL:
    scheme = "https" if target.secure else "http"
    host = target.host.strip("[]")
    return httpcore2.URL(scheme=scheme, host=host, port=target.port, target=target.path)


def _headers(request: FetchRequest, target: Target) -> list[tuple[str, str]]:
    usual_port = 443 if target.secure else 80
    host = target.host if target.port == usual_port else f"{target.host}:{target.port}"
    has_body = bool(request.body) or target.method in {"POST", "PUT", "PATCH"}
    length = [("Content-Length", str(len(request.body)))] if has_body else []
    ours = [("Host", host), ("Accept-Encoding", "identity"), ("Connection", "close"), *length]
    given = {name.lower() for name, _ in request.headers}
    usual = [("Accept", "*/*"), ("User-Agent", "vegakit")]
    return [*ours, *(pair for pair in usual if pair[0].lower() not in given), *request.headers]


def _text(header: bytes) -> str:
    return header.decode("latin-1")


def _failure(error: Exception, target: Target) -> WorldError:
    timed_out = isinstance(error, httpcore2.TimeoutException)
    unsent = isinstance(error, httpcore2.ConnectError | httpcore2.ConnectTimeout)
    return WorldError(
        f"{target.host}:{target.port}: {error or type(error).__name__}",
        ErrorClass.TIMEOUT if timed_out else ErrorClass.CONNECTION,
        phase=Phase.NOTHING_SENT if unsent else Phase.UNKNOWN,
    )


@cache
def public_certificates() -> ssl.SSLContext:
    """Once for all requests: reading them takes longer than one."""
    return httpcore2.default_ssl_context()
