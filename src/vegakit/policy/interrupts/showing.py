"""How what a person decides about is spelled: every letter of it, so that one reading is possible.

| in a text                                    | is shown as                              |
|----------------------------------------------|------------------------------------------|
| a backslash                                  | `\\\\`                                     |
| newline, tab, carriage return                | `\\n`, `\\t`, `\\r`                         |
| other controls, marks that turn direction,   | `\\u001b`, `\\u202e`; beyond `\\uffff` two   |
| letters without form, odd spaces             | of them, as in JSON                      |
| a value that we hold as a secret             | `\\$NAME`                                 |
| letters from right to left among others      | escaped, since they move their neighbours|
| any other letter                             | itself                                   |

A backslash therefore always begins an escape, and what is shown can be turned back into exactly
what was meant. A tool's arguments are JSON in ASCII by the same escapes: letters that look alike
are told apart there. Nothing is hidden because it looks like a key: a person who approves a call
sees all of it, or the call is not asked about.

Halves of surrogate pairs have no spelling: a text that holds one is refused where it is opened.
"""

import math
import re
import unicodedata
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeAlias, cast

from vegakit.policy.sanitising import is_unseen
from vegakit.records import canonical

__all__ = [
    "MOST_SHOWN",
    "Secrets",
    "Unshown",
    "escaped",
    "in_lines",
    "named",
    "spelled",
    "spelled_json",
]

Secrets: TypeAlias = Mapping[str, str]
"""The name of each value that we hold; a name is one of a variable."""

MOST_SHOWN = 65_536
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


def spelled(text: str, secrets: Secrets | None = None) -> str:
    """Words of a program, in their own letters."""
    ways = set[str]() if text.isascii() else set(map(unicodedata.bidirectional, text))
    turns = bool(ways & _BACKWARDS and ways & _FORWARDS)

    def escape(part: str) -> str:
        return _ODD.sub(lambda found: _shown_letter(part, found.start(), turns=turns), part)

    return _around_secrets(text, secrets or {}, escape)


def spelled_json(value: Any, secrets: Secrets | None = None) -> "str | Unshown":  # noqa: ANN401
    """In ASCII and on one line, keys in order. What JSON does not hold exactly is not shown: it
    would be shown as something else."""
    writing = _Writing(secrets or {})
    try:
        writing.write(value, 0)
    except _UnshownError as error:
        return error.why
    return "".join(writing.parts)


def named(name: str) -> str:
    """A name as it is if it is one word, else in quotes: it cannot be taken for what follows it."""
    if _WORD.fullmatch(name):
        return name
    quoted = spelled_json(name)
    return "?" if isinstance(quoted, Unshown) else quoted


def escaped(text: str, *, ascii_only: bool = False) -> str:
    """What is spelled already stays as it is, unless the screen has only ASCII; of what is not, as
    another version of Vega may send it, nothing steers the screen."""

    def escape(found: re.Match[str]) -> str:
        if ascii_only:
            return _unicode(found[0])
        return _shown_letter(text, found.start(), turns=False)

    return _NOT_ASCII.sub(escape, text)


def in_lines(text: str, room: int) -> list[str]:
    """What is spelled already, in lines of so many columns. They break where they are full and
    after an escaped newline, never inside an escape: a break carries nothing."""
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


class Unshown(StrEnum):
    """Why a person cannot be shown some arguments whole and exactly; with what to do."""

    TOO_LONG = "are too long: make several smaller calls"
    INEXACT = (
        "hold what JSON cannot say, such as half a character, an infinite number or bytes: "
        "use plain texts, numbers, lists and tables"
    )
    TOO_DEEP = "are nested too deep: flatten them"


class _UnshownError(Exception):
    def __init__(self, why: Unshown) -> None:
        self.why = why


class _Writing:
    """Stops as soon as it is too long: what is written may be larger than memory."""

    def __init__(self, secrets: Secrets) -> None:
        self.parts: list[str] = []
        self._secrets = secrets
        self._room = MOST_SHOWN

    def write(self, value: Any, depth: int) -> None:  # noqa: ANN401
        if depth > _MOST_DEPTH:
            raise _UnshownError(Unshown.TOO_DEEP)
        match value:
            case str():
                self._text(value)
            case None | bool() | int() | float():
                self._scalar(value)
            case dict():
                self._table(cast("dict[Any, Any]", value), depth + 1)
            case list() | tuple():
                for n, item in enumerate(cast("list[Any]", value)):
                    self._add("," if n else "[")
                    self.write(item, depth + 1)
                self._add("]" if value else "[]")
            case _:
                raise _UnshownError(Unshown.INEXACT)

    def _table(self, value: dict[Any, Any], depth: int) -> None:
        if not all(isinstance(key, str) for key in value):
            raise _UnshownError(Unshown.INEXACT)
        for n, key in enumerate(sorted(value)):
            self._add("," if n else "{")
            self._text(key)
            self._add(":")
            self.write(value[key], depth)
        self._add("}" if value else "{}")

    def _text(self, text: str) -> None:
        """As JSON, but for the names of secrets."""
        if len(text) > self._room:
            raise _UnshownError(Unshown.TOO_LONG)
        if _HALF.search(text):
            raise _UnshownError(Unshown.INEXACT)
        self._add(f'"{_around_secrets(text, self._secrets, _in_quotes)}"')

    def _scalar(self, value: float | None) -> None:
        if isinstance(value, float) and not math.isfinite(value):
            raise _UnshownError(Unshown.INEXACT)
        try:
            self._add(canonical(value).decode())
        except (ValueError, OverflowError):  # a number of thousands of digits
            raise _UnshownError(Unshown.TOO_LONG) from None

    def _add(self, part: str) -> None:
        self._room -= len(part)
        if self._room < 0:
            raise _UnshownError(Unshown.TOO_LONG)
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
    if is_unseen(letter) or (turns and unicodedata.bidirectional(letter) in _BACKWARDS):
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
