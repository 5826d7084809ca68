"""The tools a server lists, made harmless to read, and the pins: what a person accepted of them,
and what has changed since.
"""

import difflib
import os
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct, field, json

from vegakit.errors import InvalidRecordError, LimitReached, StoreError
from vegakit.ids import Digest
from vegakit.policy import escape_for_terminal, escape_text, quote_name, sanitise, wrap_escaped
from vegakit.records import Json, canonical, digest128, from_json, to_json
from vegakit.tools.functions import fold_name
from vegakit.tools.mcp.servers import McpServer
from vegakit.tools.openat import write_output

# What the tools of a server are called before a model: `server__tool`, in the letters that every
# provider takes, and never what another tool could be taken for.


_TOOL = re.compile(r"[A-Za-z0-9_.-]+")
_MOST = 64
"""Of letters in a name that OpenAI takes; others take more."""


def model_name(server: str, tool: str) -> str:
    """Return the name a model sees: `server__tool`."""
    return f"{server}__{tool.replace('.', '_')}"


def name_problem(server: str, tool: str) -> str:
    """Return why a tool of this name is not offered; empty if it is."""
    if not _TOOL.fullmatch(tool):
        return "its name has other letters than A-Z, a-z, 0-9, _, - and ."
    if len(model_name(server, tool)) > _MOST:
        return f"{server}__ and its name are longer than {_MOST} letters"
    return ""


# The list of a server's tools is taken in within bounds, and made harmless to read.
#
# A tool is left out, with the reason, if its name or its schema holds what could not be shown to a
# model as it is. Instructions, prompts, resources, icons and hints of a server are not taken in.


MOST_TOOLS = 128
_MOST_SCHEMA_BYTES = 32 * 1024
_MOST_DESCRIPTION_BYTES = 16 * 1024
_MOST_WORDS_BYTES = 4 * 1024
_WORDS = frozenset({"description", "title", "$comment"})
"""Of a schema, what is read and not compared."""


class ListedTool(Struct, frozen=True):
    """A tool as its server describes it; what is shown of it is made harmless first."""

    name: str
    description: str
    schema: Any

    @property
    def digest(self) -> Digest:
        """Return a digest of all that the server says of the tool."""
        return Digest(digest128([self.name, self.description, self.schema]))


class ToolList(Struct, frozen=True):
    """`left_out` are names, made harmless, and why."""

    tools: tuple[ListedTool, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()


def tool_list_of(server: str, listed: Iterable[tuple[str, str, Any]]) -> ToolList:
    """Return the tools of a server from names, descriptions and schemas."""
    found = [ListedTool(*one) for one in listed]
    if len(found) > MOST_TOOLS:
        raise LimitReached(
            f"{server} offers {len(found):,} tools; an agent is given at most {MOST_TOOLS} of a "
            "server: use one that offers fewer"
        )
    twins = Counter(fold_name(tool.name) for tool in found)
    why = {id(tool): _objection(server, tool, twins) for tool in found}
    return ToolList(
        tuple(tool for tool in found if not why[id(tool)]),
        tuple((sanitise(tool.name, 200), why[id(tool)]) for tool in found if why[id(tool)]),
    )


def shown_schema(schema: Json, *, in_words: bool = False) -> Json:
    """Return a schema whose texts are harmless to read; the rest was found to be so."""
    if isinstance(schema, dict):
        return {
            key: shown_schema(part, in_words=key in _WORDS and isinstance(part, str))
            for key, part in schema.items()
        }
    if isinstance(schema, list):
        return [shown_schema(part) for part in schema]
    return sanitise(schema, _MOST_WORDS_BYTES) if in_words and isinstance(schema, str) else schema


def _objection(server: str, tool: ListedTool, twins: Counter[str]) -> str:
    if why := name_problem(server, tool.name):
        return why
    if twins[fold_name(tool.name)] > 1:
        return "another tool of this server has the same name, or one that reads the same"
    if len(tool.description.encode(errors="replace")) > _MOST_DESCRIPTION_BYTES:
        return f"its description is longer than {_MOST_DESCRIPTION_BYTES:,} bytes"
    try:
        written = canonical([tool.description, tool.schema])
    except (OverflowError, RecursionError, UnicodeError, ValueError):
        return "its description or schema cannot be written as JSON"
    if len(written) > _MOST_SCHEMA_BYTES:
        return f"its description and schema are longer than {_MOST_SCHEMA_BYTES:,} bytes"
    if from_json(list[Any], written) != [tool.description, tool.schema]:
        return "its schema holds a number that is not the same when it is read back"
    if not _is_plain(tool.schema):
        return "its schema holds letters that cannot be seen"
    return ""


def _is_plain(schema: Json) -> bool:
    if isinstance(schema, dict):
        return all(
            _is_plain(key) and (_is_plain(part) or (key in _WORDS and isinstance(part, str)))
            for key, part in schema.items()
        )
    if isinstance(schema, list):
        return all(map(_is_plain, schema))
    return not isinstance(schema, str) or sanitise(schema) == schema


# Tools that a person has accepted, and what differs from them now.
#
# The file holds what was accepted in full, so a model is shown what the person saw, whatever the
# server says later. It lies with the user's own files: one that came with a project would let its
# author accept in the user's name.


PINS_VERSION = 1
_WIDTH = 75


class McpPin(Struct, frozen=True):
    """`digest` is that of the tools as they were written."""

    server: str
    place: str
    tools: tuple[ListedTool, ...]
    digest: Digest
    accepted_ms: int = 0


class _PinsFile(Struct):
    v: int = PINS_VERSION
    servers: dict[str, McpPin] = field(default_factory=dict[str, McpPin])


class McpPins:
    """The file of what people accepted, server by server."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def of(self, server: McpServer) -> McpPin | None:
        """Return what was accepted of a server, or raise `StoreError` if the file was changed by
        hand."""
        pinned = self._load().servers.get(_key(server))
        if pinned is not None and digest_of(pinned.tools) != pinned.digest:
            raise StoreError(
                f"{self.path}: what was accepted of {server.name} was changed since; take it out "
                f"of the file, look again, and type: vega mcp accept {server.name}"
            )
        return pinned

    def accept(self, server: McpServer, tools: tuple[ListedTool, ...], now: int) -> McpPin:
        """Replaces the file in one step, so that a reader never sees half of it."""
        kept = self._load()
        pinned = McpPin(server.name, server.place, tools, digest_of(tools), now)
        kept.servers[_key(server)] = pinned
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{self.path} could not be written: {error.strerror}") from error
        write_output(self.path, json.format(to_json(kept)), "make it writable", mode=0o600)
        return pinned

    def _load(self) -> _PinsFile:
        """One that cannot be read accepts nothing, and says so."""
        try:
            return from_json(_PinsFile, self.path.read_bytes())
        except FileNotFoundError:
            return _PinsFile()
        except (OSError, InvalidRecordError) as error:
            raise StoreError(
                f"{self.path} holds the accepted tools of MCP servers and cannot be read: {error}; "
                "move it away and accept them again: vega mcp accept NAME"
            ) from error


def digest_of(tools: Iterable[ListedTool]) -> Digest:
    """Return a digest of all tools of a server, in whatever order it lists them."""
    return Digest(digest128(sorted(tool.digest for tool in tools)))


class McpReview(Struct, frozen=True):
    """A comparison of what a server offers now with what was accepted, for a person to look at;
    nothing in it is harmful to read. `changed` are accepted tools that are no longer what they
    were."""

    tool_list: ToolList
    accepted: bool
    changed: dict[str, str]
    added: dict[str, str]

    @property
    def digest(self) -> Digest:
        """Return a digest of what is offered now."""
        return digest_of(self.tool_list.tools)

    @property
    def is_settled(self) -> bool:
        """Return whether everything offered was accepted as it is."""
        return self.accepted and not self.changed and not self.added

    @property
    def text(self) -> str:
        """All of it, behind a fence: no description can look like another tool or like us."""
        changed = (_fenced("changed", name, what) for name, what in self.changed.items())
        added = (_fenced("new", name, shown) for name, shown in self.added.items())
        left_out = (_fenced("left out", name, why) for name, why in self.tool_list.left_out)
        return "\n\n".join([*changed, *added, *left_out])


def review_of(pinned: McpPin | None, tool_list: ToolList) -> McpReview:
    """Compare what was accepted with what is offered."""
    before = pinned.tools if pinned else ()
    known = {tool.name for tool in before}
    added = {tool.name: _shown(tool) for tool in tool_list.tools if tool.name not in known}
    return McpReview(tool_list, pinned is not None, changes(before, tool_list), added)


def changes(before: Iterable[ListedTool], tool_list: ToolList) -> dict[str, str]:
    """Return what became of each accepted tool that is no longer what it was, line by line."""
    now = {tool.name: tool for tool in tool_list.tools}
    left_out = dict(tool_list.left_out)
    found: dict[str, str] = {}
    for tool in before:
        if tool.name not in now:
            found[tool.name] = f"it is no longer offered{_because(left_out.get(tool.name))}"
        elif now[tool.name].digest != tool.digest:
            found[tool.name] = _difference(tool, now[tool.name])
    return found


def _shown(tool: ListedTool) -> str:
    """Everything that its digest covers, harmless to read."""
    schema = json.format(json.encode(tool.schema, order="sorted"), indent=2).decode()
    lines = map(escape_text, tool.description.split("\n"))
    return "\n".join([*lines, *map(escape_for_terminal, schema.split("\n"))])


def _difference(before: ListedTool, now: ListedTool) -> str:
    old, new = (_shown(tool).split("\n") for tool in (before, now))
    lines = [line for line in difflib.unified_diff(old, new, lineterm="", n=0) if line[:2] != "@@"]
    return "\n".join(lines[2:])


def _fenced(what: str, name: str, text: str) -> str:
    lines = (part for line in text.split("\n") for part in wrap_escaped(line, _WIDTH))
    return "\n".join([f"{what}: {quote_name(name)}", *(f"  | {line}" for line in lines)])


def _because(why: str | None) -> str:
    return f": {why}" if why else ""


def _key(server: McpServer) -> str:
    return f"{server.name} {server.identity}"
