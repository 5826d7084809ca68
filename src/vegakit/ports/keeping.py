"""Documents, and what was said."""

from collections.abc import Awaitable, Sequence
from typing import Protocol

from vegakit.conversation import Message

__all__ = [
    "Memory",
    "Store",
]


class Store(Protocol):
    """Small documents by (kind, key), each under a version: a lost update is impossible."""

    def get(self, kind: str, key: str) -> Awaitable[tuple[bytes, int] | None]:
        """The document and its version."""
        ...

    def put(self, kind: str, key: str, value: bytes, *, expected: int) -> Awaitable[bool]:
        """Writes version `expected + 1` if `expected` is the version there now; 0 creates."""
        ...

    def delete(self, kind: str, key: str, *, expected: int) -> Awaitable[bool]: ...

    def keys(self, kind: str, *, after: str = "", limit: int = 100) -> Awaitable[Sequence[str]]:
        """In order, a page at a time."""
        ...

    def aclose(self) -> Awaitable[None]: ...


class Memory(Protocol):
    """What was said, by owner: a process's name, so that its next life remembers.

    An append is a turn, written whole or not at all, and carried out to its end even if its caller
    is cancelled. Whoever appends next, in this process or another, is read after it.
    """

    def append(
        self, owner: str, messages: Sequence[Message], *, key: str | None = None
    ) -> Awaitable[bool]:
        """Whether it was written: a turn whose key the owner used before is there already."""
        ...

    def load(self, owner: str, limit: int = 100) -> Awaitable[Sequence[Message]]:
        """The last messages, oldest first. A turn that does not fit into `limit` whole is left out,
        and all before it: a tool call is never parted from its result."""
        ...

    def search(self, owner: str, query: str, limit: int = 10) -> Awaitable[Sequence[Message]]:
        """Those that hold every word of the query, latest first, in whatever case. A query is words
        and has no syntax; its first hundred different words count."""
        ...

    def forget(self, owner: str) -> Awaitable[None]:
        """All that was said, and the keys."""
        ...

    def aclose(self) -> Awaitable[None]: ...
