"""Safe text: what tools return made harmless to read, and what people approve spelled so that only
one reading is possible (pure).
"""

import math
import re
import unicodedata
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any, NewType, TypeAlias

from vegakit.records import Json, canonical

# Results of tools are made harmless to read here, before anyone sees them.
#
# | in a result                                     | becomes                                  |
# |-------------------------------------------------|------------------------------------------|
# | bytes that are no UTF-8, halves of surrogates   | `\xff`, `\ud800`                       |
# | control characters but tab and new line, so any | `\x1b`, `\x0d`                         |
# | terminal sequence and any carriage return       |                                          |
# | marks that turn the direction of text           | `\u202e`                                |
# | tags, fillers and others without form           | `\U000e0041`, `\u200b`                 |
# | three joiners or selectors in a row             | `\u200d\u200d\u200d`; two serve emoji |
# | more than the cap                               | its two ends; what was cut is said       |
#
# So a person, a terminal, a log and the model read the same text. Backslashes stay as they are:
# what looks like an escape may also be one that the tool wrote.
#
# That a text is harmless to read does not make it true, nor an instruction: it is `Untrusted`,
# and a model is given it between marks that the text itself cannot close.


Untrusted = NewType("Untrusted", str)

DEFAULT_MAX_BYTES = 64 * 1024

_INVISIBLE = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f"  # controls
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction
    "\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2028\u2029\u2060-\u2065\u206a-\u206f"
    "\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"  # without form
    "\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"  # tags, selectors
    "|[\u200c\u200d\ufe0e\ufe0f]{3,}"
)
_BLANK = "\u200c\u200d\u2800\ufe0e\ufe0f\U0001d159"
_MARK = re.compile(r"<(?=[\s/\\]*untrusted)")
_UNHEEDED = re.compile(
    "[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"  # marks on letters
    f"{_BLANK}]"
)
_BRACKETS = "\u02c2\u1438\u2039\u2329\u276e\u2770\u27e8\u29fc\u3008"
_SLASHES = "\u2044\u2215\u2571\u29f8"
_OPENS = re.compile(f"[<\u226e\ufe64\uff1c{_BRACKETS}]")
_LOOK_ALIKE = str.maketrans(
    f"{_BRACKETS}{_SLASHES}\u0435\u0455\u0442\u03c4\u0501\u057d\u03c5\u0433\u043f\u0578",
    "<" * len(_BRACKETS) + "/" * len(_SLASHES) + "esttduurnn",
)
"""Besides what Unicode itself takes for the same: Cyrillic, Greek and Armenian letters that are
read as those of the mark, and brackets."""


def sanitise(result: str | bytes, most_bytes: int = DEFAULT_MAX_BYTES) -> Untrusted:
    """Make a result harmless to read and cut it to so many bytes of UTF-8; one line says what was
    cut."""
    text = result.decode(errors="backslashreplace") if isinstance(result, bytes) else result
    if len(text) <= most_bytes and len(clean := _escape_invisible(text).encode()) <= most_bytes:
        return Untrusted(clean.decode())
    return Untrusted(_cut(text, most_bytes))


def is_invisible(letter: str) -> bool:
    """Whether it has no form of its own, wherever it stands."""
    return letter in _BLANK or _INVISIBLE.fullmatch(letter) is not None


def mark_untrusted(text: Untrusted) -> str:
    """Put the text between marks. Anything in it that a model could read as the mark is escaped
    where it begins, also when it is spelled with letters that look alike or are not seen."""
    if not _OPENS.search(text) or not _MARK.search(_as_read(text)):
        return f"<untrusted>\n{text}\n</untrusted>"
    read, origins = list[str](), list[int]()
    for at, letter in enumerate(text):
        as_read = _as_read(letter)
        read.append(as_read)
        origins += [at] * len(as_read)
    begins = {origins[mark.start()] for mark in _MARK.finditer("".join(read))}
    kept_open = (_escape_character(c) if at in begins else c for at, c in enumerate(text))
    return f"<untrusted>\n{''.join(kept_open)}\n</untrusted>"


def unmarked(text: str) -> str:
    """Return the text without the marks around it, for code that reads what a model was told."""
    return text.removeprefix("<untrusted>\n").removesuffix("\n</untrusted>")


def _as_read(text: str) -> str:
    """Letter by letter, so that a text is read as its letters are."""
    if text.isascii():
        return text.lower()
    plain = _UNHEEDED.sub("", unicodedata.normalize("NFKD", text))
    return plain.casefold().translate(_LOOK_ALIKE)


def _escape_invisible(text: str) -> str:
    whole = text.encode(errors="backslashreplace").decode()
    return _INVISIBLE.sub(lambda found: "".join(map(_escape_character, found[0])), whole)


def escape_controls(text: str) -> str:
    """Escape what `sanitise` does, as JSON spells it: JSON that was escaped again is the same."""
    return _INVISIBLE.sub(lambda hidden: "".join(map(_unicode, hidden[0])), text)


def _escape_character(letter: str) -> str:
    code = ord(letter)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _cut(text: str, most_bytes: int) -> str:
    """Escaping never makes a text shorter: what lies further in cannot be part of either end."""
    half = most_bytes // 2
    head = _escape_invisible(text[:half]).encode()[:half].decode(errors="ignore")
    tail = _escape_invisible(text[-half:]).encode()[-half:].decode(errors="ignore") if half else ""
    return f"{head}\n… {len(text):,} characters, cut here to their beginning and end …\n{tail}"


# A person who decides is shown every letter, spelled so that only one reading is possible.
#
# | in a text                                    | is shown as                              |
# |----------------------------------------------|------------------------------------------|
# | a backslash                                  | `\\`                                     |
# | newline, tab, carriage return                | `\n`, `\t`, `\r`                         |
# | other controls, marks that turn direction,   | `\u001b`, `\u202e`; beyond `\uffff` two   |
# | letters without form, odd spaces             | of them, as in JSON                      |
# | a value that we hold as a secret             | `\$NAME`                                 |
# | letters from right to left among others      | escaped, since they move their neighbours|
# | any other letter                             | itself                                   |
#
# A backslash therefore always begins an escape, and what is shown can be turned back into exactly
# what was meant. A tool's arguments are JSON in ASCII by the same escapes: letters that look alike
# are told apart there. Nothing is hidden because it looks like a key: a person who approves a call
# sees all of it, or the call is not asked about.
#
# Halves of surrogate pairs have no spelling: a text that holds one is refused where it is opened.


Secrets: TypeAlias = Mapping[str, str]
"""The name of each value that we hold; a name is one of a variable."""

MAX_QUESTION_CHARACTERS = 65_536
"""Characters of one question: some 40 full screens."""

_MOST_DEPTH = 100
_SHORT = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_WORD = re.compile(r"[A-Za-z0-9_./#-]+")
_OF_NAME = re.compile(r"[A-Za-z0-9_]")
_ODD = re.compile(r"[^ -~]|\\")
_NOT_ASCII = re.compile(r"[^ -~]")
_PART = re.compile(r"\\u[0-9a-f]{4}|\\.|.", re.DOTALL)
_BEYOND = 0x10000
_MOST_MARKS = 2
_HALF = re.compile("[\ud800-\udfff]")
_BACKWARDS = frozenset({"R", "AL", "AN"})
_FORWARDS = frozenset({"L", "EN"})

Escape: TypeAlias = Callable[[str], str]


def escape_text(text: str, secrets: Secrets | None = None) -> str:
    """Words of a program, in their own letters."""
    ways = set[str]() if text.isascii() else set(map(unicodedata.bidirectional, text))
    turns = bool(ways & _BACKWARDS and ways & _FORWARDS)

    def escape(part: str) -> str:
        return _ODD.sub(lambda found: _shown_letter(part, found.start(), turns=turns), part)

    return _around_secrets(text, secrets or {}, escape)


def escape_json(value: Any, secrets: Secrets | None = None) -> "str | NotDisplayable":  # noqa: ANN401
    """Return the value in ASCII and on one line, keys in order. A value that JSON does not hold
    exactly is not shown: it would be shown as something else."""
    writing = _JsonWriter(secrets or {})
    try:
        writing.write(value, 0)
    except _NotDisplayableError as error:
        return error.why
    return "".join(writing.parts)


def quote_name(name: str) -> str:
    """A name as it is if it is one word, else in quotes: it cannot be taken for what follows it."""
    if _WORD.fullmatch(name):
        return name
    quoted = escape_json(name)
    return "?" if isinstance(quoted, NotDisplayable) else quoted


def escape_for_terminal(text: str, *, ascii_only: bool = False) -> str:
    """Escape a text again for a screen. Escapes stay as they are; a text that another version of
    Vega left unescaped cannot steer the screen."""

    def escape(found: re.Match[str]) -> str:
        if ascii_only:
            return _unicode(found[0])
        return _shown_letter(text, found.start(), turns=False)

    return _NOT_ASCII.sub(escape, text)


def wrap_escaped(text: str, room: int) -> list[str]:
    """Break an escaped text into lines of so many columns. They break where they are full and after
    an escaped newline, never inside an escape: a break carries nothing."""
    lines, line, taken = list[str](), list[str](), 0
    for part in _parts(text):
        size = len(part) if part.isascii() else 2 * len(part)  # a letter may take two columns
        if taken + size > room or line[-1:] == [_SHORT["\n"]]:
            lines.append("".join(line))
            line, taken = [], 0
        line.append(part)
        taken += size
    return [*lines, "".join(line)]


def _parts(text: str) -> list[str]:
    """Escapes, and letters with their marks."""
    parts: list[str] = []
    for part in _PART.findall(text):
        if parts and _is_mark(part[0]):
            parts[-1] += part
        else:
            parts.append(part)
    return parts


class NotDisplayable(StrEnum):
    """The reasons for which a person cannot be shown some arguments whole and exactly, with what to
    do."""

    TOO_LONG = "are too long: make several smaller calls"
    INEXACT = (
        "hold what JSON cannot say, such as half a character, an infinite number or bytes: "
        "use plain texts, numbers, lists and tables"
    )
    TOO_DEEP = "are nested too deep: flatten them"


class _NotDisplayableError(Exception):
    def __init__(self, why: NotDisplayable) -> None:
        self.why = why


_Written: TypeAlias = Json | tuple[Json, ...] | bytes
"""What a call may come with: JSON, a tuple for a list, and what cannot be shown."""


class _JsonWriter:
    """Stops as soon as it is too long: what is written may be larger than memory."""

    def __init__(self, secrets: Secrets) -> None:
        self.parts: list[str] = []
        self._secrets = secrets
        self._room = MAX_QUESTION_CHARACTERS

    def write(self, value: _Written, depth: int) -> None:
        if depth > _MOST_DEPTH:
            raise _NotDisplayableError(NotDisplayable.TOO_DEEP)
        match value:
            case str():
                self._text(value)
            case None | bool() | int() | float():
                self._scalar(value)
            case dict():
                self._table(value, depth + 1)
            case list() | tuple():
                for n, item in enumerate(value):
                    self._add("," if n else "[")
                    self.write(item, depth + 1)
                self._add("]" if value else "[]")
            case _:
                raise _NotDisplayableError(NotDisplayable.INEXACT)

    def _table(self, value: dict[Any, Any], depth: int) -> None:
        if not all(isinstance(key, str) for key in value):
            raise _NotDisplayableError(NotDisplayable.INEXACT)
        for n, key in enumerate(sorted(value)):
            self._add("," if n else "{")
            self._text(key)
            self._add(":")
            self.write(value[key], depth)
        self._add("}" if value else "{}")

    def _text(self, text: str) -> None:
        """Write a text as JSON, but for the names of secrets."""
        if len(text) > self._room:
            raise _NotDisplayableError(NotDisplayable.TOO_LONG)
        if _HALF.search(text):
            raise _NotDisplayableError(NotDisplayable.INEXACT)
        self._add(f'"{_around_secrets(text, self._secrets, _in_quotes)}"')

    def _scalar(self, value: float | None) -> None:
        if isinstance(value, float) and not math.isfinite(value):
            raise _NotDisplayableError(NotDisplayable.INEXACT)
        try:
            self._add(canonical(value).decode())
        except (ValueError, OverflowError):  # a number of thousands of digits
            raise _NotDisplayableError(NotDisplayable.TOO_LONG) from None

    def _add(self, part: str) -> None:
        self._room -= len(part)
        if self._room < 0:
            raise _NotDisplayableError(NotDisplayable.TOO_LONG)
        self.parts.append(part)


def _in_quotes(part: str) -> str:
    plain = part.replace("\\", "\\\\").replace('"', '\\"')
    return re.sub(r"[^ -~]", lambda found: _SHORT.get(found[0]) or _unicode(found[0]), plain)


def _around_secrets(text: str, secrets: Secrets, escape: Escape) -> str:
    """The parts between secrets are escaped. A letter after a name that could be read as part of it
    is escaped, too."""
    found = [value for value in secrets if value in text]
    if not found:
        return escape(text)
    which = re.compile("|".join(map(re.escape, sorted(found, key=len, reverse=True))))
    shown, end = list[str](), 0
    for secret in which.finditer(text):
        shown += [_after_name(text[end : secret.start()], escape, is_first=not end)]
        shown += [f"\\${secrets[secret[0]]}"]
        end = secret.end()
    return "".join([*shown, _after_name(text[end:], escape, is_first=not end)])


def _after_name(part: str, escape: Escape, *, is_first: bool) -> str:
    if is_first or not _OF_NAME.match(part):
        return escape(part)
    return _unicode(part[0]) + escape(part[1:])


def _shown_letter(text: str, at: int, *, turns: bool) -> str:
    shown = _shown_alone(text[at], turns=turns)
    if shown is not None:
        return shown
    base = at - 1  # a mark: seen only with a letter, and not more of them than scripts need
    while base > 0 and at - base < _MOST_MARKS and _is_mark(text[base]):
        base -= 1
    below = text[base : base + 1] if base >= 0 else ""
    is_seen = below.isalpha() and _shown_alone(below, turns=turns) == below
    return text[at] if is_seen else _unicode(text[at])


@lru_cache(4_096)
def _shown_alone(letter: str, *, turns: bool) -> str | None:
    """None of a mark, which may cover what is below it."""
    if letter in _SHORT:
        return _SHORT[letter]
    if is_invisible(letter) or (turns and unicodedata.bidirectional(letter) in _BACKWARDS):
        return _unicode(letter)
    if _is_mark(letter):
        return None
    is_seen = unicodedata.category(letter)[0] in "LNPS" or letter == " " or _HALF.match(letter)
    return letter if is_seen else _unicode(letter)


def _is_mark(letter: str) -> bool:
    return unicodedata.category(letter)[0] == "M"


def _unicode(letter: str) -> str:
    code = ord(letter)
    if code < _BEYOND:
        return f"\\u{code:04x}"
    high, low = divmod(code - _BEYOND, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
