"""The tools of the coding agent: files by confined handles, searches and commands in the sandbox.

| tool        | reaches the disk by                                         | done again?     |
|-------------|-------------------------------------------------------------|-----------------|
| read        | `Files` with the one path that is named                     | after a crash   |
| write, edit | the same, and one at a time: an edit reads what it replaces | never by itself |
| glob, grep  | `find` and `grep` in the sandbox of the shell               | after a crash   |
| shell       | the sandbox: the workspace is writable, there is no network | never by itself |
| todo        | nothing                                                     | after a crash   |

Schemas are written by hand: they are a part of every request, so each word counts.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from vegakit.conversation import ToolSpec
from vegakit.errors import InvalidRuleError, ToolFailed
from vegakit.policy import (
    Grant,
    ReadPath,
    RunCommand,
    WritePath,
    mark_untrusted,
    sanitise,
)
from vegakit.ports import CommandResult, Tool
from vegakit.records import digest128
from vegakit.sage.edits import decoded, replace_once
from vegakit.tools import (
    Files,
    SandboxLimits,
    SandboxSpec,
    ToolArgumentsError,
    ToolRights,
    current_effect,
    current_sandboxes,
    is_protected,
)

_READ, _WRITE, _EXEC = "fs::read", "fs::write", "process::exec"
_MOST_LINES, _MOST_SHOWN, _LONGEST_LINE = 2_000, 48_000, 2_000
_MOST_PATHS, _MOST_MATCHES, _LONGEST_MATCH = 500, 200, 300
_OUTPUT_SHOWN = 16_000
"""What a model is shown at once. All of it is paid for again with each later request of the
session, so the rest is left to be asked for."""
_OUTPUT_BYTES = 64_000_000
_WALL_S, _USUAL_S = 600, 120
_SEARCH_S = 30
_OUTPUTS = "@output/"
"""What the whole output of a command is called. No file of a workspace has such a name: a first
`@` is refused there."""
_PASSED_OVER = (
    ".git .hg .svn node_modules .venv venv __pycache__ .mypy_cache .pytest_cache .ruff_cache .tox"
).split()
_OVERTIME = 124
"""The exit code of `timeout` when it has ended its command."""


class ReadArguments(Struct, forbid_unknown_fields=True):
    """The arguments of `read`."""

    path: str
    start: int = 1
    lines: int = _MOST_LINES


class WriteArguments(Struct, forbid_unknown_fields=True):
    """The arguments of `write`."""

    path: str
    content: str


class EditArguments(Struct, forbid_unknown_fields=True):
    """The arguments of `edit`."""

    path: str
    old: str
    new: str


class GlobArguments(Struct, forbid_unknown_fields=True):
    """The arguments of `glob`."""

    pattern: str
    path: str = "."


class GrepArguments(Struct, forbid_unknown_fields=True):
    """The arguments of `grep`."""

    pattern: str
    path: str = "."
    files: str = ""
    ignore_case: bool = False


class ShellArguments(Struct, forbid_unknown_fields=True):
    """The arguments of `shell`."""

    command: str
    timeout_s: int = _USUAL_S


class TodoItem(Struct, forbid_unknown_fields=True):
    """A step of the plan of an agent."""

    text: str
    done: bool = False


class TodoArguments(Struct, forbid_unknown_fields=True):
    """The arguments of `todo`."""

    items: list[TodoItem]


Run: TypeAlias = Callable[[Any], Awaitable[str]]
Rights: TypeAlias = Callable[[Any], ToolRights]


class SageTool:
    """A tool whose arguments are a record. `untrusted` says that it gives on what others wrote."""

    def __init__(
        self,
        spec: ToolSpec,
        arguments: type[Struct],
        run: Run,
        rights: Rights,
        *,
        idempotent: bool,
        untrusted: bool = False,
        timeout_ms: int = 60_000,
    ) -> None:
        self.spec, self.idempotent, self.timeout_ms = spec, idempotent, timeout_ms
        self.returns_untrusted_text = untrusted
        self._arguments, self._run, self._rights = arguments, run, rights

    def rights(self, arguments: Mapping[str, Any]) -> ToolRights:
        """Return what this call wants of the world: its own path or command, and nothing else."""
        return self._rights(self._checked(arguments))

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        """Carry out the call."""
        del deps
        return await self._run(self._checked(arguments))

    def _checked(self, arguments: Mapping[str, Any]) -> Struct:
        try:
            return msgspec.convert(dict(arguments), self._arguments)
        except msgspec.ValidationError as error:
            known = ", ".join(self._arguments.__struct_fields__)
            raise ToolArgumentsError(
                f"the arguments of {self.spec.name} are wrong: {error}; it takes: {known}"
            ) from None


class Workspace:
    """The folder of a session, and what its tools do there. `outputs` is where long outputs of
    commands are kept whole; within `changing` a tool changes files."""

    def __init__(
        self, folder: Path, outputs: Path, changing: Callable[[], AbstractAsyncContextManager[None]]
    ) -> None:
        self.folder = folder.resolve()
        self._changing = changing
        self._outputs = outputs
        self._writing = asyncio.Lock()
        self._shell = "bash" if Path("/bin/bash").exists() else "sh"

    def tools(self) -> tuple[Tool, ...]:
        """Return the tools, always in the same order: they are a part of the prefix of a request
        that a provider caches."""
        return tuple(
            SageTool(
                ToolSpec(name, _DESCRIPTIONS[name], _schema(name)),
                arguments,
                run,
                rights,
                idempotent=idempotent,
                untrusted=untrusted,
                timeout_ms=1000 * ((_WALL_S if run == self._run_shell else _SEARCH_S) + 30),
            )
            for name, arguments, run, rights, idempotent, untrusted in (
                ("read", ReadArguments, self._read, self._reads, True, True),
                ("write", WriteArguments, self._write, self._writes, False, False),
                ("edit", EditArguments, self._edit, self._writes, False, False),
                ("glob", GlobArguments, self._glob, self._reads, True, True),
                ("grep", GrepArguments, self._grep, self._reads, True, True),
                ("shell", ShellArguments, self._run_shell, self._executes, False, False),
                ("todo", TodoArguments, _todo, _nothing, True, False),
            )
        )

    # Rights: each call names its own path, in full. So it reaches hidden files and those that other
    # programs run, as a coding agent must. Names that are protected are refused before: to name one
    # in full would let it be read.

    def _reads(self, given: ReadArguments | GlobArguments | GrepArguments) -> ToolRights:
        if given.path.startswith(_OUTPUTS):
            return ToolRights((), Grant())
        path = self.relative(given.path)
        return ToolRights((ReadPath(path),), _grant(_READ, path))

    def _writes(self, given: WriteArguments | EditArguments) -> ToolRights:
        path = self.relative(given.path)
        return ToolRights((WritePath(path),), _grant(_WRITE, path))

    def _executes(self, given: ShellArguments) -> ToolRights:
        wanted = RunCommand((self._shell, "-c", given.command))
        grant = Grant((_EXEC,), commands=(f"{self._shell} ***",))
        return ToolRights((wanted,), grant, sandboxed=True)

    def relative(self, path: str) -> str:
        """Return a path from the workspace; models like to name whole paths."""
        inside = path.removeprefix(f"{self.folder}/")
        return "." if path == str(self.folder) else inside

    async def _content(self, path: str) -> bytes:
        if path.startswith(_OUTPUTS):
            name = path.removeprefix(_OUTPUTS)
            return await Files(
                self._outputs, Grant((_READ,), paths=("*",)), max_bytes=_OUTPUT_BYTES
            ).read(name)
        clean = self.relative(path)
        return await Files(self.folder, _grant(_READ, clean)).read(clean)

    # Files.

    async def _read(self, given: ReadArguments) -> str:
        content = await self._content(given.path)
        if b"\0" in content[:8192]:
            raise ToolFailed(
                f"{given.path} is no text ({len(content):,} bytes); look at it by a command of the "
                "shell tool"
            )
        text = content.decode("utf-8", errors="replace")
        lines = text.split("\n")
        if lines[-1] == "":
            lines.pop()
        if given.start < 1 or (given.start > len(lines) and lines):
            raise ToolFailed(
                f"{given.path} has {len(lines):,} lines; start is from 1 to {len(lines)}"
            )
        return _numbered(given, lines, text)

    async def _write(self, given: WriteArguments) -> str:
        path = self.relative(given.path)
        content = given.content.encode("utf-8", errors="surrogateescape")
        async with self._writing, self._changing():
            await Files(self.folder, _grant(_WRITE, path)).write(path, content)
        return f"wrote {path}: {_lines_in(given.content)}, {len(content):,} bytes"

    async def _edit(self, given: EditArguments) -> str:
        path = self.relative(given.path)
        # Calls of one answer run at once: without the lock the second edit of a file would write
        # what it read before the first.
        async with self._writing, self._changing():
            files = Files(self.folder, _grant((_READ, _WRITE), path))
            text = decoded(await files.read(path), path)
            made = replace_once(text, given.old, given.new, path)
            await files.write(path, made.text.encode())
        how = "" if made.exact else "; blanks before and after lines differed, and were kept"
        return f"edited {path} at line {made.line}{how}"

    # Searches.

    async def _glob(self, given: GlobArguments) -> str:
        fits = re.compile(_regex(given.pattern))
        path = self.relative(given.path)
        pruned = [word for name in _PASSED_OVER for word in ("-o", "-name", name)][1:]
        ran = await self._search(
            ["find", f"./{path}", "(", *pruned, ")", "-prune", "-o", "-type", "f", "-print0"]
        )
        base = "" if path == "." else f"{path}/"
        names = (str(Path(name)) for name in ran.stdout.split("\0") if name)
        found = sorted(name for name in names if fits.fullmatch(name.removeprefix(base)))
        if not found:
            return f"no file fits {given.pattern} in {path}"
        more = len(found) - _MOST_PATHS
        cut = [f"[{more:,} more; narrow the pattern]"] if more > 0 else []
        return "\n".join([*found[:_MOST_PATHS], *cut])

    async def _grep(self, given: GrepArguments) -> str:
        path = self.relative(given.path)
        options = [f"--exclude-dir={name}" for name in _PASSED_OVER]
        options += [f"--include={given.files}"] if given.files else []
        options += ["-i"] if given.ignore_case else []
        # Not Python's own: a pattern that goes back and forth would hold the whole process.
        ran = await self._search(
            ["grep", "-rnIE", *options, "-e", given.pattern, "--", f"./{path}"]
        )
        if ran.exit_code > 1 and not ran.stdout:
            raise ToolFailed(f"grep: {ran.stderr.strip()[:_LONGEST_MATCH]}; correct the pattern")
        found = sorted(
            (line.removeprefix("./")[:_LONGEST_MATCH] for line in ran.stdout.splitlines()),
            key=_place_of,
        )
        if not found:
            return f"nothing in {path} fits {given.pattern}"
        more = len(found) - _MOST_MATCHES
        cut = [f"[{more:,} more; narrow the pattern, the path or files]"] if more > 0 else []
        return "\n".join([*found[:_MOST_MATCHES], *cut])

    async def _search(self, argv: list[str]) -> CommandResult:
        ran = await self._in_sandbox(["timeout", "-k", "1", str(_SEARCH_S), *argv])
        if ran.exit_code == _OVERTIME:
            raise ToolFailed(f"the search took longer than {_SEARCH_S} s; name a folder in path")
        return ran

    # Commands.

    async def _run_shell(self, given: ShellArguments) -> str:
        limit = min(max(given.timeout_s, 1), _WALL_S)
        async with self._changing():
            ran = await self._in_sandbox(
                ["timeout", "-k", "1", str(limit), self._shell, "-c", given.command]
            )
        # Without the time it took: an equal result of an equal command must be equal text, or
        # nobody could tell that an agent goes round in a circle.
        shown = [
            f"{name}:\n{mark_untrusted(sanitise(await self._capped(name, text)))}"
            for name, text in (("stdout", ran.stdout), ("stderr", ran.stderr))
            if text.strip()
        ]
        late = [f"ended after {limit} s"] if ran.exit_code == _OVERTIME else []
        return "\n".join([*shown, *ran.notes, *late, f"exit code {ran.exit_code}"])

    async def _capped(self, stream: str, text: str) -> str:
        """Return the beginning and the end of a long output, and keep the whole of it."""
        text = text.rstrip()
        if len(text) <= _OUTPUT_SHOWN:
            return text
        name, half = f"{digest128([current_effect.get(), stream])[:12]}.txt", _OUTPUT_SHOWN // 2
        await asyncio.to_thread(self._outputs.mkdir, mode=0o700, parents=True, exist_ok=True)
        files = Files(self._outputs, Grant((_WRITE,), paths=("*",)), max_bytes=4 * _OUTPUT_BYTES)
        await files.write(name, text.encode("utf-8", errors="replace"))
        left = f"[{len(text) - _OUTPUT_SHOWN:,} characters left out; all is in {_OUTPUTS}{name}"
        return f"{text[:half]}\n{left}: read it with start and lines]\n{text[-half:]}"

    async def _in_sandbox(self, argv: list[str]) -> CommandResult:
        sandboxes = current_sandboxes.get()
        if sandboxes is None:
            raise ToolFailed("no command is run: tools of a session are called by its runtime only")
        limits = SandboxLimits(
            wall_ms=(_WALL_S + 10) * 1000,
            memory_bytes=4 << 30,
            output_bytes=_OUTPUT_BYTES,
            kept_bytes=2 * _OUTPUT_BYTES,
        )
        # One and the same for searches and commands: two sandboxes over one workspace would take
        # each other's guards away.
        return await sandboxes.run(argv, SandboxSpec(self.folder, limits=limits))


def _grant(capabilities: str | tuple[str, ...], path: str) -> Grant:
    """Return the right to one path, named in full. What is no clean path fits no rule, and whoever
    decides says why."""
    if is_protected(path):
        raise ToolArgumentsError(
            f"{path[:80]!a} is out of reach: it holds secrets, or other programs trust what it "
            "says; leave it, or tell the person what to change there"
        )
    named = (capabilities,) if isinstance(capabilities, str) else capabilities
    try:
        return Grant(named, paths=(path,))
    except InvalidRuleError:
        return Grant(named, paths=("**",))


def _nothing(_: TodoArguments) -> ToolRights:
    return ToolRights(())


def _numbered(given: ReadArguments, lines: list[str], text: str) -> str:
    first = given.start - 1
    wanted = lines[first : first + max(1, min(given.lines, _MOST_LINES))]
    shown: list[str] = []
    size = 0
    for number, line in enumerate(wanted, given.start):
        row = f"{number}\t{_cut(line.rstrip(chr(13)))}"
        size += len(row) + 1
        if size > _MOST_SHOWN:
            break
        shown.append(row)
    last = first + len(shown)
    facts = ["CRLF line endings"] if "\r\n" in text else []
    facts += [] if text.endswith("\n") or not text else ["no newline at the end"]
    if last < len(lines):
        facts.append(f"go on with start={last + 1}")
    told = f" ({'; '.join(facts)})" if facts else ""
    span = f"lines {given.start}-{last} of {len(lines):,}" if lines else "empty"
    return "\n".join([f"{given.path}: {span}{told}", *shown])


def _cut(line: str) -> str:
    if len(line) <= _LONGEST_LINE:
        return line
    return f"{line[:_LONGEST_LINE]}[{len(line) - _LONGEST_LINE:,} more characters in this line]"


def _lines_in(text: str) -> str:
    count = text.count("\n") + (not text.endswith("\n") and text != "")
    return "1 line" if count == 1 else f"{count:,} lines"


def _place_of(line: str) -> tuple[str, int]:
    path, _, rest = line.partition(":")
    number = rest.partition(":")[0]
    return path, int(number) if number.isdigit() else 0


def _regex(pattern: str) -> str:
    """Return a glob as a regular expression: `**` is any number of folders, `{a,b}` one of them."""
    made, at, depth = "", 0, 0
    while at < len(pattern):
        if pattern.startswith("**/", at):
            made, at = f"{made}(?:.*/)?", at + 3
            continue
        if pattern.startswith("**", at):
            made, at = f"{made}.*", at + 2
            continue
        character = pattern[at]
        depth += (character == "{") - (character == "}")
        inside = {"{": "(?:", "}": ")", ",": "|" if depth else ","}
        made += {"*": "[^/]*", "?": "[^/]", **inside}.get(character, re.escape(character))
        at += 1
    if depth:
        raise ToolFailed(f"the pattern {pattern} has a brace without its other; write {{a,b}}")
    return made


async def _todo(given: TodoArguments) -> str:
    rows = [f"[{'x' if item.done else ' '}] {item.text}" for item in given.items]
    return "\n".join(rows) or "the list is empty"


_DESCRIPTIONS = {
    "read": (
        "Read a text file of the workspace, with line numbers. start and lines choose a part. "
        "Also reads @output/ files that shell names."
    ),
    "write": "Write a whole file; missing folders are made. Prefer edit for a file that exists.",
    "edit": (
        "Replace one place of a file. old must fit exactly once: copy it from the file without "
        "line numbers, with enough lines around it."
    ),
    "glob": "List files by a pattern such as **/*.py or src/**/*.{ts,js}.",
    "grep": "Search file contents by an extended regular expression (grep -E).",
    "shell": (
        "Run a command line in a sandbox: the workspace is writable, .git is read-only, there is "
        "no network. Long output is cut, and kept whole in a file."
    ),
    "todo": "Keep the list of steps of a longer task: send the whole list each time.",
}
_TEXT, _COUNT = {"type": "string"}, {"type": "integer", "minimum": 1}
_PROPERTIES: dict[str, tuple[dict[str, Any], str]] = {
    "read": ({"path": _TEXT, "start": _COUNT, "lines": _COUNT}, "path"),
    "write": ({"path": _TEXT, "content": _TEXT}, "path content"),
    "edit": ({"path": _TEXT, "old": _TEXT, "new": _TEXT}, "path old new"),
    "glob": (
        {"pattern": _TEXT, "path": {**_TEXT, "description": "a folder; the workspace"}},
        "pattern",
    ),
    "grep": (
        {
            "pattern": _TEXT,
            "path": {**_TEXT, "description": "a file or folder; the workspace"},
            "files": {**_TEXT, "description": "only names that fit, such as *.py"},
            "ignore_case": {"type": "boolean"},
        },
        "pattern",
    ),
    "shell": (
        {
            "command": _TEXT,
            "timeout_s": {**_COUNT, "maximum": _WALL_S, "description": f"{_USUAL_S} if not given"},
        },
        "command",
    ),
    "todo": (
        {
            "items": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"text": _TEXT, "done": {"type": "boolean"}},
                    "required": ["text"],
                    "additionalProperties": False,
                },
            }
        },
        "items",
    ),
}


def _schema(name: str) -> dict[str, Any]:
    properties, required = _PROPERTIES[name]
    return {
        "type": "object",
        "properties": properties,
        "required": required.split(),
        "additionalProperties": False,
    }
