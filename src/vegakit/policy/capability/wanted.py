"""What may be asked of the world, and the two answers a grant gives.

`Allowed.wanted` is the one spelling that was checked (`./src//a.py` becomes `src/a.py`). Perform
that one, not the text that was asked: a second reading of the same text is how checks are passed.
"""

from typing import TypeAlias

from msgspec import Struct

__all__ = [
    "Allowed",
    "Denied",
    "Fetch",
    "ReadPath",
    "RunCommand",
    "Use",
    "Wanted",
    "WritePath",
]


class ReadPath(Struct, frozen=True, tag=True):
    """A file or the listing of a folder, named from the project root."""

    path: str


class WritePath(Struct, frozen=True, tag=True):
    """Create, change, move or remove."""

    path: str


class RunCommand(Struct, frozen=True, tag=True):
    argv: tuple[str, ...]


class Fetch(Struct, frozen=True, tag=True):
    method: str
    host: str
    port: int = 443


class Use(Struct, frozen=True, tag=True):
    """A capability by name alone, for effects that are neither path, command nor host."""

    capability: str


Wanted: TypeAlias = ReadPath | WritePath | RunCommand | Fetch | Use


class Allowed(Struct, frozen=True, tag=True):
    wanted: Wanted


class Denied(Struct, frozen=True, tag=True):
    """Says what was asked, what is granted and what to add."""

    reason: str
