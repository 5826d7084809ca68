"""Requests to the hosts of a grant, over HTTP 1.1.

    URL ──▶ one clean host ──▶ grant ──▶ addresses, looked up once ──▶ checked ──▶ connected to
     ▲                                                                               │
     └──────────────── a redirect is a new request, checked from the start ◀─────────┘

The host that is checked is the host that is looked up, named to the server and held against its
certificate. A name that is not allowed is not even looked up: asking for it would tell it. Nothing
is unpacked, so what was counted is what was received. The environment's proxies are not used.
"""

import asyncio
import socket
import ssl
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from vegakit.errors import (
    CapabilityDenied,
    ErrorClass,
    LimitReached,
    Phase,
    UserError,
    WorldError,
)
from vegakit.policy import Allowed, Fetch, Grant, decide
from vegakit.tools.confined.addresses import Resolve, as_host, is_public, look_up
from vegakit.tools.confined.messages import (
    Answer,
    Request,
    Target,
    checked_headers,
    onward_of,
    shown,
    target_of,
)

if TYPE_CHECKING:
    from vegakit.tools.confined.sending import Send

__all__ = ["Http"]

_MAX_BYTES = 10_000_000
_TIMEOUT_MS = 30_000
_MOST_REDIRECTS = 5


class Http:
    def __init__(
        self,
        grant: Grant,
        *,
        max_bytes: int = _MAX_BYTES,
        timeout_ms: int = _TIMEOUT_MS,
        resolve: Resolve = look_up,
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
    ) -> Answer:
        """Any status is an answer."""
        request = Request(method, url, checked_headers(headers or {}), body)
        if len(body) > self._max_bytes:
            raise LimitReached(f"{len(body)} bytes are more than {self._max_bytes}; send less")
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                return await self._follow(request)
        except TimeoutError:
            raise WorldError(
                f"{shown(url)} did not answer within {self._timeout_ms} ms", ErrorClass.TIMEOUT
            ) from None

    async def _follow(self, request: Request) -> Answer:
        for _ in range(_MOST_REDIRECTS + 1):
            target = target_of(self._grant, request)
            addresses = await self._addresses(target)
            answer = await self._send(
                request, target, addresses, self._max_bytes, self._certificates
            )
            onward = onward_of(request, answer)
            if onward is None:
                return answer
            request = onward
        raise LimitReached(
            f"{shown(request.url)} is redirect number {_MOST_REDIRECTS + 1}; ask for it by itself"
        )

    async def _addresses(self, target: Target) -> Sequence[str]:
        found = await self._found(target)
        passing = [address for address in found if self._may_reach(target, address)]
        if found and not passing:
            ending = "" if target.port == 443 else f":{target.port}"
            raise CapabilityDenied(
                f"{target.host} leads to {', '.join(found[:3])}, on this machine or its network; "
                f'add allowed_hosts ["{as_host(found[0])}{ending}"] if that is meant'
            )
        return passing

    async def _found(self, target: Target) -> Sequence[str]:
        literal = target.host.strip("[]")
        if ":" in literal or literal.replace(".", "").isdigit():
            return [literal]
        try:
            found = await self._resolve(target.host, target.port)
        except socket.gaierror as error:
            raise WorldError(
                f"{target.host} has no address: {error.strerror}",
                ErrorClass.CONNECTION,
                phase=Phase.NOTHING_SENT,
            ) from None
        return list(dict.fromkeys(found))

    def _may_reach(self, target: Target, address: str) -> bool:
        if is_public(address):
            return True
        itself = Fetch(target.method, as_host(address), target.port)
        return isinstance(decide(self._grant, itself), Allowed)


def _sender() -> "Send":
    try:
        from vegakit.tools.confined.sending import send
    except ImportError as error:
        raise UserError(
            f"HTTP for tools needs {error.name}, which is not installed: pip install httpcore2"
        ) from error
    return send
