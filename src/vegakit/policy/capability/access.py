"""Access requests: what may be asked of the world, the names of capabilities, and text that is
refused because programs could read it differently (pure).
"""

import re
from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from vegakit.errors import InvalidRuleError, did_you_mean

# Requests to the world, and the two verdicts of a grant.
#
# `Allowed.wanted` is the one spelling that was checked (`./src//a.py` becomes `src/a.py`).
# Perform that one, not the text that was asked: a second reading of the same text is how checks
# are passed.


class ReadPath(Struct, frozen=True, tag=True):
    """A file or the listing of a folder, named from the project root."""

    path: str


class WritePath(Struct, frozen=True, tag=True):
    """Create, change, move or remove."""

    path: str


class RunCommand(Struct, frozen=True, tag=True):
    """Run a command, given as its words."""

    argv: tuple[str, ...]


class Fetch(Struct, frozen=True, tag=True):
    """Send a request to a host."""

    method: str
    host: str
    port: int = 443


class Use(Struct, frozen=True, tag=True):
    """A capability by name alone, for effects that are neither path, command nor host."""

    capability: str


AccessRequest: TypeAlias = ReadPath | WritePath | RunCommand | Fetch | Use


class Allowed(Struct, frozen=True, tag=True):
    """The request may be carried out, as it is spelled here."""

    wanted: AccessRequest


class Denied(Struct, frozen=True, tag=True):
    """Says what was asked, what is granted and what to add."""

    reason: str


# Text that several programs could read differently is refused, with the reason.
#
# Each subject (paths, commands, hosts) states its doubts as a table; the first that holds is told.


Ambiguities: TypeAlias = tuple[tuple[Callable[[str], object], str], ...]

_SHOWN_CHARACTERS = 80


def first_ambiguity(text: str, doubts: Ambiguities) -> str | None:
    """Return the first reason why `text` could be read in two ways, or None."""
    return next((why for holds, why in doubts if holds(text)), None)


def refused(subject: str, text: str, why: str) -> Denied:
    """Return a denial that shows the text and says why."""
    return Denied(f"the {subject} {shown(text)} is refused: {why}")


def shown(text: str) -> str:
    """Code points, not glyphs: a reader must see the character that turns a line around."""
    cut = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."
    return ascii(cut)


# The open tree of capability names: `fs` covers `fs::read`, `fs::read` covers itself.
#
# `fs::read`, `fs::write`, `process::exec`, `net::get` and `net::post` are known to the gate; tools
# may bring any others, up to 8 names of ASCII letters, digits and `_`, 128 characters in all.


READ = "fs::read"
WRITE = "fs::write"
EXEC = "process::exec"
GET = "net::get"
POST = "net::post"

_KNOWN = {"fs": ("read", "write"), "process": ("exec",), "net": ("get", "post")}
_MAX_CHARACTERS = 128
_PART = "[A-Za-z_][A-Za-z0-9_]*"
_NAME = re.compile(f"{_PART}(::{_PART}){{0,7}}")
_EXPECTED = "a capability is up to 8 names of letters, digits and _ joined by ::, such as fs::read"


def covers(branch: str, name: str) -> bool:
    """Return whether a capability includes another: `fs` includes `fs::read`."""
    return name == branch or name.startswith(f"{branch}::")


def clean_use(wanted: Use) -> Use | Denied:
    """Return the request if its capability is well formed, else a denial."""
    name = wanted.capability
    return wanted if _is_name(name) else refused("capability", name, _EXPECTED)


def check_capability(name: str) -> None:
    """Raise `InvalidRuleError` unless `name` names a capability."""
    if not _is_name(name):
        raise InvalidRuleError(f"{shown(name)} names no capability: {_EXPECTED}")
    # A denial of `fs::wirte` would protect nothing, and nobody would hear of it.
    root, leaf = [*name.split("::"), ""][:2]
    near = did_you_mean(leaf, _KNOWN.get(root, ()), "") or did_you_mean(
        root, (one for one, leaves in _KNOWN.items() if leaf in leaves), ""
    )
    if near and not (root in _KNOWN and leaf in _KNOWN[root]):
        raise InvalidRuleError(f"there is no capability {name}; {near}")


def _is_name(text: str) -> bool:
    return len(text) <= _MAX_CHARACTERS and _NAME.fullmatch(text) is not None
