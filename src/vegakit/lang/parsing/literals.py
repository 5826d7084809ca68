"""Numbers, money, durations and texts: from how they are written to their values."""

import re
from collections.abc import Sequence

from vegakit.lang.spelling import UNITS_MS
from vegakit.lang.tree import Expr

__all__ = ["MAX_INT", "duration_ms", "money_nanos", "unescaped", "without_indent"]

MAX_INT = 2**63 - 1
_MAX_NANOS = 10**18
_MAX_MS = 36_525 * 86_400_000
_MAX_DIGITS = 25
_CODE = re.compile(r"\\u\{([0-9A-Fa-f]{1,6})\}")
_PLAIN = {"\\n": "\n", "\\t": "\t", "\\r": "\r", '\\"': '"', "\\{": "{", "\\}": "}"}


def money_nanos(written: str) -> int | None:
    """None when it has more than six decimals or is above a billion dollars."""
    whole, _, decimals = written.strip()[1:].partition(".")
    if len(whole) > _MAX_DIGITS or len(decimals) > 6:
        return None
    nanos = int(whole) * 10**9 + int(decimals.ljust(9, "0"))
    return nanos if nanos <= _MAX_NANOS else None


def duration_ms(written: str) -> int | None:
    """None when it is more than a hundred years: nobody waits for that."""
    digits = written.rstrip("mshd")
    if len(digits) > _MAX_DIGITS:
        return None
    ms = int(digits) * UNITS_MS[written[len(digits) :]]
    return ms if ms <= _MAX_MS else None


def unescaped(raw: str) -> str:
    """Between two pairs of backslashes, every one left begins another escape."""
    return "\\".join(map(_one_by_one, raw.split("\\\\"))) if "\\" in raw else raw


def _one_by_one(piece: str) -> str:
    for escape, char in _PLAIN.items():
        piece = piece.replace(escape, char)
    return _CODE.sub(_char, piece)


def _char(escape: re.Match[str]) -> str:
    code = int(escape[1], 16)
    return chr(code) if code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF else "\ufffd"


def without_indent(parts: Sequence[str | Expr]) -> list[str | Expr]:
    """The literal parts of a text in three quotes, as the reader sees them.

    A first line break and a last line of blanks only are no part of the text; what all other lines
    are indented by is removed. Escapes come later: `\\n` and `\\t` are content.
    """
    lines = [part.replace("\r\n", "\n") if isinstance(part, str) else part for part in parts]
    first = bool(lines) and isinstance(lines[0], str) and lines[0].startswith("\n")
    if lines and isinstance(lines[-1], str):
        lines[-1] = re.sub(r"\n[ \t]*\Z", "", lines[-1])
    indent = _indent(lines)
    dedented = [
        re.sub(f"\n[ \t]{{0,{indent}}}", "\n", p) if isinstance(p, str) else p for p in lines
    ]
    if first and isinstance(head := dedented[0], str):
        dedented[0] = head.removeprefix("\n")
    return dedented


def _indent(parts: Sequence[str | Expr]) -> int:
    """The smallest indentation of a line that is not blank; the first line has none."""
    found: list[int] = []
    for i, part in enumerate(parts):
        if not isinstance(part, str):
            continue
        rows = part.split("\n")[1:]
        for j, row in enumerate(rows):
            goes_on = j == len(rows) - 1 and i + 1 < len(parts)
            if row.strip(" \t") or goes_on:
                found.append(len(row) - len(row.lstrip(" \t")))
    return min(found, default=0)
