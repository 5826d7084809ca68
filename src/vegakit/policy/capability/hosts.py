"""Hosts, and the rules that allow them.

| rule                 | allows                                                     |
|----------------------|------------------------------------------------------------|
| `api.example.com`    | this host on port 443                                      |
| `*.example.com`      | every host with one label more, or several; not itself     |
| `example.com:8080`   | this host on this port only                                |
| `127.0.0.1:80`       | this address; no wildcard ever allows an address           |
| `[::1]:80`           | likewise                                                   |

A name with a single label, such as `localhost`, is no ending for a wildcard: neither is `com`.
So what is local or private is reached only when it is named exactly.

| host asked for                                | decided                                         |
|-----------------------------------------------|-------------------------------------------------|
| `API.example.com`                             | `api.example.com`                               |
| `::1`, `[0:0::1]`                             | `[::1]`                                         |
| `example.com.`                                | refused: servers and certificates differ on it  |
| `0x7f.1`, `2130706433`, `127.1`, `010.0.0.1`  | refused: an address in an odd spelling          |
| `[::ffff:127.0.0.1]`, `[fe80::1%eth0]`        | refused: an address inside an address, a zone   |
| `a@b`                                         | refused: what stands before `@` is no host      |
| letters beyond ASCII                          | refused: write the punycode form, `xn--...`     |
| white space, NUL, `_`, anything else          | refused                                         |

`net::get` covers the methods GET and HEAD, `net::post` all others. To which address a name
leads, and where a redirect leads, is decided again by whoever connects.
"""

import ipaddress
import re
from collections.abc import Iterator

from vegakit.errors import InvalidRuleError
from vegakit.policy.capability.access import (
    Ambiguities,
    Denied,
    Fetch,
    first_ambiguity,
    refused,
    shown,
)

_HTTPS = 443
_PORT_OF = {"http": 80, "https": _HTTPS}

_LABEL = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_ENDS_IN_NUMBER = re.compile(r"(^|\.)([0-9]+|0x[0-9a-f]*)$")
_METHOD = re.compile("[A-Za-z]{1,20}")
_RULE = re.compile(r"(\*\.)?(\[[^\]]*\]|[^:\[\]]+)(?::([1-9][0-9]{0,4}))?")
_URL = re.compile(
    r"(https?)://(\[[^\]]*\]|[^/?#:\[\]]*)(?::([0-9]{1,5}))?(?:[/?#].*)?", re.IGNORECASE
)

_HOST_AMBIGUITIES: Ambiguities = (
    (lambda text: not 0 < len(text) <= 253, "a host has 1 to 253 characters"),
    (lambda text: not text.isascii(), "it is not ASCII; write the punycode form, like xn--..."),
    (re.compile(r"[\x00-\x20\x7f]").search, "it holds white space or a control character"),
    (re.compile("@").search, "what stands before an @ is no host"),
    (re.compile(r"\.$").search, "it ends in a dot; write it without"),
)

_URL_AMBIGUITIES: Ambiguities = (
    (
        lambda text: not text.isascii(),
        "it is not ASCII; encode its path, write the host as xn--...",
    ),
    (re.compile(r"[\x00-\x20\x7f\\]").search, "it holds white space, a control or a backslash"),
    (re.compile("%(00|0a|0d)", re.IGNORECASE).search, "it hides a NUL or a line break"),
    (re.compile("^[^/]*//[^/?#]*@").search, "what stands before an @ is no host"),
)


def parse_url(method: str, url: str) -> Fetch | Denied:
    """Return the request that a URL stands for, or a denial if it could be read in two ways."""
    why = first_ambiguity(url, _URL_AMBIGUITIES)
    if why is not None:
        return refused("URL", url, why)
    match = _URL.fullmatch(url)
    if match is None:
        return refused("URL", url, "it is not http(s)://host[:port]/...")
    scheme, host, port = match.groups()
    return Fetch(method, host, int(port or _PORT_OF[scheme.lower()]))


def clean_fetch(wanted: Fetch) -> Fetch | Denied:
    """Return the request with its host spelled one way, or a denial."""
    host = _clean_host(wanted.host)
    if isinstance(host, Denied):
        return host
    if not _METHOD.fullmatch(wanted.method):
        return refused("method", wanted.method, "a method is a word such as GET")
    if not 1 <= wanted.port <= 65_535:
        return refused("port", str(wanted.port), "a port is 1 to 65535")
    return Fetch(wanted.method.upper(), host, wanted.port)


def hosts_allowing(host: str, port: int) -> Iterator[str]:
    """Every rule that allows a clean host, the narrowest first."""
    endings = ("", ":443") if port == _HTTPS else (f":{port}",)
    parents = (f"*{host[at:]}" for at, letter in enumerate(host) if letter == ".")
    return (name + ending for name in (host, *parents) for ending in endings)


def check_host_rule(rule: str) -> None:
    """Raise `InvalidRuleError` unless the rule names a host, `*.host` or `host:port`."""
    match = _RULE.fullmatch(rule)
    if match is None:
        raise InvalidRuleError(f"{shown(rule)} is no host rule; write host, *.host or host:port")
    wildcard, name, port = match.groups()
    host = _clean_host(name)
    if isinstance(host, Denied):
        raise InvalidRuleError(f"{shown(rule)} allows no host: {host.reason}")
    if host != name:
        raise InvalidRuleError(f"{shown(rule)} allows no host; write it as {shown(host)}")
    if wildcard and ("." not in host or _ENDS_IN_NUMBER.search(host)):
        raise InvalidRuleError(f"{shown(rule)}: after '*.' comes a name such as example.com")
    if port and int(port) > 65_535:
        raise InvalidRuleError(f"{shown(rule)}: a port is 1 to 65535")


def _clean_host(text: str) -> str | Denied:
    why = first_ambiguity(text, _HOST_AMBIGUITIES)
    if why is not None:
        return refused("host", text, why)
    host = text.lower()
    if ":" in host:
        return _clean_ipv6(host)
    if not _NAME.fullmatch(host):
        return refused("host", text, "a host is labels of letters, digits and - joined by dots")
    if _ENDS_IN_NUMBER.search(host) and not _is_ipv4(host):
        return refused("host", text, "an address is four decimal numbers, like 192.0.2.1")
    return host


def _is_ipv4(host: str) -> bool:
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return True


def _clean_ipv6(host: str) -> str | Denied:
    inner = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        address = ipaddress.IPv6Address(inner)
    except ValueError:
        return refused("host", host, "it is no IPv6 address")
    if address.scope_id is not None or address.ipv4_mapped is not None:
        return refused("host", host, "an IPv6 address has no zone and hides no IPv4 address")
    return f"[{address.compressed}]"
