"""Tools on files: read, write, edit and apply_patch, each by a confined handle to what is named."""

import hashlib
import re
import time
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from vegakit.errors import CapabilityDenied, LimitReached, ToolFailed
from vegakit.policy import Grant, ReadPath, WritePath
from vegakit.sage.edits import decoded, replace_each
from vegakit.sage.patches import FilePatch, PatchKind, apply_parts, read_patch
from vegakit.sage.skills import SKILLS
from vegakit.sage.tools.workspace import (
    COUNT,
    OUTPUTS,
    READ,
    TEXT,
    WRITE,
    SageTool,
    Workspace,
    grant_for,
    spec_of,
)
from vegakit.tools import Files, ToolArgumentsError, ToolRights

_MOST_LINES, _MOST_SHOWN, _LONGEST_LINE = 2_000, 48_000, 2_000
IMAGE_TYPES = {
    "image/png": re.compile(rb"\x89PNG\r\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF....WEBP", re.DOTALL),
}
"""Images that models take, and how each begins."""
_CHANGED = (
    "; it was changed since you read it, by a command or by the person, and that is kept: read it "
    "again before you go on"
)
_BLANKS_DIFFERED = "; blanks before and after lines differed, and were kept"


class ReadArguments(Struct, forbid_unknown_fields=True):
    """The arguments of `read`."""

    path: str
    start: int = 1
    lines: int = _MOST_LINES


class WriteArguments(Struct, forbid_unknown_fields=True):
    """The arguments of `write`."""

    path: str
    content: str


class FileEdit(Struct, forbid_unknown_fields=True):
    """One edit of several."""

    old: str
    new: str


class EditArguments(Struct, forbid_unknown_fields=True):
    """The arguments of `edit`: one edit, or several."""

    path: str
    old: str | None = None
    new: str | None = None
    edits: list[FileEdit] = []


class PatchArguments(Struct, forbid_unknown_fields=True):
    """The arguments of `apply_patch`."""

    patch: str


class FileTools:
    """The tools on files of a workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._seen: dict[str, bytes] = {}
        """By path: digests of the contents that the agent knows."""
        self._begun_ms = time.time_ns() // 1_000_000

    def tools(self) -> tuple[SageTool, ...]:
        """Return them, always in the same order."""
        return (
            SageTool(
                spec_of("read", _TOLD_READ, {"path": TEXT, "start": COUNT, "lines": COUNT}, "path"),
                ReadArguments,
                self._read,
                lambda given: reads(self._workspace, given.path),
                idempotent=True,
                untrusted=True,
            ),
            SageTool(
                spec_of("write", _TOLD_WRITE, {"path": TEXT, "content": TEXT}, "path content"),
                WriteArguments,
                self._write,
                self._writes,
                idempotent=False,
            ),
            SageTool(
                spec_of("edit", _TOLD_EDIT, _EDIT, "path"),
                EditArguments,
                self._edit,
                self._writes,
                idempotent=False,
            ),
            SageTool(
                spec_of("apply_patch", _TOLD_PATCH, {"patch": TEXT}, "patch"),
                PatchArguments,
                self._patch,
                self._patches,
                idempotent=False,
            ),
        )

    # Rights: each call names its own path, in full. So it reaches hidden files and those that other
    # programs run, as a coding agent must. Names that are protected are refused before: to name one
    # in full would let it be read.

    def _writes(self, given: WriteArguments | EditArguments) -> ToolRights:
        path = self._workspace.relative(given.path)
        return ToolRights((WritePath(path),), grant_for(WRITE, path))

    async def _read(self, given: ReadArguments) -> str:
        content = await self._workspace.content(given.path)
        self._seen[self._workspace.relative(given.path)] = _digest(content)
        if kind := next((k for k, s in IMAGE_TYPES.items() if s.match(content)), ""):
            raise ToolFailed(
                f"{given.path} is an image ({kind}, {len(content):,} bytes), and the result of a "
                "tool is text; let the person send it with a prompt: vega code --resume --image "
                f"{given.path} -p '…'"
            )
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
        path = self._workspace.relative(given.path)
        content = given.content.encode("utf-8", errors="surrogateescape")
        async with self._workspace.writing, self._workspace.changing(path):
            files = Files(self._workspace.folder, grant_for((READ, WRITE), path))
            await self._check_known(files, path, content)
            await files.write(path, content)
            self._seen[path] = _digest(content)
        return f"wrote {path}: {_lines_in(given.content)}, {len(content):,} bytes"

    async def _check_known(self, files: Files, path: str, content: bytes) -> None:
        """Refuse to write over what the agent does not know, a file that it never read or that
        somebody changed since: a whole file says nothing of what it replaces, as an edit does."""
        try:
            found = await files.read(path)
        except ToolFailed:
            return  # it is not there, or no file: nothing is written over
        # Where nothing is lost nobody has to read: a write that was cut off is sent again, and
        # commands make empty files.
        if found in (b"", content) or self._seen.get(path) == _digest(found):
            return
        if path not in self._seen:
            # One that is older than these tools may have been read before a kill, of which they
            # know nothing; and what it was, the model may have been told by the person.
            if (await files.stat(path)).modified_ms < self._begun_ms:
                return
            raise ToolFailed(
                f"{path} was made or changed since this turn began, by a command or by the person, "
                "and you have not read it; read it first, then write it with what changed"
            )
        raise ToolFailed(
            f"{path} was changed since you read it, by a command or by the person; read it "
            "again, and write it with what changed"
        )

    def _news_of(self, path: str, before: bytes) -> str:
        """Return what is told of a file that an edit found otherwise than the agent had read it:
        the place fits, but what stands around it may say something else."""
        is_known = self._seen.get(path) in (None, _digest(before))
        return "" if is_known else _CHANGED

    def _learn(self, path: str, before: bytes, target: str, after: bytes) -> None:
        """Know what an edit left in a file that was known as a whole before."""
        if self._seen.get(path) == _digest(before):
            self._seen[target] = _digest(after)

    async def _edit(self, given: EditArguments) -> str:
        path, edits = self._workspace.relative(given.path), _edits_of(given)
        # Calls of one answer run at once: without the lock the second edit of a file would write
        # what it read before the first.
        async with self._workspace.writing, self._workspace.changing(path):
            files = Files(self._workspace.folder, grant_for((READ, WRITE), path))
            before = await files.read(path)
            made = replace_each(decoded(before, path), edits, path)
            after = made[-1].text.encode()
            await files.write(path, after)
            news = self._news_of(path, before)
            self._learn(path, before, path, after)
        lines = ", ".join(str(one.line) for one in made)
        is_exact = all(one.exact for one in made)
        return f"edited {path} at line {lines}{'' if is_exact else _BLANKS_DIFFERED}{news}"

    # Patches: all is worked out before the first file is written. What fails after that, such as a
    # full disk, is taken back.

    def _patches(self, given: PatchArguments) -> ToolRights:
        try:
            paths = self._paths(read_patch(given.patch))
        except ToolFailed as wrong:
            raise ToolArgumentsError(str(wrong)) from None
        return ToolRights(tuple(map(WritePath, paths)), grant_for(WRITE, *paths))

    def _paths(self, patches: Sequence[FilePatch]) -> list[str]:
        named = [path for one in patches for path in (one.path, one.target) if path]
        return [self._workspace.relative(path) for path in named]

    async def _patch(self, given: PatchArguments) -> str:
        patches = read_patch(given.patch)
        paths = self._paths(patches)
        async with self._workspace.writing, self._workspace.changing(*paths):
            grant = grant_for((READ, WRITE), *paths)
            files = Files(self._workspace.folder, grant)
            changes = [await self._planned(files, one) for one in patches]
            try:
                # Deleted last: a file that was deleted and made again would lose its mode.
                for change in sorted(changes, key=lambda change: change.after is None):
                    await change.make(files)
            except (ToolFailed, CapabilityDenied, LimitReached) as error:
                for change in changes:
                    await change.take_back(files)
                raise ToolFailed(f"{error}. Nothing was changed; send all again") from None
            for change in changes:
                if change.after is None:
                    continue
                target = change.target or change.path
                if change.before is None:
                    self._seen[target] = _digest(change.after)
                else:
                    self._learn(change.path, change.before, target, change.after)
        return "\n".join(change.told for change in changes)

    async def _planned(self, files: Files, patch: FilePatch) -> "_FileChange":
        path = self._workspace.relative(patch.path)
        target = self._workspace.relative(patch.target) if patch.target else ""
        if patch.kind is PatchKind.ADD:
            await _require_free(files, path, "*** Update File: to change it")
            return _FileChange(path, "", None, patch.text.encode(), f"added {path}")
        before = await files.read(path)
        if patch.kind is PatchKind.DELETE:
            lines = _lines_in(before.decode("utf-8", errors="replace"))
            return _FileChange(path, "", before, None, f"deleted {path}: {lines}")
        if target:
            await _require_free(files, target, "another name")
        after, told = before, ""
        if patch.parts:
            made = apply_parts(decoded(before, path), patch.parts, path)
            lines = ", ".join(map(str, made.lines))
            after = made.text.encode()
            told = f"edited {path} at line {lines}{'' if made.exact else _BLANKS_DIFFERED}"
            told += self._news_of(path, before)
        moved = f"moved {path} to {target}" if target else ""
        return _FileChange(path, target, before, after, "; ".join(filter(None, (told, moved))))


class _FileChange(Struct):
    """The change of one file by a patch: what is in it before and after, None where it is not
    there."""

    path: str
    target: str
    before: bytes | None
    after: bytes | None
    told: str
    is_moved: bool = False
    is_made: bool = False

    async def make(self, files: Files) -> None:
        """Change the file. It is moved first, and not written anew, so that it keeps its mode."""
        if self.target:
            await files.move(self.path, self.target)
            self.is_moved = True
        if self.after is None:
            await files.remove(self.path)
        elif self.after != self.before:
            await files.write(self.target or self.path, self.after)
        self.is_made = True

    async def take_back(self, files: Files) -> None:
        """Bring the file into the state that it had before, as far as it was changed."""
        if self.is_moved:
            await files.move(self.target, self.path)
        if not self.is_made:
            return
        if self.before is None:
            await files.remove(self.path)
        elif self.after != self.before:
            await files.write(self.path, self.before)


async def _require_free(files: Files, path: str, instead: str) -> None:
    if await _exists(files, path):
        raise ToolFailed(f"{path} is there already, so nothing was changed; use {instead}")


async def _exists(files: Files, path: str) -> bool:
    try:
        await files.stat(path)
    except ToolFailed:
        return False
    return True


def _edits_of(given: EditArguments) -> list[tuple[str, str]]:
    if given.old is not None and given.new is not None and not given.edits:
        return [(given.old, given.new)]
    if given.edits and given.old is None and given.new is None:
        return [(one.old, one.new) for one in given.edits]
    raise ToolArgumentsError(
        "edit takes old and new for one place, or edits for several; give one of the two"
    )


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


def reads(workspace: Workspace, path: str) -> ToolRights:
    """Return the right to read one path."""
    if path.startswith((OUTPUTS, SKILLS)):
        return ToolRights((), Grant())
    inside = workspace.relative(path)
    return ToolRights((ReadPath(inside),), grant_for(READ, inside))


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


_TOLD_READ = (
    "Read a text file of the workspace, with line numbers. start and lines choose a part. "
    "Also reads @output/ files that shell names, and @skill/ files."
)
_TOLD_WRITE = "Write a whole file; missing folders are made. Prefer edit for a file that exists."
_TOLD_EDIT = (
    "Replace one place of a file, or several by edits, one after the other, all or none. Each old "
    "must fit exactly once: copy it from the file without line numbers, with enough lines around "
    "it."
)
_PLACE = {"old": TEXT, "new": TEXT}
_EDIT: dict[str, Any] = {
    "path": TEXT,
    **_PLACE,
    "edits": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": _PLACE,
            "required": [*_PLACE],
            "additionalProperties": False,
        },
    },
}
_TOLD_PATCH = (
    "Change several files, all or none: *** Begin Patch, for each file *** Update File: path (then "
    "maybe *** Move to: path; lines that stay, go or come with a blank, - or + before them; @@ "
    "with the line that opens a block if they fit twice), *** Add File: path (lines with +) or *** "
    "Delete File: path, *** End Patch."
)
