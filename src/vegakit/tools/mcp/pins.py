"""Tools that a person has accepted, and what differs from them now.

The file holds what was accepted in full, so a model is shown what the person saw, whatever the
server says later. It lies with the user's own files: one that came with a project would let its
author accept in the user's name.
"""

import difflib
import os
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct, field, json

from vegakit.errors import InvalidRecordError, StoreError
from vegakit.ids import Digest
from vegakit.policy import escaped, in_lines, named, spelled
from vegakit.records import digest128, from_json, to_json
from vegakit.tools.mcp.offering import Offer, Offered
from vegakit.tools.mcp.servers import McpServer

__all__ = ["PINS_VERSION", "McpPins", "McpReview", "Pinned", "changes", "digest_of", "review_of"]

PINS_VERSION = 1
_WIDTH = 75


class Pinned(Struct, frozen=True):
    """`digest` is that of the tools as they were written."""

    server: str
    place: str
    tools: tuple[Offered, ...]
    digest: Digest
    accepted_ms: int = 0


class _Kept(Struct):
    v: int = PINS_VERSION
    servers: dict[str, Pinned] = field(default_factory=dict[str, Pinned])


class McpPins:
    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def of(self, server: McpServer) -> Pinned | None:
        pinned = self._kept().servers.get(_key(server))
        if pinned is not None and digest_of(pinned.tools) != pinned.digest:
            raise StoreError(
                f"{self.path}: what was accepted of {server.name} was changed since; take it out "
                f"of the file, look again, and type: vega mcp accept {server.name}"
            )
        return pinned

    def accept(self, server: McpServer, tools: tuple[Offered, ...], now: int) -> Pinned:
        """Replaces the file in one step, so that a reader never sees half of it."""
        kept = self._kept()
        pinned = Pinned(server.name, server.place, tools, digest_of(tools), now)
        kept.servers[_key(server)] = pinned
        fresh = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fresh.touch(mode=0o600)
            fresh.write_bytes(json.format(to_json(kept)))
            fresh.replace(self.path)
        except OSError as error:
            raise StoreError(f"{self.path} could not be written: {error.strerror}") from error
        return pinned

    def _kept(self) -> _Kept:
        """One that cannot be read accepts nothing, and says so."""
        try:
            return from_json(_Kept, self.path.read_bytes())
        except FileNotFoundError:
            return _Kept()
        except (OSError, InvalidRecordError) as error:
            raise StoreError(
                f"{self.path} holds the accepted tools of MCP servers and cannot be read: {error}; "
                "move it away and accept them again: vega mcp accept NAME"
            ) from error


def digest_of(tools: Iterable[Offered]) -> Digest:
    """Of all tools of a server, in whatever order it lists them."""
    return Digest(digest128(sorted(tool.digest for tool in tools)))


class McpReview(Struct, frozen=True):
    """What a server offers now beside what was accepted, for a person to look at; nothing in it is
    harmful to read. `changed` are accepted tools that are no longer what they were."""

    offer: Offer
    accepted: bool
    changed: dict[str, str]
    added: dict[str, str]

    @property
    def digest(self) -> Digest:
        return digest_of(self.offer.tools)

    @property
    def is_settled(self) -> bool:
        return self.accepted and not self.changed and not self.added

    @property
    def text(self) -> str:
        """All of it, behind a fence: no description can look like another tool or like us."""
        changed = (_fenced("changed", name, what) for name, what in self.changed.items())
        added = (_fenced("new", name, shown) for name, shown in self.added.items())
        left_out = (_fenced("left out", name, why) for name, why in self.offer.left_out)
        return "\n\n".join([*changed, *added, *left_out])


def review_of(pinned: Pinned | None, offer: Offer) -> McpReview:
    before = pinned.tools if pinned else ()
    known = {tool.name for tool in before}
    added = {tool.name: _shown(tool) for tool in offer.tools if tool.name not in known}
    return McpReview(offer, pinned is not None, changes(before, offer), added)


def changes(before: Iterable[Offered], offer: Offer) -> dict[str, str]:
    """What became of each accepted tool that is no longer what it was, line by line."""
    now = {tool.name: tool for tool in offer.tools}
    left_out = dict(offer.left_out)
    found: dict[str, str] = {}
    for tool in before:
        if tool.name not in now:
            found[tool.name] = f"it is no longer offered{_because(left_out.get(tool.name))}"
        elif now[tool.name].digest != tool.digest:
            found[tool.name] = _difference(tool, now[tool.name])
    return found


def _shown(tool: Offered) -> str:
    """Everything that its digest covers, harmless to read."""
    schema = json.format(json.encode(tool.schema, order="sorted"), indent=2).decode()
    lines = map(spelled, tool.description.split("\n"))
    return "\n".join([*lines, *map(escaped, schema.split("\n"))])


def _difference(before: Offered, now: Offered) -> str:
    old, new = (_shown(tool).split("\n") for tool in (before, now))
    lines = [line for line in difflib.unified_diff(old, new, lineterm="", n=0) if line[:2] != "@@"]
    return "\n".join(lines[2:])


def _fenced(what: str, name: str, text: str) -> str:
    lines = (part for line in text.split("\n") for part in in_lines(line, _WIDTH))
    return "\n".join([f"{what}: {named(name)}", *(f"  | {line}" for line in lines)])


def _because(why: str | None) -> str:
    return f": {why}" if why else ""


def _key(server: McpServer) -> str:
    return f"{server.name} {server.identity}"
