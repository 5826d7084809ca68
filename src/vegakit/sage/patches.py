"""Read a patch of several files, and change a text by its parts; right, or refused with what to do
(pure).

    *** Begin Patch
    *** Update File: src/a.py      or Add File, Delete File
    *** Move to: src/b.py          only after Update File
    @@ class A:                    the part lies in the block that this line opens
     a line that stays
    -a line that goes
    +a line that comes
    *** End of File                the part is at the end of the file
    *** End Patch

| the lines of a part that stay or go     | then                                              |
|-----------------------------------------|---------------------------------------------------|
| are at one place of the block or file   | that place is changed                             |
| are at several places                   | refused: the lines are named                      |
| are nowhere, but once without regard to | that place is changed; lines that stay are left   |
| trailing blanks, or tabs for blanks, or | as the file has them, those that come are written |
| the form of accents                     | as the file writes its own                        |
| are nowhere                             | refused: the most similar line is named           |

Places are looked for in the file as it is, not one after the other: parts may stand in any order. A
block, and not merely what follows a line: where the place that is meant has changed, the same lines
further down are another place, and a change there is a wrong one.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from vegakit.errors import ToolFailed
from vegakit.sage.edits import (
    TWO_FORMS,
    Indentation,
    alike_lines,
    are_spelled,
    composed,
    indent_of,
    line_ending,
    lines_of,
    other_forms,
    tab_width,
)

_BEGIN, _END, _AT_END = "*** Begin Patch", "*** End Patch", "*** End of File"
_MOVE = "*** Move to: "
PATCHED_PATH = r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.*\S)\s*$"
"""Finds the paths that a patch names: no other line of one begins so."""
_RANGE = re.compile(r"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@.*")
"""A header with line numbers, which models count wrongly: it is passed over."""
_FORMAT = (
    "write *** Begin Patch, then for each file *** Update File: path (or Add File, Delete File) "
    "and its lines, each with a blank, + or - before it, then *** End Patch"
)
_MOST_NAMED, _SHOWN = 5, 80


class PatchKind(StrEnum):
    """The things a patch does to a file."""

    ADD = "Add"
    UPDATE = "Update"
    DELETE = "Delete"


class PatchPart(Struct, frozen=True):
    """A place to change: its lines as (sign, text), within blocks that the anchors open."""

    lines: tuple[tuple[str, str], ...]
    anchors: tuple[str, ...] = ()
    at_end: bool = False

    @property
    def before(self) -> list[str]:
        """Return the lines as they are before the change."""
        return [text for sign, text in self.lines if sign != "+"]


class FilePatch(Struct, frozen=True):
    """The changes of one file. `text` is that of a new one, `target` where it is moved to."""

    kind: PatchKind
    path: str
    parts: tuple[PatchPart, ...] = ()
    text: str = ""
    target: str = ""


class Patched(NamedTuple):
    """The text after a patch, the first line of each place, and whether all of them fit exactly."""

    text: str
    lines: tuple[int, ...]
    exact: bool


# Reading a patch.


def read_patch(text: str) -> tuple[FilePatch, ...]:
    """Return the files of a patch, or raise `ToolFailed` with what is wrong with it."""
    lines = [line.removesuffix("\r") for line in text.strip("\r\n").split("\n")]
    if lines[0].strip() != _BEGIN:
        raise ToolFailed(f"the patch does not begin with {_BEGIN}; {_FORMAT}")
    if lines[-1].strip() != _END:
        raise ToolFailed(
            f"the patch does not end with {_END}, so it may be cut off; send all of it"
        )
    reader = _Reader(lines[:-1])
    files = tuple(reader.files())
    if not files:
        raise ToolFailed(f"the patch names no file; {_FORMAT}")
    named = [path for file in files for path in (file.path, file.target) if path]
    if twice := [path for path in named if named.count(path) > 1]:
        raise ToolFailed(
            f"the patch names {twice[0]} twice; put all its changes below one *** line"
        )
    return files


class _Reader:
    """A patch, read line by line."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines, self._at = lines, 1

    def files(self) -> Iterator[FilePatch]:
        while self._at < len(self._lines):
            line = self._next()
            if not line.strip():
                continue
            head = re.fullmatch(r"\*\*\* (Add|Update|Delete) File: (.*\S)\s*", line)
            if head is None:
                raise self._wrong("is no *** Update File:, *** Add File: or *** Delete File:")
            kind, path = PatchKind(head[1]), head[2]
            match kind:
                case PatchKind.ADD:
                    yield FilePatch(kind, path, text=self._new_text())
                case PatchKind.DELETE:
                    yield FilePatch(kind, path)
                case PatchKind.UPDATE:
                    yield self._update(path)

    def _update(self, path: str) -> FilePatch:
        target = ""
        if self._is_next(_MOVE):
            target = self._next().removeprefix(_MOVE).strip()
        parts = tuple(self._parts())
        if not parts and not target:
            raise self._wrong(f"is followed by no change of {path}")
        return FilePatch(PatchKind.UPDATE, path, parts, target=target)

    def _new_text(self) -> str:
        made: list[str] = []
        while self._at < len(self._lines) and not self._is_next("*** "):
            line = self._next()
            if line.startswith("+"):
                made.append(f"{line[1:]}\n")
            elif line:
                raise self._wrong("is a line of a new file, and has no + before it")
        return "".join(made)

    def _parts(self) -> Iterator[PatchPart]:
        anchors: list[str] = []
        lines: list[tuple[str, str]] = []
        while self._at < len(self._lines):
            if self._is_next(_AT_END):
                self._next()
                yield self._part(lines, anchors, at_end=True)
                lines, anchors = [], []
            elif self._is_next("*** "):
                break
            elif self._is_next("@@"):
                if lines:
                    yield self._part(lines, anchors)
                    lines, anchors = [], []
                header = self._next()
                anchor = "" if _RANGE.fullmatch(header) else header[2:].strip()
                anchors += [anchor] if anchor else []
            else:
                lines.append(self._signed(self._next()))
        if lines or anchors:
            yield self._part(lines, anchors)

    def _signed(self, line: str) -> tuple[str, str]:
        if not line:
            return "", ""  # Editors and models drop the blank before an empty line.
        if line[0] not in " +-":
            raise self._wrong("has neither a blank, + nor - before it")
        return line[0], line[1:]

    def _part(
        self, lines: list[tuple[str, str]], anchors: list[str], *, at_end: bool = False
    ) -> PatchPart:
        # An empty line at the end of a part only sets it off from the next one.
        while lines and lines[-1] == ("", ""):
            lines.pop()
        signed = tuple((sign or " ", text) for sign, text in lines)
        if not any(sign != " " for sign, _ in signed):
            raise self._wrong("ends a part that changes nothing; mark lines with + or -")
        return PatchPart(signed, tuple(anchors), at_end)

    def _is_next(self, start: str) -> bool:
        return self._at < len(self._lines) and self._lines[self._at].startswith(start)

    def _next(self) -> str:
        self._at += 1
        return self._lines[self._at - 1]

    def _wrong(self, why: str) -> ToolFailed:
        line = self._lines[self._at - 1]
        return ToolFailed(f"line {self._at} of the patch, {line[:_SHOWN]!r}, {why}; {_FORMAT}")


# Changing a text.


class _Place(NamedTuple):
    """Where a part fits, and the lines to write there, by the sign of each."""

    at: int
    lines: tuple[tuple[str, str], ...]
    exact: bool


def apply_parts(text: str, parts: Sequence[PatchPart], path: str) -> Patched:
    """Change all places of a text at once, or raise `ToolFailed` with what to do instead."""
    file = _File(text, path)
    places = [file.place_of(part, number) for number, part in enumerate(parts, 1)]
    gone: dict[int, int] = {}
    come: dict[int, list[str]] = {}
    held: dict[int, set[int]] = {}
    for number, place in enumerate(places):
        at, mine = place.at, set[int]()
        for sign, line in place.lines:
            if sign == "+":
                if at in come and at not in mine:
                    raise _overlapping(path, at)
                mine.add(at)
                come.setdefault(at, []).append(line)
                continue
            held.setdefault(at, set()).add(number)
            if sign == "-":
                gone[at] = number
            at += 1
    if clash := [at for at in gone if len(held[at]) > 1]:
        raise _overlapping(path, clash[0])
    made = file.changed(gone.keys(), come)
    if made == text:
        raise ToolFailed(f"the patch leaves {path} as it is; say what is to change")
    return Patched(made, tuple(p.at + 1 for p in places), all(p.exact for p in places))


class _File:
    """The lines of a file, and where parts of a patch fit in it."""

    def __init__(self, text: str, path: str) -> None:
        self._lines, self._path = lines_of(text), path
        self._bare = [line.removesuffix("\n").removesuffix("\r") for line in self._lines]
        self._composed = [composed(line) for line in self._bare]
        self._ending = line_ending(text) or "\n"
        self._is_ended = not self._lines or self._lines[-1].endswith("\n")

    def changed(self, gone: Collection[int], come: dict[int, list[str]]) -> str:
        """Return the text without some lines and with others before those of these numbers. A
        newline that is missing at the end stays missing."""
        made: list[tuple[str, str]] = []
        for at in range(len(self._lines) + 1):
            near = self._lines[max(at - 1, 0)] if self._lines else ""
            ending = line_ending(near) or self._ending
            made += [(line, ending) for line in come.get(at, ())]
            if at < len(self._lines) and at not in gone:
                bare = self._bare[at]
                made.append((bare, self._lines[at][len(bare) :] or self._ending))
        if made and not self._is_ended:
            made[-1] = (made[-1][0], "")
        return "".join(line + ending for line, ending in made)

    def place_of(self, part: PatchPart, number: int) -> _Place:
        """Return the one place where a part fits."""
        before = part.before
        if not before:
            if part.at_end:
                return _Place(len(self._lines), part.lines, exact=True)
            raise ToolFailed(
                f"part {number} for {self._path} has no line that is there already, so nobody "
                "knows where it belongs; add a line before or after it, with a blank before it"
            )
        span = self._span(part, number)
        if found := self._within(self._exact(before), span, part):
            return _Place(self._single(found, number, ""), part.lines, exact=True)
        loose = self._loose(before)
        found = self._within(list(loose), span, part)
        if not found:
            raise self._missing(part, number)
        at = self._single(found, number, " if blanks are passed over")
        there = self._lines[at : at + len(before)]
        for lines in (part.lines, *_in_other_forms(part.lines)):
            old = [text for sign, text in lines if sign != "+"]
            if are_spelled(there, old):
                indentation = Indentation(there, old, loose[at])
                made = tuple((s, indentation.of(t) if s == "+" else t) for s, t in lines)
                return _Place(at, made, exact=False)
        raise ToolFailed(
            f"part {number} for {self._path}: accents are written in two ways at line {at + 1}; "
            f"{TWO_FORMS}"
        )

    def _exact(self, before: Sequence[str]) -> list[int]:
        """Return where lines stand, with all places that look the same: one of them may be meant.
        Empty if none has the very characters."""
        size, sought = len(before), [composed(line) for line in before]
        ends = range(len(self._bare) - size + 1)
        found = [at for at in ends if self._composed[at : at + size] == sought]
        is_there = any(self._bare[at : at + size] == before for at in found)
        return found if is_there else []

    def _loose(self, before: Sequence[str]) -> dict[int, int]:
        """Return where lines fit without regard to blanks at their ends and tabs for blanks, with
        the width of a tab there."""
        size = len(before)
        widths = {
            at: tab_width(self._lines[at : at + size], before)
            for at in alike_lines(self._lines, before)
        }
        return {at: width for at, width in widths.items() if width}

    def _single(self, found: Sequence[int], number: int, how: str) -> int:
        if len(found) > 1:
            named = ", ".join(str(at + 1) for at in found[:_MOST_NAMED])
            raise ToolFailed(
                f"part {number} fits {len(found)} places of {self._path}{how}, at lines {named}; "
                "add lines that stay around it, or @@ with the line that opens its block"
            )
        return found[0]

    # Blocks.

    def _within(self, places: Sequence[int], span: range, part: PatchPart) -> list[int]:
        size = len(part.before)
        if part.at_end:
            places = [at for at in places if at + size == len(self._lines)]
        return [at for at in places if span.start <= at and at + size <= span.stop]

    def _span(self, part: PatchPart, number: int) -> range:
        """Return the lines that a part may lie in: all, or the block that its anchors open. Each
        of them must open one block: of two, the one that is meant may have changed."""
        span = range(len(self._lines))
        for anchor in part.anchors:
            opened = self._opened(span, anchor)
            named = f"part {number} for {self._path}: "
            if not opened:
                raise ToolFailed(
                    f"{named}no line is {anchor[:_SHOWN]!r}, as its @@ says; the file may have "
                    "changed: read it again, and copy the line"
                )
            if len(opened) > 1:
                lines = ", ".join(str(at + 1) for at in opened[:_MOST_NAMED])
                raise ToolFailed(
                    f"{named}{anchor[:_SHOWN]!r} is at lines {lines}; put an @@ line with what is "
                    "around it, such as its class, before it, or more lines that stay"
                )
            span = self._block(opened[0])
        return span

    def _opened(self, span: range, anchor: str) -> list[int]:
        for words in (anchor, *(form(anchor) for form in other_forms(anchor))):
            if found := [at for at in span if self._bare[at].strip() == words]:
                return found
            if found := [at for at in span if _is_start(words, self._bare[at].strip())]:
                return found
        return []

    def _block(self, at: int) -> range:
        """Return the lines of the block that a line opens, with that line."""
        depth = len(indent_of(self._bare[at]).expandtabs())
        end = at + 1
        while end < len(self._bare):
            line = self._bare[end]
            ends = len(indent_of(line).expandtabs()) <= depth and line.strip()
            # A bracket that closes the head of a block, or opens its body, is a part of it.
            if ends and line.strip()[0] not in "{)]}":
                break
            end += 1
        return range(at, end)

    # Why a part is refused, and what to do.

    def _missing(self, part: PatchPart, number: int) -> ToolFailed:
        before = part.before
        elsewhere = self._exact(before) or list(self._loose(before))
        named = f"part {number} is not in {self._path}"
        if elsewhere and (part.anchors or part.at_end):
            limit = (
                "at the end of the file"
                if part.at_end
                else f"in the block of @@ {part.anchors[-1]}"
            )
            return ToolFailed(
                f"{named} {limit[:_SHOWN]}: its lines are at line {elsewhere[0] + 1}; the file may "
                "have changed: read it again, and name the block that it is in, or leave that out"
            )
        first = next((line.strip() for line in before if line.strip()), "")
        like = [at for at, line in enumerate(self._bare, 1) if first and first in line]
        where = (
            f"line {like[0]} holds its first line, and what is around it differs"
            if like
            else f"no line holds {first[:_SHOWN]!r}"
        )
        return ToolFailed(
            f"{named}: {where}; the file may have changed: read it again, and copy the lines that "
            "stay and go exactly"
        )


def _in_other_forms(
    lines: Sequence[tuple[str, str]],
) -> Iterator[tuple[tuple[str, str], ...]]:
    for form in other_forms("\n".join(text for sign, text in lines if sign != "+")):
        yield tuple((sign, form(text)) for sign, text in lines)


def _is_start(anchor: str, line: str) -> bool:
    """Whether a line begins with these words; `class A` does not begin `class Ab`."""
    rest = line.removeprefix(anchor)
    return rest != line and not (rest[:1].isalnum() or rest[:1] == "_")


def _overlapping(path: str, at: int) -> ToolFailed:
    return ToolFailed(
        f"two parts of the patch change {path} at line {at + 1}; join them to one part"
    )
