"""The map of a project: its files with what they define, when the agent asks for it.

    files, as searches see them ─▶ read ─▶ known by content? ─ yes ─▶ names ─▶ at most 8,000 bytes
                                               └ no ─▶ tree-sitter, in a sandbox of its own ─┘

Files are of others, and parsers are of C: they run in a sandbox that holds nothing but Python and
the parsers, with a bound on time and memory. The file that hangs or kills one is looked at by
regular expressions instead, as all are where tree-sitter is not installed. What was found is kept
beside the session by the digest of the content. No parser is ever loaded by the session itself.
"""

import asyncio
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import TypeAlias

import msgspec
from msgspec import Struct

from vegakit.errors import CatchableError, UserError
from vegakit.policy import Grant
from vegakit.records import digest128
from vegakit.sage.tools.commands import list_files
from vegakit.sage.tools.files import reads
from vegakit.sage.tools.workspace import READ, TEXT, SageTool, Workspace, spec_of
from vegakit.tools import Files, SandboxLimits, SandboxSpec, current_sandboxes, python_folders

_MOST_SHOWN = 8_000
_MOST_FILES, _MOST_BYTES, _MOST_IN_ALL = 1_500, 200_000, 12_000_000
_AT_ONCE = 16
_PARSE_S, _MOST_STARTS = 10, 4
_PARSER_MEMORY = 512 << 20
_MOST_KEPT = 20_000
_KEPT = "map.json"
_OVERTIME_MS = 5_000

Defined: TypeAlias = list[tuple[str, list[str]]]
"""Names that a file defines, each with its members."""

# Languages: who parses a file, and what is looked for without a parser.


_PARSED = {
    **dict.fromkeys((".py", ".pyi"), "python"),
    **dict.fromkeys((".js", ".jsx", ".mjs", ".cjs"), "javascript"),
    **dict.fromkeys((".ts", ".mts", ".cts"), "typescript"),
    ".tsx": "tsx",
    **dict.fromkeys((".sh", ".bash"), "bash"),
}
_SCRIPTS = (
    r"^(?:export[ \t]+)?(?:default[ \t]+)?(?:abstract[ \t]+)?(?:async[ \t]+)?"
    r"(?:function\*?|class|interface|enum|type|const(?=[ \t]+\w+[ \t]*=[ \t]*(?:async[ \t]*)?"
    r"(?:\(|function|\w+[ \t]*=>)))[ \t]+(\w+)"
)
_OF_CLASSES = (
    r"^(?:(?:public|private|protected|internal|static|final|abstract|sealed|open|data)[ \t]+)*"
    r"(?:class|interface|enum|record|object|struct|fun)[ \t]+(\w+)"
)
_PATTERNS = {
    **dict.fromkeys((".py", ".pyi"), r"^(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)"),
    **dict.fromkeys((".js", ".jsx", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".tsx"), _SCRIPTS),
    **dict.fromkeys((".sh", ".bash"), r"^(?:function[ \t]+)?([\w-]+)[ \t]*\(\)"),
    ".go": r"^(?:func(?:[ \t]+\([^)\n]*\))?|type)[ \t]+(\w+)",
    ".rs": r"^(?:pub(?:\([^)\n]*\))?[ \t]+)?(?:async[ \t]+)?(?:fn|struct|enum|trait)[ \t]+(\w+)",
    ".rb": r"^(?:def|class|module)[ \t]+([\w.:?!]+)",
    **dict.fromkeys((".java", ".kt", ".cs", ".swift", ".scala"), _OF_CLASSES),
}


class MapArguments(Struct, forbid_unknown_fields=True):
    """The arguments of `map`."""

    path: str = "."


class _Source(Struct, frozen=True):
    path: str
    ending: str
    text: str

    @property
    def key(self) -> str:
        return digest128([self.ending, self.text])


class ProjectMap:
    """The tool that draws the map of a workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def tools(self) -> tuple[SageTool, ...]:
        """Return the one tool."""
        return (
            SageTool(
                spec_of("map", _TOLD_MAP, {"path": {**TEXT, "description": _TOLD_PATH}}, ""),
                MapArguments,
                self._map,
                lambda given: reads(self._workspace, given.path),
                idempotent=True,
                untrusted=True,
                timeout_ms=120_000,
            ),
        )

    async def _map(self, given: MapArguments) -> str:
        path = self._workspace.relative(given.path)
        names = await list_files(self._workspace, path)
        sources = await self._read(names)
        kept = await self._kept()
        missing = {one.key: one for one in sources if one.key not in kept}
        parsers = parser_folders()
        parsed = await self._parsed([*missing.values()], parsers) if parsers else {}
        # Only what a parser found is kept: it may be installed tomorrow.
        await self._keep({**kept, **parsed}, bool(parsed))
        found = {**kept, **parsed}
        by_pattern = [one for one in sources if one.key not in found]
        guessed = await asyncio.to_thread(lambda: {one.key: _guessed(one) for one in by_pattern})
        defined = {one.path: {**found, **guessed}[one.key] for one in sources}
        way = _way(len(by_pattern), len(sources), bool(parsers))
        return await asyncio.to_thread(drawn, path, names, defined, way)

    async def _read(self, names: Sequence[str]) -> list[_Source]:
        """Read source files, as many as fit the bounds, in the order of their names."""
        files = Files(self._workspace.folder, Grant((READ,), paths=("**",)), max_bytes=_MOST_BYTES)
        wanted = [name for name in names if PurePosixPath(name).suffix in _PATTERNS][:_MOST_FILES]
        read: list[_Source] = []
        size = 0
        for at in range(0, len(wanted), _AT_ONCE):
            batch = wanted[at : at + _AT_ONCE]
            contents = await asyncio.gather(*(_content(files, name) for name in batch))
            for name, content in zip(batch, contents, strict=True):
                size += len(content or b"")
                if content is not None and size <= _MOST_IN_ALL:
                    text = content.decode("utf-8", errors="replace")
                    read.append(_Source(name, PurePosixPath(name).suffix, text))
        return read

    async def _parsed(self, sources: list[_Source], parsers: list[Path]) -> dict[str, Defined]:
        """Parse files in the sandbox. The one at which it stops is left out, and it goes on behind
        it, a few times."""
        left = [one for one in sources if one.ending in _PARSED]
        found: dict[str, Defined] = {}
        for _ in range(_MOST_STARTS):
            if not left:
                break
            answers = await _parse(left, parsers)
            if answers is None:
                break
            found |= {one.key: named for one, named in zip(left, answers, strict=False)}
            left = left[len(answers) + 1 :]
        return found

    async def _kept(self) -> dict[str, Defined]:
        try:
            content = await Files(self._workspace.outputs, Grant((READ,), paths=(_KEPT,))).read(
                _KEPT
            )
            return msgspec.json.decode(content, type=dict[str, Defined])
        except (CatchableError, OSError, msgspec.MsgspecError, UserError):
            return {}

    async def _keep(self, found: dict[str, Defined], is_new: bool) -> None:
        if is_new:
            recent = dict([*found.items()][-_MOST_KEPT:])
            await self._workspace.keep_output(_KEPT, msgspec.json.encode(recent))


async def _content(files: Files, name: str) -> bytes | None:
    """Return a file; None if it may not be read, is too large, or gone."""
    try:
        return await files.read(name)
    except (CatchableError, OSError):
        return None


# Parsers, in a sandbox.


def parser_folders() -> list[Path]:
    """Return where tree-sitter and its grammars are installed; nothing if one is missing. They are
    not imported here: a broken one breaks nothing but the sandbox."""
    languages = ("python", "javascript", "typescript", "bash")
    specs = [find_spec(name) for name in ("tree_sitter", *(f"tree_sitter_{n}" for n in languages))]
    places = [spec.submodule_search_locations for spec in specs if spec is not None]
    return [Path(place[0]) for place in places if place] if all(specs) else []


async def _parse(sources: list[_Source], parsers: list[Path]) -> list[Defined] | None:
    """Return what the first of these files define, as many as could be parsed; None if nothing can
    be run here."""
    sandboxes = current_sandboxes.get()
    if sandboxes is None:
        return None
    places = sorted({str(folder.parent) for folder in parsers})
    boot = f"import sys; sys.path[:0] = {places!r}\n"
    worker = await asyncio.to_thread(Path(__file__).with_name("map_worker.py").read_text)
    lines = (json.dumps([_PARSED[one.ending], one.text]) for one in sources)
    limits = SandboxLimits(
        wall_ms=1_000 * _PARSE_S + _OVERTIME_MS,
        cpu_s=_PARSE_S,
        memory_bytes=_PARSER_MEMORY,
        kept_bytes=2 * _MOST_IN_ALL,
        output_bytes=2 * _MOST_IN_ALL,
    )
    spec = SandboxSpec(None, writable=False, readable=python_folders(*parsers), limits=limits)
    python = [sys.executable, "-I", "-X", "utf8", "-c", boot + worker]
    try:
        ran = await sandboxes.run(
            ["timeout", "-k", "1", str(_PARSE_S), *python], spec, "\n".join(lines).encode()
        )
    except UserError:
        return None
    return [*_answers(ran.stdout)]


def _answers(text: str) -> Iterator[Defined]:
    """Yield what was answered whole. A parser that a file took over may say anything: what it says
    is names, and shown as such."""
    for line in text.splitlines():
        try:
            yield msgspec.json.decode(line, type=Defined)
        except msgspec.MsgspecError:
            return


# Without a parser.


def _guessed(source: _Source) -> Defined:
    names = re.findall(_PATTERNS[source.ending], source.text, re.MULTILINE)
    return [(name[:80], []) for name in dict.fromkeys(names)]


def _way(guessed: int, files: int, has_parsers: bool) -> str:
    if not guessed:
        return "names by tree-sitter" if files else "no source file"
    if has_parsers:
        return f"names by tree-sitter, in {guessed} of {files} files by regular expressions"
    return "names by regular expressions; better ones: pip install 'vegakit[map]'"


# The drawing: ever less is shown until it fits.


def drawn(path: str, names: Sequence[str], defined: Mapping[str, Defined], way: str) -> str:
    """Return the map: a line a file, in order of their names, in at most 8,000 bytes."""
    head = f"map of {path}: {len(names):,} files, {len(defined):,} of them sources; {way}"
    for most_names, most_members in ((200, 40), (200, 6), (200, 0), (12, 0), (4, 0), (0, 0)):
        lines = [_line(name, defined.get(name), most_names, most_members) for name in names]
        text = "\n".join([head, *lines])
        if len(text.encode()) <= _MOST_SHOWN:
            return text
    return _folders(head, names)


def _line(name: str, defined: Defined | None, most_names: int, most_members: int) -> str:
    clean = "".join(one if one.isprintable() else "?" for one in name)
    if not defined or not most_names:
        return clean
    shown = [
        f"{item}({_some(members, most_members)})" if members and most_members else item
        for item, members in defined
    ]
    return f"{clean}: {_some(shown, most_names)}"


def _some(items: Sequence[str], most: int) -> str:
    more = [f"+{len(items) - most}"] if len(items) > most else []
    return ", ".join([*items[:most], *more])


def _folders(head: str, names: Sequence[str]) -> str:
    """Folders with the number of files below them, as deep as it fits."""
    best = ""
    for depth in range(1, 8):
        counts: dict[str, int] = {}
        for name in names:
            parts = name.split("/")
            folder = "/".join(parts[:-1][:depth]) or "."
            counts[folder] = counts.get(folder, 0) + 1
        lines = [f"{folder}/: {count:,} files" for folder, count in sorted(counts.items())]
        text = "\n".join([f"{head}; too many to name, call it with a path", *lines])
        if len(text.encode()) > _MOST_SHOWN:
            cut = text.encode()[: _MOST_SHOWN - 60].decode(errors="ignore").rpartition("\n")[0]
            return best or f"{cut}\n[more folders; name one in path]"
        if text == best:
            break
        best = text
    return best


_TOLD_MAP = "Draw a map of the project: files with the classes and functions they define."
_TOLD_PATH = "a folder; the workspace"
