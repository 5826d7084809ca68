"""HTTP requests as a grant allows them: the checked target, where a redirect leads, and the
addresses that a name may resolve to.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias
from urllib.parse import urljoin

from msgspec import Struct
from msgspec.structs import replace

from vegakit.errors import CapabilityDenied, ErrorClass, Phase, WorldError
from vegakit.policy import Allowed, Denied, Fetch, Grant, decide, parse_url

# A tool that is allowed a name may reach the addresses that anybody on the internet may.
#
# All others (this machine, its network, its cloud's metadata) are reached only when a rule names
# the address itself: who owns an allowed name decides to which address it leads.


Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]

_METADATA = (IPv4Network("192.0.0.0/24"), IPv4Network("168.63.129.16/32"))
"""Of clouds, at addresses that Python, or some version of it, takes for public."""

_UNICAST = IPv6Network("2000::/3")
_TRANSLATED = IPv6Network("64:ff9b::/96")


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(place[0]) for *_, place in found]


def is_public(address: str) -> bool:
    """Return whether an address is on the public internet, and not that of a cloud's metadata."""
    found = ip_address(address)
    if isinstance(found, IPv4Address):
        is_metadata = any(found in network for network in _METADATA)
        return found.is_global and not found.is_multicast and not is_metadata
    if found in _TRANSLATED:
        return is_public(str(IPv4Address(int(found) & 0xFFFF_FFFF)))
    tunnels = found.sixtofour is not None or found.teredo is not None
    return found in _UNICAST and found.is_global and not tunnels


def as_host(address: str) -> str:
    """Return an address as a rule for hosts spells it."""
    found = ip_address(address)
    return f"[{found.compressed}]" if isinstance(found, IPv6Address) else str(found)


# Requests and responses over HTTP: the grant is asked for each, also for a redirect.


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_KEEP_METHOD = frozenset({307, 308})
_REDIRECTS = frozenset({301, 302, 303}) | _KEEP_METHOD
_OURS = frozenset(
    """
    accept-encoding connection content-length expect host keep-alive te trailer transfer-encoding
    upgrade
    """.split()
)
_HEADER_NAME = re.compile("[A-Za-z0-9-]{1,100}")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]{0,8000}")


class FetchResponse(Struct, frozen=True):
    """`url` is where it came from, after redirects."""

    url: str
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        """Return a header, whatever its case."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


class FetchRequest(Struct, frozen=True):
    """A request as it will be sent."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


class Target(Struct, frozen=True):
    """The place a request goes to, as it was checked. A later reading of its URL changes nothing
    here."""

    secure: bool
    method: str
    host: str
    port: int
    path: str


def target_of(grant: Grant, request: FetchRequest) -> Target:
    """Return where a request goes, or raise `CapabilityDenied` if the grant does not allow it."""
    wanted = parse_url(request.method, request.url)
    verdict = wanted if isinstance(wanted, Denied) else decide(grant, wanted)
    if isinstance(verdict, Denied):
        raise CapabilityDenied(verdict.reason)
    clean = verdict.wanted
    assert isinstance(clean, Fetch)
    if clean.method not in _METHODS:
        raise CapabilityDenied(
            f"the method {clean.method} is not sent; use one of {', '.join(sorted(_METHODS))}"
        )
    scheme, _, rest = request.url.partition("://")
    path = re.sub("^[^/?#]*", "", rest).partition("#")[0]
    slash = "" if path.startswith("/") else "/"
    return Target(scheme.lower() == "https", clean.method, clean.host, clean.port, slash + path)


def redirect_of(request: FetchRequest, answer: FetchResponse) -> FetchRequest | None:
    """Return the request that a redirect asks for. To another place the caller's headers do not go
    along: they may hold its keys."""
    place = answer.header("location")
    if answer.status not in _REDIRECTS or place is None:
        return None
    try:
        url = urljoin(request.url, place)
    except ValueError:
        raise CapabilityDenied(f"the redirect to {shown(place)} leads to no URL") from None
    if _origin(request.url)[0] == "https" and _origin(url)[0] != "https":
        raise CapabilityDenied(f"the redirect to {shown(url)} leaves https; ask for it by itself")
    if _origin(url) != _origin(request.url):
        request = replace(request, headers=())
    if answer.status in _KEEP_METHOD or request.method.upper() in {"GET", "HEAD"}:
        return replace(request, url=url)
    return FetchRequest("GET", url, request.headers)


def _origin(url: str) -> tuple[str, str]:
    scheme, _, rest = url.partition("://")
    return scheme.lower(), re.split("[/?#]", rest)[0].lower()


def checked_headers(headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the headers, or raise `CapabilityDenied` for one that the caller may not set."""
    for name, value in headers.items():
        if name.lower() in _OURS or name.lower().startswith("proxy-"):
            raise CapabilityDenied(f"the header {name} follows from the request; leave it out")
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise CapabilityDenied(
                f"the header {shown(name)} is not one line of ASCII; encode what it holds"
            )
    return tuple(headers.items())


def shown(text: str) -> str:
    """Code points, not glyphs."""
    return ascii(text[:80])


# The addresses that a name leads to, looked up once, and those of them that a grant reaches.


async def reachable_addresses(grant: Grant, target: Target, resolve: Resolve) -> Sequence[str]:
    """Resolve the host and return the addresses that may be reached. A name must not lead into the
    local network unless the grant says so."""
    found = await _found(target, resolve)
    passing = [address for address in found if _may_reach(grant, target, address)]
    if found and not passing:
        ending = "" if target.port == 443 else f":{target.port}"
        raise CapabilityDenied(
            f"{target.host} leads to {', '.join(found[:3])}, on this machine or its network; "
            f'add allowed_hosts ["{as_host(found[0])}{ending}"] if that is meant'
        )
    return passing


async def _found(target: Target, resolve: Resolve) -> Sequence[str]:
    literal = target.host.strip("[]")
    if ":" in literal or literal.replace(".", "").isdigit():
        return [literal]
    try:
        found = await resolve(target.host, target.port)
    except socket.gaierror as error:
        raise WorldError(
            f"{target.host} has no address: {error.strerror}",
            ErrorClass.CONNECTION,
            phase=Phase.NOTHING_SENT,
        ) from None
    return list(dict.fromkeys(found))


def _may_reach(grant: Grant, target: Target, address: str) -> bool:
    if is_public(address):
        return True
    itself = Fetch(target.method, as_host(address), target.port)
    return isinstance(decide(grant, itself), Allowed)
