"""Read extensions from files, in the folder of the user's settings and in `.vega` of the project.

    agents/NAME.md      front matter (description, model, tools, budget), then what it is told
    commands/NAME.md    front matter (description, arguments), then what is said for `/NAME words`
    hooks/NAME.toml     when, command, and tools, timeout_s, writes
    tools/NAME.toml     description, command, parameters, capabilities; the same as NAME.json

Files of a project are used if the user trusts its folder and accepted each of them as it is now
(`vega trust`); until then only their names are seen. A file that is a link, too large, or no text
is left out. Front matter is not YAML: there are no anchors and no types in it.
"""

import asyncio
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import Struct

from vegakit.config import (
    EXTENSION_FOLDERS,
    Trust,
    digest_of,
    find_trust,
    record_path,
)
from vegakit.errors import CapabilityDenied, LimitReached, ToolFailed
from vegakit.policy import Grant
from vegakit.sage.extensions.catalog import MOST_OF_A_KIND, Broken, Extension, rights_problem
from vegakit.sage.extensions.records import (
    CommandTool,
    HookTime,
    SageCommand,
    SageHook,
    SageSubAgent,
)
from vegakit.sage.skills import front_matter
from vegakit.tools import Files, ToolFileProblem, command_tool

PROJECT = ".vega"
_MOST_BYTES, _LONGEST_LINE = 64 * 1024, 4_000
"""A parser of TOML takes the square of the length of a line."""
_READ = Grant(("fs::read",), paths=("*",))
_UNTRUSTED = "you have not accepted it as it is now; read it, then type: vega trust"
_MARKDOWN, _TABLES = (".md",), (".toml", ".json")
_OWN = Trust(0)
"""In files of the user."""


class _HookTable(Struct, forbid_unknown_fields=True):
    when: HookTime
    command: tuple[str, ...]
    tools: tuple[str, ...] = ()
    timeout_s: int = 10
    writes: bool = False


class Place(NamedTuple):
    """A folder with extensions. `shown` is how a person knows it; `needs_trust` that it came with a
    project."""

    root: Path
    shown: str
    needs_trust: bool


class FoundFiles(NamedTuple):
    """The files of a place came to this; nobody trusts those that are `untrusted` as they are."""

    found: list[Extension | Broken]
    untrusted: list[Broken]
    notes: list[str]


def places_of(folder: Path, own: Path | None) -> list[Place]:
    """Return where extensions of a workspace may be, the user's own first."""
    found = [] if own is None else [Place(own.resolve(), str(own), needs_trust=False)]
    return [*found, Place(folder.resolve() / PROJECT, PROJECT, needs_trust=True)]


def marks_of(places: list[Place]) -> dict[str, tuple[int, ...]]:
    """Return what changes when a file does, by its path: so files are read only if one changed. It
    looks at the disk, so call it in a thread."""
    found: dict[str, tuple[int, ...]] = {}
    paths = [
        path
        for place in places
        for kind in EXTENSION_FOLDERS
        for path in _names_in(place.root / kind)
    ]
    # Trust may change, too.
    for path in (*paths, *filter(None, [record_path()])):
        try:
            at = path.lstat()
        except OSError:
            continue
        found[str(path)] = (at.st_mtime_ns, at.st_ctime_ns, at.st_size, at.st_ino)
    return found


def _names_in(folder: Path) -> list[Path]:
    try:
        names = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    except OSError:
        return []
    return names[: 4 * MOST_OF_A_KIND]


async def read_place(place: Place) -> FoundFiles:
    """Return the extensions of a place."""
    result = FoundFiles([], [], [])
    trust = await asyncio.to_thread(find_trust, place.root.parent) if place.needs_trust else _OWN
    for kind, (endings, parse) in _KINDS.items():
        root, shown = place.root / kind, f"{place.shown}/{kind}"
        if not await asyncio.to_thread(root.is_dir):
            continue
        # What a repository links to may be anywhere; the user's own links are their own affair.
        if place.needs_trust and await asyncio.to_thread(root.resolve) != root:
            result.notes.append(f"{shown} is left out, since it is a link; make it a folder")
            continue
        for path in await asyncio.to_thread(_names_in, root):
            if path.suffix not in endings:
                continue
            source = f"{shown}/{path.name[:100]}"
            content = await _content(root, path.name)
            if isinstance(content, str):
                result.found.append(Broken(kind, path.stem, source, content))
            elif trust is None or not trust.accepts(source, digest_of(source, content)):
                result.untrusted.append(
                    Broken(kind, path.stem, source, _UNTRUSTED, was_trusted=trust is not None)
                )
            else:
                result.found.append(_parsed(kind, path, source, content, parse))
    return result


async def _content(root: Path, name: str) -> bytes | str:
    """Return what is in a file, or why nothing of it is used."""
    try:
        content = await Files(root, _READ, max_bytes=_MOST_BYTES).read(name)
    except (ToolFailed, CapabilityDenied, LimitReached, OSError) as error:
        return f"{error}; make it a file of at most {_MOST_BYTES:,} bytes"
    if any(len(line) > _LONGEST_LINE for line in content.split(b"\n")):
        return f"a line is longer than {_LONGEST_LINE:,} bytes; break it"
    return content


def _parsed(
    kind: str, path: Path, source: str, content: bytes, parse: Callable[..., Extension]
) -> Extension | Broken:
    try:
        return parse(path, source, content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        why = "it is not UTF-8; save it as such"
    except ToolFileProblem as problem:
        why = str(problem)
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        is_deep = isinstance(error, RecursionError)
        why = "it is nested too deep; write it flatter" if is_deep else f"{str(error)[:300]}"
    return Broken(kind, path.stem, source, why)


def _fields(text: str, known: str) -> tuple[dict[str, str], str]:
    head = front_matter(text)
    if head is None:
        return {}, text.strip()
    for name in head[0]:
        if name not in known.split():
            raise ValueError(f"its head has {name[:40]!a}, and may have: {known}")
    return head


def _agent(path: Path, source: str, text: str) -> SageSubAgent:
    fields, prompt = _fields(text, "name description model tools budget")
    _check_name(path, fields)
    tools = fields.get("tools")
    return SageSubAgent(
        path.stem,
        prompt,
        fields.get("description", ""),
        fields.get("model", ""),
        None if tools is None else tuple(_listed(tools)),
        fields.get("budget", ""),
        source,
    )


def _command(path: Path, source: str, text: str) -> SageCommand:
    fields, said = _fields(text, "name description arguments")
    _check_name(path, fields)
    told, arguments = fields.get("description", ""), fields.get("arguments", "")
    return SageCommand(path.stem, said, told, arguments, source)


def _check_name(path: Path, fields: dict[str, str]) -> None:
    if fields.get("name", path.stem) != path.stem:
        raise ValueError(f"its head names it {fields['name'][:80]!a}; give the file the same name")


def _listed(text: str) -> Iterator[str]:
    """Yield the words of a list, with or without brackets and quotes."""
    for word in text.strip().removeprefix("[").removesuffix("]").split(","):
        if plain := word.strip().strip("\"'"):
            yield plain


def _table(path: Path, text: str) -> dict[str, Any]:
    if path.suffix == ".json":
        return msgspec.json.decode(text, type=dict[str, Any])
    return tomllib.loads(text)


def _hook(path: Path, source: str, text: str) -> SageHook:
    table = msgspec.convert(_table(path, text), _HookTable)
    return SageHook(
        path.stem,
        table.when,
        table.command,
        table.tools,
        table.timeout_s,
        table.writes,
        source=source,
    )


def _tool(path: Path, source: str, text: str) -> CommandTool:
    table = {"name": path.stem, **_table(path, text)}
    if table["name"] != path.stem:
        raise ValueError(f"it names itself {str(table['name'])[:80]!a}; give the file this name")
    declared: Any = table.get("capabilities")
    if isinstance(declared, list):
        named = map(str, cast("list[Any]", declared))
        if problem := rights_problem(named):
            raise ValueError(problem)
    command_tool(table)
    return CommandTool(path.stem, table, source)


_KINDS: dict[str, tuple[tuple[str, ...], Callable[[Path, str, str], Extension]]] = {
    "agents": (_MARKDOWN, _agent),
    "commands": (_MARKDOWN, _command),
    "hooks": (_TABLES, _hook),
    "tools": (_TABLES, _tool),
}
assert (*_KINDS,) == EXTENSION_FOLDERS
