"""Tell by the arguments of a tool call what it changed in files, as rows of a diff. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple, cast

from vegakit.errors import ToolFailed
from vegakit.sage import PatchKind, PatchPart, read_patch

_LINES = re.compile(r"at line ([0-9, ]+)")
_DONE = re.compile(r"(?:edited|added|deleted|moved) ")
_COUNTED = re.compile(r": ([0-9,]+) lines?$")
FATE_ADDED, FATE_DELETED = "added", "deleted"
_MOST_COMPARED = 2_000
"""Lines that are compared; a longer change is shown as all out and all in."""


class DiffRow(NamedTuple):
    """A row of a diff: its sign, its line number, and its text. Of a line that stays it is the new
    number, and `old_number` is the one before."""

    sign: str
    number: int
    text: str
    old_number: int = 0


class FileChange(NamedTuple):
    """The change of a file by a tool call: its rows, and what else became of it. Of a file that was
    deleted no rows are known, but how many lines were `lost`."""

    path: str
    rows: tuple[DiffRow, ...]
    fate: str = ""
    lost: int = 0

    @property
    def added(self) -> int:
        """Return how many lines came."""
        return sum(row.sign == "+" for row in self.rows)

    @property
    def removed(self) -> int:
        """Return how many lines went."""
        return self.lost + sum(row.sign == "-" for row in self.rows)


def changes_of(name: str, arguments: object, result: str = "") -> list[FileChange]:
    """Return what a call of a tool that writes has changed, or would change."""
    made = _CHANGES.get(name)
    return [] if made is None else [*made(fields_of(arguments), result)]


def fields_of(arguments: object) -> Mapping[str, Any]:
    """Return the arguments of a call by their names; a model may have sent anything."""
    return cast("Mapping[str, Any]", arguments) if isinstance(arguments, dict) else {}


def edits_of(given: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the replacements of a call of `edit`: those of its list, or the one that it is."""
    several = given.get("edits")
    return [*map(fields_of, cast("list[Any]", several))] if isinstance(several, list) else [given]


def _places(result: str) -> list[int]:
    found = _LINES.search(result)
    return [int(one) for one in found[1].replace(",", " ").split()] if found else []


def whole_lines(arguments: object, result: str, text: str) -> dict[str, Any]:
    """Return the arguments of an edit with whole lines in place of words, by the text of the file
    after it. A replacement whose place in its line is not certain stays as it is."""
    given, lines, places = fields_of(arguments), text.split("\n"), _places(result)
    edits = edits_of(given)
    if len(places) != len(edits):
        return dict(given)
    made = [_widened(one, lines, at) for one, at in zip(edits, places, strict=True)]
    return {**given, "edits": made} if isinstance(given.get("edits"), list) else made[0]


def _widened(edit: Mapping[str, Any], lines: Sequence[str], first: int) -> dict[str, Any]:
    old, new = (str(edit.get(which) or "") for which in ("old", "new"))
    if old.endswith("\n") and new.endswith("\n"):
        old, new = old[:-1], new[:-1]
    there = "\n".join(lines[first - 1 : first + new.count("\n")])
    if not new or there.find(new) != there.rfind(new) or new not in there:
        return dict(edit)
    before, _, after = there.partition(new)
    return {**edit, "old": before + old + after, "new": there}


def _edit(given: Mapping[str, Any], result: str) -> Iterator[FileChange]:
    places, rows = _places(result), list[DiffRow]()
    for at, edit in enumerate(edits_of(given)):
        old, new = (str(edit.get(which) or "") for which in ("old", "new"))
        rows += compared(old, new, places[at] if at < len(places) else 1)
    yield FileChange(str(given.get("path", "")), tuple(rows))


def _write(given: Mapping[str, Any], result: str) -> Iterator[FileChange]:
    del result
    rows = compared("", str(given.get("content") or ""), 1)
    yield FileChange(str(given.get("path", "")), tuple(rows))


def _patch(given: Mapping[str, Any], result: str) -> Iterator[FileChange]:
    try:
        files = read_patch(str(given.get("patch") or ""))
    except ToolFailed:
        return  # it says itself what is wrong with it
    told = result.split("\n")[: len(files)]
    if len(told) < len(files) or not all(map(_DONE.match, told)):
        told = [""] * len(files)
    for file, said in zip(files, told, strict=True):
        match file.kind:
            case PatchKind.ADD:
                yield FileChange(file.path, tuple(compared("", file.text, 1)), FATE_ADDED)
            case PatchKind.DELETE:
                many = _COUNTED.search(said)
                lost = int(many[1].replace(",", "")) if many else 0
                yield FileChange(file.path, (), FATE_DELETED, lost)
            case PatchKind.UPDATE:
                fate = f"moved to {file.target}" if file.target else ""
                yield FileChange(file.path, tuple(_part_rows(file.parts, _places(said))), fate)


def _part_rows(parts: Sequence[PatchPart], places: Sequence[int]) -> Iterator[DiffRow]:
    """Yield the rows of a patched file in the order of its lines. `places` are where the parts were
    in the file before; a part that is further down moved by what came before it."""
    if len(places) != len(parts):
        places = [1] * len(parts)
    moved = 0
    for place, part in sorted(zip(places, parts, strict=True), key=lambda pair: pair[0]):
        old, new = place, place + moved
        for sign, text in part.lines:
            if sign == "-":
                yield DiffRow(sign, old, text)
            else:
                yield DiffRow(sign, new, text, 0 if sign == "+" else old)
            old, new = old + (sign != "+"), new + (sign != "-")
        moved = new - old


_CHANGES = {"edit": _edit, "write": _write, "apply_patch": _patch}


def compared(old: str, new: str, first: int) -> list[DiffRow]:
    """Return the rows that lead from one text to another; the first line has this number."""
    before, after = old.splitlines(), new.splitlines()
    if len(before) + len(after) > _MOST_COMPARED:
        return [*_rows("-", before, first), *_rows("+", after, first)]
    rows: list[DiffRow] = []
    for kind, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            same = enumerate(after[c:d])
            rows += [DiffRow(" ", first + c + n, line, first + a + n) for n, line in same]
            continue
        rows += _rows("-", before[a:b], first + a)
        rows += _rows("+", after[c:d], first + c)
    return rows


def _rows(sign: str, lines: Sequence[str], first: int) -> list[DiffRow]:
    return [DiffRow(sign, first + at, line) for at, line in enumerate(lines)]


def side_by_side(rows: Sequence[DiffRow]) -> list[tuple[DiffRow | None, DiffRow | None]]:
    """Return the rows in two columns: what was on the left, what is on the right."""
    pairs: list[tuple[DiffRow | None, DiffRow | None]] = []
    gone: list[DiffRow] = []
    for row in rows:
        if row.sign == "-":
            gone.append(row)
        elif row.sign == "+" and gone:
            pairs.append((gone.pop(0), row))
        elif row.sign == "+":
            pairs.append((None, row))
        else:
            pairs += [(one, None) for one in gone]
            gone = []
            pairs.append((row._replace(number=row.old_number or row.number), row))
    return pairs + [(one, None) for one in gone]
