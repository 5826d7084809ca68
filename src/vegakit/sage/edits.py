"""Replace one place in a text: exactly, or by whole lines that differ in trailing blanks or in tabs
and blanks before them; right, or refused with what to do (pure).

| the old text                                  | then                                          |
|-----------------------------------------------|-----------------------------------------------|
| fits at one place, line endings aside         | that place is replaced                        |
| fits at several places                        | refused: the lines are named                  |
| fits nowhere, but once as whole lines without | those lines are replaced; lines that the edit |
| regard to trailing blanks, and to whether     | does not change stay as the file has them     |
| tabs or blanks indent them                    |                                               |
| fits only with its accents in another form    | the new text is written in that form, too     |
| fits nowhere                                  | refused: the most similar line is named       |

Line endings, a missing final newline and tabs stay as the file has them. Blanks inside a line are
never passed over: they may stand in a string, and an edit that changes one unasked is a wrong edit.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from vegakit.errors import ToolFailed

_SHOWN = 80
_MOST_NAMED = 5
BLANKS = " \t\r\n"
"""What is passed over at the ends of a line."""
TWO_FORMS = "use a part of the lines that has no accents, or a command of the shell tool"
"""What to do where accents are one character in one line and two in another."""
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
    # Counted in one form: a place that looks the same may be the one that is meant.
    alike = _places(composed(plain), composed(old))
    if len(alike) > 1:
        raise _ambiguous(composed(plain), alike, path)
    spellings = [(old, new), *((form(old), form(new)) for form in other_forms(old))]
    for sought, given in spellings:
        if found := _places(plain, sought):
            return _exact(text, plain, found[0], sought, given)
    for sought, given in spellings:
        if (made := _by_lines(text, sought, given, path)) is not None:
            return made
    raise _refused(text, old, path)


def replace_each(text: str, edits: Sequence[tuple[str, str]], path: str) -> tuple[Edited, ...]:
    """Make edits one after the other, each in what the one before it has left, or raise
    `ToolFailed` if any of them does not fit."""
    made: list[Edited] = []
    for number, (old, new) in enumerate(edits, 1):
        try:
            made.append(replace_once(made[-1].text if made else text, old, new, path))
        except ToolFailed as refused:
            if len(edits) == 1:
                raise
            raise ToolFailed(
                f"edit {number} of {len(edits)}: {refused}. None of them was made; send all again"
            ) from None
    return tuple(made)


def other_forms(text: str) -> Iterator[Callable[[str], str]]:
    """Yield ways to spell a text with its accents in another form (NFC or NFD) that differ from it:
    a file may hold é as one character or as two, and a reader sees no difference."""
    if text.isascii():
        return
    from unicodedata import normalize  # few texts need it

    for name in ("NFC", "NFD"):
        form = partial(normalize, name)
        if form(text) != text:
            yield form


def composed(text: str) -> str:
    """Return a text with each accent in one character with its letter, if there is such a one."""
    if text.isascii():
        return text
    from unicodedata import normalize

    return normalize("NFC", text)


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
    ending = line_ending(text[start:end]) or line_ending(text) or "\n"
    made = text[:start] + new.replace("\n", ending) + text[end:]
    return Edited(made, plain.count("\n", 0, at) + 1, exact=True)


def _place_in(text: str, plain: str, at: int) -> int:
    """Return where a place of the text without carriage returns is in the text with them."""
    lines_before = plain.count("\n", 0, at)
    return at + sum(line.endswith("\r") for line in text.split("\n")[:lines_before])


def line_ending(text: str) -> str:
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


def _by_lines(text: str, old: str, new: str, path: str) -> Edited | None:
    wanted, given = old.split("\n"), new.split("\n")
    if wanted[-1] == "" and len(wanted) > 1:
        if given[-1] != "":
            return None
        # Both end with a line ending: the lines are meant, and not the beginning of the next one.
        wanted.pop()
        given.pop()
    lines, size = lines_of(text), len(wanted)
    found = {
        at: width
        for at in alike_lines(lines, wanted)
        if (width := tab_width(lines[at : at + size], wanted))
    }
    if len(found) > 1:
        numbers = ", ".join(str(at + 1) for at in [*found][:_MOST_NAMED])
        raise ToolFailed(
            f"old fits {len(found)} places of {path} if blanks are passed over, at lines {numbers}"
            "; copy the lines exactly, with lines around them, so that they fit once"
        )
    for at, width in found.items():
        there, ending = lines[at : at + size], line_ending(text) or "\n"
        if not are_spelled(there, wanted):
            return None
        made = _joined(there, wanted, given, Indentation(there, wanted, width), ending)
        return Edited("".join([*lines[:at], *made, *lines[at + size :]]), at + 1, exact=False)
    return None


def alike_lines(lines: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Return where the words of lines stand, however they are indented and accents are written."""
    sought, size = [composed(line.strip(BLANKS)) for line in wanted], len(wanted)
    if not any(sought):
        return []
    bare = [composed(line.strip(BLANKS)) for line in lines]
    return [at for at in range(len(lines) - size + 1) if bare[at : at + size] == sought]


def are_spelled(there: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether lines have the very words, with the same characters."""
    pairs = zip(there, wanted, strict=True)
    return all(line.strip(BLANKS) == said.strip(BLANKS) for line, said in pairs)


def lines_of(text: str) -> list[str]:
    """Return the lines with their endings. `splitlines` would break at a form feed, too."""
    return re.findall(r"[^\n]*\n|[^\n]+$", text)


def tab_width(there: Sequence[str], wanted: Sequence[str]) -> int:
    """Return the width of a tab by which all lines are indented alike; 0 if there is none. Another
    width than the usual one must be seen at two depths: at one, any number of blanks is some
    width."""
    pairs = [
        (indent_of(line), indent_of(said))
        for line, said in zip(there, wanted, strict=True)
        if line.strip(BLANKS)
    ]
    depths = len({line for line, _ in pairs if line})
    for width in (_USUAL_WIDTH, *(_OTHER_WIDTHS if depths > 1 else ())):
        if all(line.expandtabs(width) == said.expandtabs(width) for line, said in pairs):
            return width
    return 0


class Indentation:
    """The way in which a file writes the indentations of an edit."""

    def __init__(self, there: Sequence[str], wanted: Sequence[str], width: int) -> None:
        self._known = {indent_of(s): indent_of(t) for t, s in zip(there, wanted, strict=True) if s}
        self._width = width
        self._has_tabs = any("\t" in indent_of(line) for line in there)

    def of(self, line: str) -> str:
        """Return a new line, indented as those around it are."""
        said = indent_of(line)
        if not line.strip(BLANKS):
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
    indentation: Indentation,
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


def indent_of(line: str) -> str:
    """Return the blanks and tabs that a line begins with."""
    found = _INDENTED.match(line)
    return found.group() if found else ""


# Why an edit is refused, and what to do.


def _ambiguous(plain: str, found: Sequence[int], path: str) -> ToolFailed:
    numbers = ", ".join(str(plain.count("\n", 0, at) + 1) for at in found[:_MOST_NAMED])
    return ToolFailed(
        f"old fits {len(found)} places of {path}, at lines {numbers}; add lines around it until it "
        "fits once"
    )


def _refused(text: str, old: str, path: str) -> ToolFailed:
    wanted = old.removesuffix("\n").split("\n")
    lines = lines_of(text)
    for at in alike_lines(lines, wanted):
        if tab_width(lines[at : at + len(wanted)], wanted):
            return ToolFailed(
                f"old is not in {path}: line {at + 1} has its words, but accents are written in "
                f"two ways there; {TWO_FORMS}"
            )
        return ToolFailed(
            f"old is not in {path}: line {at + 1} has its words, but is indented otherwise; the "
            "file may have changed: read it again, and copy its tabs and blanks exactly"
        )
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
