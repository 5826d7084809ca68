"""Replace one place in a text: exactly, or by whole lines that differ in trailing blanks or in tabs
and blanks before them; right, or refused with what to do (pure).

| the old text                                  | then                                          |
|-----------------------------------------------|-----------------------------------------------|
| fits at one place, line endings aside         | that place is replaced                        |
| fits at several places                        | refused: the lines are named                  |
| fits nowhere, but once as whole lines without | those lines are replaced; lines that the edit |
| regard to trailing blanks, and to whether     | does not change stay as the file has them     |
| tabs or blanks indent them                    |                                               |
| fits nowhere                                  | refused: the most similar line is named       |

Line endings, a missing final newline and tabs stay as the file has them. Blanks inside a line are
never passed over: they may stand in a string, and an edit that changes one unasked is a wrong edit.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from vegakit.errors import ToolFailed

_SHOWN = 80
_MOST_NAMED = 5
_BLANKS = " \t\r\n"
_INDENTED = re.compile(r"[ \t]*")


class Edited(NamedTuple):
    """The text after an edit, the first line that changed, and whether blanks were passed over."""

    text: str
    line: int
    exact: bool


def decoded(content: bytes, path: str) -> str:
    """Return a file as text; one that is not UTF-8 is refused, since it could not be written back
    as it was."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ToolFailed(
            f"{path} is not UTF-8 text (byte {error.start:,} of {len(content):,}); change it by a "
            "command of the shell tool"
        ) from None


def replace_once(text: str, old: str, new: str, path: str) -> Edited:
    """Replace the one place where `old` stands, or raise `ToolFailed` with what to do instead."""
    old, new = (part.replace("\r\n", "\n") for part in (old, new))
    if not old:
        raise ToolFailed("old is empty; copy the lines to replace, or use write for a new file")
    if old == new:
        raise ToolFailed("old and new are the same, so nothing would change; say what is to change")
    plain = text.replace("\r\n", "\n")
    found = _places(plain, old)
    if len(found) > 1:
        raise _ambiguous(plain, found, path)
    if found:
        return _exact(text, plain, found[0], old, new)
    return _by_lines(text, old, new, path)


def _places(text: str, part: str) -> list[int]:
    """Return where a part begins. Places that overlap count, too: `aa` stands twice in `aaa`."""
    found: list[int] = []
    at = text.find(part)
    while at >= 0:
        found.append(at)
        at = text.find(part, at + 1)
    return found


def _exact(text: str, plain: str, at: int, old: str, new: str) -> Edited:
    start, end = (_place_in(text, plain, place) for place in (at, at + len(old)))
    ending = _ending_of(text[start:end]) or _ending_of(text) or "\n"
    made = text[:start] + new.replace("\n", ending) + text[end:]
    return Edited(made, plain.count("\n", 0, at) + 1, exact=True)


def _place_in(text: str, plain: str, at: int) -> int:
    """Return where a place of the text without carriage returns is in the text with them."""
    lines_before = plain.count("\n", 0, at)
    return at + sum(line.endswith("\r") for line in text.split("\n")[:lines_before])


def _ending_of(text: str) -> str:
    """Return the line ending that most lines have; empty if there is none."""
    windows = text.count("\r\n")
    others = text.count("\n") - windows
    if not windows and not others:
        return ""
    return "\r\n" if windows > others else "\n"


# Whole lines, without regard to trailing blanks and to whether tabs or blanks indent them.
#
# Not without regard to how deep they are indented: where the place that is meant has changed, the
# same words at another depth are another place, and an edit there is a wrong edit.


_USUAL_WIDTH, _OTHER_WIDTHS = 4, (8, 2)


def _by_lines(text: str, old: str, new: str, path: str) -> Edited:
    wanted, given = old.split("\n"), new.split("\n")
    if wanted[-1] == "" and len(wanted) > 1:
        if given[-1] != "":
            raise _missing(text, wanted, path)
        # Both end with a line ending: the lines are meant, and not the beginning of the next one.
        wanted.pop()
        given.pop()
    lines, size = _lines(text), len(wanted)
    bare = [line.strip(_BLANKS) for line in lines]
    sought = [line.strip(_BLANKS) for line in wanted]
    places = [at for at in range(len(lines) - size + 1) if bare[at : at + size] == sought]
    found = {
        at: width
        for at in places
        if any(sought) and (width := _tab_width(lines[at : at + size], wanted))
    }
    if len(found) > 1:
        numbers = ", ".join(str(at + 1) for at in [*found][:_MOST_NAMED])
        raise ToolFailed(
            f"old fits {len(found)} places of {path} if blanks are passed over, at lines {numbers}"
            "; copy the lines exactly, with lines around them, so that they fit once"
        )
    for at, width in found.items():
        there, ending = lines[at : at + size], _ending_of(text) or "\n"
        made = _joined(there, wanted, given, _Indentation(there, wanted, width), ending)
        return Edited("".join([*lines[:at], *made, *lines[at + size :]]), at + 1, exact=False)
    raise _unlike(path, places[0] + 1) if places else _missing(text, wanted, path)


def _lines(text: str) -> list[str]:
    """Return the lines with their endings. `splitlines` would break at a form feed, too."""
    return re.findall(r"[^\n]*\n|[^\n]+$", text)


def _tab_width(there: Sequence[str], wanted: Sequence[str]) -> int:
    """Return the width of a tab by which all lines are indented alike; 0 if there is none. Another
    width than the usual one must be seen at two depths: at one, any number of blanks is some
    width."""
    pairs = [
        (_indent(line), _indent(said))
        for line, said in zip(there, wanted, strict=True)
        if line.strip(_BLANKS)
    ]
    depths = len({line for line, _ in pairs if line})
    for width in (_USUAL_WIDTH, *(_OTHER_WIDTHS if depths > 1 else ())):
        if all(line.expandtabs(width) == said.expandtabs(width) for line, said in pairs):
            return width
    return 0


class _Indentation:
    """How a file writes the indentations of an edit."""

    def __init__(self, there: Sequence[str], wanted: Sequence[str], width: int) -> None:
        self._known = {_indent(s): _indent(t) for t, s in zip(there, wanted, strict=True) if s}
        self._width = width
        self._has_tabs = any("\t" in _indent(line) for line in there)

    def of(self, line: str) -> str:
        """Return a new line, indented as those around it are."""
        said = _indent(line)
        if not line.strip(_BLANKS):
            return line
        if said in self._known:
            return self._known[said] + line[len(said) :]
        blanks = len(said.expandtabs(self._width))
        tabs = blanks // self._width if self._has_tabs else 0
        return "\t" * tabs + " " * (blanks - tabs * self._width) + line[len(said) :]


def _joined(
    there: Sequence[str],
    wanted: Sequence[str],
    given: Sequence[str],
    indentation: _Indentation,
    ending: str,
) -> list[str]:
    """Return the lines for the place: those that the edit does not change as the file has them, the
    others as they are given, indented as the file is."""
    from difflib import SequenceMatcher  # slow to load, and most edits fit exactly

    made: list[str] = []
    matcher = SequenceMatcher(None, wanted, given, autojunk=False)
    for kind, from_old, to_old, from_new, to_new in matcher.get_opcodes():
        if kind == "equal":
            made += there[from_old:to_old]
        else:
            made += [indentation.of(line) + ending for line in given[from_new:to_new]]
    # Each line but the last has an ending; the last has that of the place, which may be none.
    bare = [line.rstrip("\r\n") for line in made]
    ends = [line[len(text) :] or ending for line, text in zip(made, bare, strict=True)]
    last = there[-1]
    ends[-1:] = [last[len(last.rstrip("\r\n")) :]] if ends else []
    return [text + end for text, end in zip(bare, ends, strict=True)]


def _indent(line: str) -> str:
    found = _INDENTED.match(line)
    return found.group() if found else ""


# Why an edit is refused, and what to do.


def _ambiguous(plain: str, found: Sequence[int], path: str) -> ToolFailed:
    numbers = ", ".join(str(plain.count("\n", 0, at) + 1) for at in found[:_MOST_NAMED])
    return ToolFailed(
        f"old fits {len(found)} places of {path}, at lines {numbers}; add lines around it until it "
        "fits once"
    )


def _unlike(path: str, line: int) -> ToolFailed:
    return ToolFailed(
        f"old is not in {path}: line {line} has its words, but is indented otherwise; read it, and "
        "copy its tabs and blanks exactly"
    )


def _missing(text: str, wanted: Sequence[str], path: str) -> ToolFailed:
    first = next((line.strip() for line in wanted if line.strip()), "")
    like = next(
        (number for number, line in enumerate(text.split("\n"), 1) if first and first in line), None
    )
    where = (
        f"line {like} holds its first line, and what follows differs"
        if like
        else f"no line holds {first[:_SHOWN]!r}"
    )
    return ToolFailed(
        f"old is not in {path}: {where}; the file may have changed: read it again, and copy what "
        "is to be replaced exactly"
    )
