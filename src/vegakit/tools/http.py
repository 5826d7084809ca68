"""Requests to the hosts of a grant, over HTTP 1.1.

    URL ──▶ one clean host ──▶ grant ──▶ addresses, looked up once ──▶ checked ──▶ connected to
     ▲                                                                               │
     └──────────────── a redirect is a new request, checked from the start ◀─────────┘

The host that is checked is the host that is looked up, named to the server and held against its
certificate. A name that is not allowed is not even looked up: asking for it would tell it.
Nothing is unpacked, so what was counted is what was received. The environment's proxies are not
used.
"""

import asyncio
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING

from vegakit.errors import ErrorClass, LimitReached, UserError, WorldError
from vegakit.policy import Grant
from vegakit.tools.http_requests import (
    FetchRequest,
    FetchResponse,
    Resolve,
    checked_headers,
    reachable_addresses,
    redirect_of,
    resolve_host,
    shown,
    target_of,
)

if TYPE_CHECKING:
    from vegakit.tools.http_transport import SendRequest


_MAX_BYTES = 10_000_000
_TIMEOUT_MS = 30_000
_MOST_REDIRECTS = 5


class Http:
    """An HTTP client that reaches the hosts of its grant and no others."""

    def __init__(
        self,
        grant: Grant,
        *,
        max_bytes: int = _MAX_BYTES,
        timeout_ms: int = _TIMEOUT_MS,
        resolve: Resolve = resolve_host,
        certificates: ssl.SSLContext | None = None,
    ) -> None:
        self._grant = grant
        self._max_bytes = max_bytes
        self._timeout_ms = timeout_ms
        self._resolve = resolve
        self._certificates = certificates
        self._send = _sender()

    async def fetch(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> FetchResponse:
        """Any status is an answer."""
        request = FetchRequest(method, url, checked_headers(headers or {}), body)
        if len(body) > self._max_bytes:
            raise LimitReached(f"{len(body)} bytes are more than {self._max_bytes}; send less")
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                return await self._follow(request)
        except TimeoutError:
            raise WorldError(
                f"{shown(url)} did not answer within {self._timeout_ms} ms", ErrorClass.TIMEOUT
            ) from None

    async def _follow(self, request: FetchRequest) -> FetchResponse:
        for _ in range(_MOST_REDIRECTS + 1):
            target = target_of(self._grant, request)
            addresses = await reachable_addresses(self._grant, target, self._resolve)
            answer = await self._send(
                request, target, addresses, self._max_bytes, self._certificates
            )
            redirected = redirect_of(request, answer)
            if redirected is None:
                return answer
            request = redirected
        raise LimitReached(
            f"{shown(request.url)} is redirect number {_MOST_REDIRECTS + 1}; ask for it by itself"
        )


def _sender() -> "SendRequest":
    try:
        from vegakit.tools.http_transport import send
    except ImportError as error:
        raise UserError(
            f"HTTP for tools needs {error.name}, which is not installed: "
            "pip install 'vegakit[http]'"
        ) from error
    return send
