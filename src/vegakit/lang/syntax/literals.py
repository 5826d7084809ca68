"""Characters, names, numbers, durations and strings: which spellings are allowed, what to say about
the others, and their values (pure).
"""

import re
from collections.abc import Sequence
from unicodedata import name

from vegakit.lang.diagnostics import DiagnosticCollector, Edit
from vegakit.lang.syntax.tree import Expr

# What may be written in source: characters, names, numbers and escapes, and what is said when one
# is not right.


UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
SMART_QUOTES = frozenset("“”„‟«»\u2018\u2019\u201a\u201b")
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_FILLERS = frozenset("\u034f\u115f\u1160\u3164\uffa0")
"""Letters to Unicode, nothing to a reader."""
_LOOK_LATIN = frozenset(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u0501\u051b\u051d"
    "\u0475\u050d\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425"
    "\u0406\u0408\u0405\u050c\u051a\u051c\u0474\u04c0\u0391\u0392\u0395\u0396\u0397\u0399"
    "\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf\u03bd\u03b1\u03c1\u03b9\u03ba"
    "\u03c5\u04ae\u04af\u0585\u0578\u057d\u0570\u0581\u0566\u0584\u0555\u054d"
)
"""Of Cyrillic, Greek and Armenian."""
_NUMBERS = (
    ("money", re.compile(r"\$\d+(?:\.\d+)?", re.ASCII)),
    ("duration", re.compile(r"\d+(?:_\d+)*(?:ms|s|m|h|d)", re.ASCII)),
    ("int", re.compile(r"\d+(?:_\d+)*", re.ASCII)),
    ("float", re.compile(r"\d+(?:_\d+)*(?:\.\d+)?(?:[eE][-+]?\d+)?", re.ASCII)),
)
_UNIT = re.compile(r"(\d+(?:\.\d+)?)([A-Za-z]+)", re.ASCII)
_ESCAPE = re.compile(r"\\(?:[ntr\"\\{}]|u\{([0-9A-Fa-f]{1,6})\})")
_PLAIN = re.compile(r"(?:[^\\]++|\\[ntr\"\\{}])*+")
_REMEDIES = {
    "@": "there are no decorators",
    "&": "for both conditions write `and`",
    "^": "write math::pow(a, b) for a power",
    "~": "to stream an answer write `agent <~ message`",
    "`": 'write strings as "…"',
    "'": 'write strings as "…"',
    "\\": "a backslash stands only inside a string",
    "$": "write an amount as $1.50",
}
_LONGEST = 30


def clipped(word: str) -> str:
    return word if len(word) <= _LONGEST else word[:_LONGEST] + "…"


def spoken(char: str) -> str:
    return f"U+{ord(char):04X} ({name(char, 'a control character').lower()})"


def without_hidden(text: str, findings: DiagnosticCollector) -> str:
    """Characters that hide or reorder what a reader sees are reported and become spaces."""
    for match in _HIDDEN.finditer(text):
        at = match.start()
        found = f"the source holds {spoken(match[0])}, which a reader cannot see"
        remedy = f"remove it, or write \\u{{{ord(match[0]):X}}} in a string"
        findings.report("hidden-character", found, at, at + 1, remedy, Edit(at, at + 1, ""))
    return _HIDDEN.sub(" ", text)


def may_name(first: str, char: str) -> bool:
    """`char` may stand in a name that begins with `first`."""
    return char not in _FILLERS and (char if char == first else first + char).isidentifier()


def is_disguised(word: str) -> bool:
    """Latin letters beside others that look the same: `\u0430dmin`."""
    return not _LOOK_LATIN.isdisjoint(word) and any(char.isascii() for char in word.strip("_"))


def is_escape(written: str) -> bool:
    match = _ESCAPE.fullmatch(written)
    if match is None or match[1] is None:
        return match is not None
    code = int(match[1], 16)
    return code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF


def has_plain_escapes(literal: str) -> bool:
    """Quick to say of a long text; `\\u{…}` is looked at one by one."""
    return _PLAIN.fullmatch(literal) is not None


def kind_of_number(word: str) -> str:
    return next((kind for kind, pattern in _NUMBERS if pattern.fullmatch(word)), "")


def bad_number(word: str) -> tuple[str, str, str]:
    """Code, message and help for a word that begins like a number and is none."""
    if word[0] == "$":
        return "bad-money", f"`{clipped(word)}` is not an amount of money", "write it like $1.50"
    unit = found[2] if (found := _UNIT.fullmatch(word)) else ""
    if unit in {"ms", "s", "m", "h", "d"}:
        return "bad-duration", "durations are whole numbers", "write 90m for an hour and a half"
    if unit:
        said = f"`{clipped(unit)}` is no unit of time"
        return "bad-duration", said, "durations are 100ms, 30s, 5m, 2h or 1d"
    return "bad-number", f"`{clipped(word)}` is not a number", "numbers are like 1_000, 2.5 or 1e3"


def remedy_for(char: str) -> str:
    return _REMEDIES.get(char, "remove it")


# Numbers, money, durations and texts: from how they are written to their values.


MAX_INT = 2**63 - 1
_MAX_NANOS = 10**18
MAX_MS = 36_525 * 86_400_000
_MAX_DIGITS = 25
_CODE = re.compile(r"\\u\{([0-9A-Fa-f]{1,6})\}")
_PLAIN_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\r": "\r", '\\"': '"', "\\{": "{", "\\}": "}"}


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
    return ms if ms <= MAX_MS else None


def unescaped(raw: str) -> str:
    """Between two pairs of backslashes, every one left begins another escape."""
    return "\\".join(map(_one_by_one, raw.split("\\\\"))) if "\\" in raw else raw


def _one_by_one(piece: str) -> str:
    for escape, char in _PLAIN_ESCAPES.items():
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
