"""What is asked over HTTP and answered: what a grant allows, and where a redirect leads."""

import re
from collections.abc import Mapping
from urllib.parse import urljoin

from msgspec import Struct
from msgspec.structs import replace

from vegakit.errors import CapabilityDenied
from vegakit.policy import Denied, Fetch, Grant, decide, parse_url

__all__ = ["Answer", "Request", "Target", "checked_headers", "onward_of", "shown", "target_of"]

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


class Answer(Struct, frozen=True):
    """`url` is where it came from, after redirects."""

    url: str
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


class Request(Struct, frozen=True):
    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


class Target(Struct, frozen=True):
    """Where a request goes, as it was checked. A later reading of its URL changes nothing here."""

    secure: bool
    method: str
    host: str
    port: int
    path: str


def target_of(grant: Grant, request: Request) -> Target:
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


def onward_of(request: Request, answer: Answer) -> Request | None:
    """To another place the caller's headers do not go along: they may hold its keys."""
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
    return Request("GET", url, request.headers)


def _origin(url: str) -> tuple[str, str]:
    scheme, _, rest = url.partition("://")
    return scheme.lower(), re.split("[/?#]", rest)[0].lower()


def checked_headers(headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
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
