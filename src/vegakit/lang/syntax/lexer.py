"""Source text to tokens, and what may be written in it: characters, names, numbers, durations and
strings, their values, and what is said about the others (pure).

Tokens are three lists side by side, as an object for each token is slow.
"""

import re
from collections.abc import Sequence
from itertools import islice
from operator import add
from unicodedata import is_normalized, name, normalize

from msgspec import Struct

from vegakit.lang.diagnostics import DiagnosticCollector, Edit, TooManyDiagnosticsError
from vegakit.lang.syntax import tree
from vegakit.money import Money, format_money

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
_OTHER_BASE = re.compile(r"0(?:[xX][0-9a-fA-F]{1,15}|[bB][01]{1,60}|[oO][0-7]{1,20})", re.ASCII)
_UNIT = re.compile(r"(\d+(?:\.\d+)?)([A-Za-z]+)", re.ASCII)
_UNITS = {
    "ms": ("msec", "msecs", "millis", "milliseconds"),
    "s": ("sec", "secs", "second", "seconds", "S"),
    "m": ("min", "mins", "minute", "minutes", "M"),
    "h": ("hr", "hrs", "hour", "hours", "H"),
    "d": ("day", "days", "D"),
}
_FORMAT = re.compile(r"\{(\w+):\.(\d)[fF]$", re.ASCII)
_LONGEST_NAME = 60
_WHOLE_ESCAPE = re.compile(r"\\(?:[ntr\"\\{}]|u\{([0-9A-Fa-f]{1,6})\})")
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
    """Return a word, cut where it is long."""
    return word if len(word) <= _LONGEST else word[:_LONGEST] + "…"


def spoken(char: str) -> str:
    """Return the number and name of a character that cannot be shown."""
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
    """Return whether this is an escape of strings, such as `\\n` or `\\u{1F600}`."""
    match = _WHOLE_ESCAPE.fullmatch(written)
    if match is None or match[1] is None:
        return match is not None
    code = int(match[1], 16)
    return code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF


def has_plain_escapes(literal: str) -> bool:
    """Quick to say of a long text; `\\u{…}` is looked at one by one."""
    return _PLAIN.fullmatch(literal) is not None


def kind_of_number(word: str) -> str:
    """Return `money`, `duration`, `int` or `float`, or empty if the word is none of them."""
    return next((kind for kind, pattern in _NUMBERS if pattern.fullmatch(word)), "")


def bad_number(word: str) -> tuple[str, str, str]:
    """Return code, message and help for a word that begins like a number and is none."""
    if word[0] == "$":
        return "bad-money", f"`{clipped(word)}` is not an amount of money", "write it like $1.50"
    if _OTHER_BASE.fullmatch(word):
        return "bad-number", f"`{clipped(word)}` is not decimal", "numbers have digits from 0 to 9"
    unit = found[2] if (found := _UNIT.fullmatch(word)) else ""
    if unit in {"ms", "s", "m", "h", "d"}:
        return "bad-duration", "durations are whole numbers", "write 90m for an hour and a half"
    if unit:
        said = f"`{clipped(unit)}` is no unit of time"
        return "bad-duration", said, "durations are 100ms, 30s, 5m, 2h or 1d"
    return "bad-number", f"`{clipped(word)}` is not a number", "numbers are like 1_000, 2.5 or 1e3"


def plain_number(word: str) -> str:
    """Return `30s` for `30sec` and `255` for `0xff`, or nothing for what is neither."""
    return str(int(word, 0)) if _OTHER_BASE.fullmatch(word) else plain_duration(word)


def plain_duration(word: str) -> str:
    """Return `30s` for `30sec`, or nothing for what is no time."""
    found = _UNIT.fullmatch(word)
    unit = next((unit for unit, words in _UNITS.items() if found and found[2] in words), "")
    return f"{found[1]}{unit}" if found and unit and found[1].isdecimal() else ""


def remedy_for(char: str) -> str:
    """Return what to write instead of a stray character."""
    return _REMEDIES.get(char, "remove it")


# Numbers, money, durations and texts: from how they are written to their values.


MAX_INT = 2**63 - 1
_MAX_NANOS = 10**18
MAX_MS = 36_525 * 86_400_000
_MAX_DIGITS = 25
_CODE = re.compile(r"\\u\{([0-9A-Fa-f]{1,6})\}")
_PLAIN_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\r": "\r", '\\"': '"', "\\{": "{", "\\}": "}"}


def money_nanos(written: str) -> int | None:
    """Return an amount in nano-dollars, or None when it has more than six decimals or is above a
    billion dollars."""
    whole, _, decimals = written.strip()[1:].partition(".")
    if len(whole) > _MAX_DIGITS or len(decimals) > 6:
        return None
    nanos = int(whole) * 10**9 + int(decimals.ljust(9, "0"))
    return nanos if nanos <= _MAX_NANOS else None


def duration_ms(written: str) -> int | None:
    """Return a duration in milliseconds, or None when it is more than a hundred years: nobody waits
    for that."""
    digits = written.rstrip("mshd")
    if len(digits) > _MAX_DIGITS:
        return None
    ms = int(digits) * UNITS_MS[written[len(digits) :]]
    return ms if ms <= MAX_MS else None


def money_text(nanos: int, period: str = "") -> str:
    """Return an amount as it is written: `$1.50`, `$5.00/day`."""
    amount = format_money(Money(nanos)).replace(",", "")
    return f"{amount}/{period}" if period else amount


def duration_text(ms: int) -> str:
    """Return a duration in the largest unit that is exact: `30s`, `1500ms`."""
    exact = (unit for unit, size in reversed(UNITS_MS.items()) if ms and ms % size == 0)
    unit = next(exact, "ms")
    return f"{ms // UNITS_MS[unit]}{unit}"


def unescaped(raw: str) -> str:
    """Return a text with its escapes replaced. Pairs of backslashes are split off first: between
    them, every one left begins another escape."""
    return "\\".join(map(_one_by_one, raw.split("\\\\"))) if "\\" in raw else raw


def _one_by_one(piece: str) -> str:
    for escape, char in _PLAIN_ESCAPES.items():
        piece = piece.replace(escape, char)
    return _CODE.sub(_char, piece)


def _char(escape: re.Match[str]) -> str:
    code = int(escape[1], 16)
    return chr(code) if code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF else "\ufffd"


def without_indent(parts: Sequence[str | tree.Expr]) -> list[str | tree.Expr]:
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


def _indent(parts: Sequence[str | tree.Expr]) -> int:
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


# Tokens.


MAX_SOURCE = 1024 * 1024
"""Bytes of source, in UTF-8."""
MAX_TOKENS = 50_000
MAX_NESTING = 200
_MAX_NAME = 200
_MAX_STRINGS = 50
"""Strings in interpolations of strings: each takes some of Python's stack."""

RESERVED = frozenset(
    """
    fn let return break continue if else while for in try catch session parallel spawn async await
    race and or not true false null as
    """.split()
)
_KEYWORDS = {word: word for word in RESERVED}

_TOKEN = re.compile(
    r"""[ \t\r\n]*(?:
      ([A-Za-z_\x80-\U0010ffff][\w\x80-\U0010ffff]*)
    | (//[^\n]*|/\*.*?\*/)
    | (<[-~=]|->|::|\?\?|[=!]=|>=|=>|&&|\|\||[-+*%/]=|/(?!\*)|[][{}();,.:=<>+\-*%?|!])
    | ("(?!"")[^"\\{}\n]*")
    | (\d+(?![\w.]))
    | ((?:\$|(?=\d))(?:\d+(?:_\d+)*(?:\.\d+)?(?:[eE][-+]?\d+)?[\w\x80-\U0010ffff]*)?)
    | (\"""|")
    | (\Z|.)
    )""",
    re.VERBOSE | re.ASCII | re.DOTALL,
)
_NAME, _COMMENT, _OPERATOR, _TEXT, _WHOLE, _NUMBER, _QUOTE = range(1, 8)

_CHUNKS = {
    '"': re.compile(r'(?:[^"\\{}\n]++|\\(?:u\{[^"{}\n]*+\}|[^\n]))*+'),
    '"""': re.compile(r'(?:[^"\\{}]++|\\(?:u\{[^"{}\n]*+\}|.)|"(?!""))*+', re.DOTALL),
}
_ESCAPE = re.compile(r"\\(?:u\{[^{}]*\}|.)", re.DOTALL)
_LATE_END = re.compile(r"[\s;,)\]]*\Z")
_QUOTED = re.compile(r"'[^'\n]*'")
_BACKTICKS = re.compile(r"`[^`]{0,2000}`")


class Tokens(Struct):
    """The tokens of a text, as lists side by side. `comments` are offsets from and to; `faulty` are
    the offsets of what was wrong."""

    kinds: list[str]
    values: list[str]
    starts: list[int]
    ends: list[int]
    comments: list[tuple[int, int]]
    faulty: list[int]


def tokenize(text: str, findings: DiagnosticCollector) -> Tokens:
    """Return the tokens of a text, or raise `TooManyDiagnosticsError` when it is beyond the
    limits."""
    _check_size(text, findings)
    lexer = _Lexer(without_hidden(text, findings), findings)
    lexer.run(1 if text.startswith("\ufeff") else 0, len(text))
    return lexer.tokens()


def _check_size(text: str, findings: DiagnosticCollector) -> None:
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_SOURCE:
        found = f"the source has {size:,} bytes; at most {MAX_SOURCE:,} are read"
        findings.report("source-too-large", found, 0, 0, "split it into files joined by `use`")
        raise TooManyDiagnosticsError


class _Lexer:
    def __init__(self, text: str, findings: DiagnosticCollector) -> None:
        self.text = text
        self.findings = findings
        self.kinds: list[str] = []
        self.values: list[str] = []
        self.starts: list[int] = []
        self.comments: list[tuple[int, int]] = []
        self.faulty: list[int] = []
        self.depth = 0
        self.braces = 0
        self.dropped = 0

    def tokens(self) -> Tokens:
        for _ in range(2):
            self.add("eof", "", len(self.text))
        ends = list(map(add, self.starts, map(len, self.values)))
        return Tokens(self.kinds, self.values, self.starts, ends, self.comments, self.faulty)

    def add(self, kind: str, value: str, at: int) -> None:
        self.kinds.append(kind)
        self.values.append(value)
        self.starts.append(at)

    def fault(
        self,
        code: str,
        message: str,
        at: int,
        end: int,
        help: str = "",  # noqa: A002
        edit: Edit | None = None,
    ) -> None:
        self.faulty.append(at)
        self.findings.report(code, message, at, end, help, edit)

    def run(self, at: int, end: int, inside: bool = False) -> int:
        """Lexes up to `end`, or `inside` an interpolation up to the brace that closes it."""
        outer, self.braces, done = self.braces, 0, False
        while not done:
            self.count(at)
            at, done = self.some(at, end, inside)
        self.braces = outer
        return at

    def count(self, at: int) -> None:
        many = "tokens" if len(self.kinds) + self.dropped > MAX_TOKENS else "comments"
        if many == "tokens" or len(self.comments) > MAX_TOKENS:
            found = f"the source has more than {MAX_TOKENS:,} {many}"
            self.fault("too-many-tokens", found, at, at + 1, "split it into files joined by `use`")
            raise TooManyDiagnosticsError

    def some(self, at: int, end: int, inside: bool) -> tuple[int, bool]:  # noqa: C901, PLR0912
        """Plain tokens up to something special. One loop, because it is run for every token."""
        kind, value, start = self.kinds.append, self.values.append, self.starts.append
        keywords = _KEYWORDS
        left = MAX_TOKENS + 1 - len(self.kinds) - self.dropped
        for match in islice(_TOKEN.finditer(self.text, at, end), left):
            group = match.lastindex or 0
            word = match[group]
            first, at = match.span(group)
            if group == _NAME:
                if not word.isascii() or len(word) > _MAX_NAME:
                    self.name(word, first)
                    continue
                kind(keywords.get(word, "name"))
            elif group == _OPERATOR:
                if inside and word in "{}":
                    self.braces += 1 if word == "{" else -1
                    if self.braces < 0:
                        return first, True
                kind(word)
            elif group == _TEXT:
                kind("text")
            elif group == _WHOLE:
                kind("int")
            elif group == _COMMENT:
                self.comments.append((first, at))
                continue
            elif group == _NUMBER:
                self.number(word, first)
                continue
            elif group == _QUOTE:
                return self.string(word, first, end), False
            elif not word:
                return end, True
            else:
                return self.stray(word, first, end), False
            value(word)
            start(first)
        return at, False

    def name(self, word: str, at: int) -> None:
        """A name beyond ASCII or of great length, fixed when it is not one."""
        head = word[:_MAX_NAME]
        bad = next((i for i, c in enumerate(head) if not may_name(word[0], c)), -1)
        if bad >= 0:
            self.not_a_name(word, at, bad)
        elif len(word) > _MAX_NAME:
            found = f"this name has {len(word):,} characters; at most {_MAX_NAME} are read"
            self.fault("name-too-long", found, at, at + len(word), "choose a shorter name")
        elif is_disguised(head):
            found = f"the name `{clipped(word)}` mixes letters of scripts that look alike"
            self.fault("disguised-name", found, at, at + len(word), "use letters of one script")
        elif not is_normalized("NFC", word):
            plain = normalize("NFC", word)
            found = f"the name `{clipped(word)}` has accents apart from their letters"
            edit = Edit(at, at + len(word), plain)
            remedy = f"write `{clipped(plain)}` with each accent and its letter as one character"
            self.fault("name-not-normal", found, at, at + len(word), remedy, edit)
        self.add(_KEYWORDS.get(word, "name"), word, at)

    def not_a_name(self, word: str, at: int, bad: int) -> None:
        char, place = word[bad], at + bad
        if char in SMART_QUOTES:
            remedy, edit = 'write strings with straight quotes: "…"', Edit(place, place + 1, '"')
        else:
            remedy, edit = "remove it; names have letters, digits and `_`", None
        found = f"{spoken(char)} cannot stand here"
        self.fault("strange-character", found, place, place + 1, remedy, edit)

    def number(self, word: str, at: int) -> None:
        if kind := kind_of_number(word):
            self.add(kind, word, at)
            return
        if shown := _FORMAT.search(self.text, max(at - _LONGEST_NAME, 0), at + len(word)):
            self.format(shown, word, at)
            return
        code, found, remedy = bad_number(word)
        edit = Edit(at, at + len(word), plain) if (plain := plain_number(word)) else None
        remedy = f"write {plain}" if plain else remedy
        self.fault(code, found, at, at + len(word), remedy, edit)
        kind, plain = ("money", "$0") if word[0] == "$" else ("int", "0")
        self.add(kind, plain.ljust(len(word)), at)

    def format(self, shown: re.Match[str], word: str, at: int) -> None:
        """Report `{x:.2f}`."""
        written = f"math::round({shown[1]}, {shown[2]})"
        found, first, last = "there are no formats in `{…}`", shown.start(1), shown.end()
        edit = Edit(first, last, written)
        self.fault("expected", found, first, last, f"write {{{written}}}", edit)
        self.add("int", "0".ljust(len(word)), at)

    def stray(self, char: str, at: int, end: int) -> int:
        """A character that begins no token: reported, and fixed where one sees what was meant."""
        if self.text.startswith("/*", at):
            found = "this comment is never closed"
            self.fault("unterminated-comment", found, at, at + 2, "close it with */")
            return end
        if char == "'" and (quoted := _QUOTED.match(self.text, at, end)):
            return self.single_quoted(quoted[0], at)
        if char == "#":
            stop = _line_end(self.text, at, end)
            edit = Edit(at, at + 1, "//")
            found = "`#` begins no comment here"
            self.fault("strange-character", found, at, at + 1, "write comments as // …", edit)
            return stop
        if char == "`" and (quoted := _BACKTICKS.match(self.text, at, end)):
            return self.backticks(quoted[0], at)
        remedy = remedy_for(char)
        self.fault("strange-character", f"`{char}` means nothing here", at, at + 1, remedy)
        return at + 1

    def single_quoted(self, quoted: str, at: int) -> int:
        inner = quoted[1:-1]
        edit = None if '"' in inner else Edit(at, at + len(quoted), f'"{inner}"')
        found = "strings stand in double quotes"
        self.fault("single-quotes", found, at, at + len(quoted), 'write "…"', edit)
        self.add("text", quoted, at)
        return at + len(quoted)

    def backticks(self, quoted: str, at: int) -> int:
        inner = quoted[1:-1].replace("${", "{")
        mark = '"""' if '"' in inner or "\n" in inner else '"'
        edit = Edit(at, at + len(quoted), f"{mark}{inner}{mark}")
        found = "strings stand in double quotes, and {…} is inserted without `$`"
        self.fault("strange-character", found, at, at + len(quoted), f"write {mark}…{mark}", edit)
        self.add("text", quoted, at)
        return at + len(quoted)

    def string(self, quote: str, at: int, end: int) -> int:
        """A string with escapes, interpolation or three quotes, from its first quote on."""
        stop = _line_end(self.text, at, end) if quote == '"' else end
        self.depth += 1
        if self.depth > _MAX_STRINGS:
            found = f"strings inside strings are more than {_MAX_STRINGS} levels deep"
            self.fault("too-deep", found, at, at + 1, "give the inner ones names by `let`")
            raise TooManyDiagnosticsError
        self.add("open", quote, at)
        at = self.inner(quote, at, at + len(quote), stop)
        self.depth -= 1
        return at

    def inner(self, quote: str, opened: int, at: int, stop: int) -> int:
        text, chunk = self.text, _CHUNKS[quote]
        while True:
            self.count(at)
            match = chunk.match(text, at, stop)
            assert match is not None, "a chunk may be empty"
            literal, at = match[0], match.end()
            if text.startswith(quote, at, stop):
                self.chunk(literal, at)
                self.add("close", quote, at)
                return at + len(quote)
            if at >= stop or text[at] not in "{}":
                return self.unterminated(quote, opened, at - len(literal), stop)
            self.chunk(literal, at)
            at, closed = self.brace(at, stop)
            if not closed:
                return self.cut(quote, at, stop)

    def chunk(self, literal: str, end: int) -> None:
        if not literal:
            return
        at = end - len(literal)
        if "\\" in literal and not has_plain_escapes(literal):
            for escape in _ESCAPE.finditer(literal):
                if not is_escape(escape[0]):
                    self.bad_escape(escape[0], at + escape.start())
        self.add("chunk", literal, at)

    def bad_escape(self, escape: str, at: int) -> None:
        known = r"\n \t \r \" \\ \{ \} \u{1F600}"
        found = f"`{clipped(escape)}` is no escape"
        remedy = f"there are {known}; a backslash itself is \\\\"
        self.fault("bad-escape", found, at, at + len(escape), remedy, Edit(at, at, "\\"))

    def brace(self, at: int, stop: int) -> tuple[int, bool]:
        """`{expr}` inside a string, or a `}` that closes nothing."""
        if self.text[at] == "}":
            found = "this `}` closes no interpolation"
            remedy = "for a brace in the text write \\}"
            self.fault("lonely-brace", found, at, at + 1, remedy, Edit(at, at + 1, "\\}"))
            return at + 1, True
        before = len(self.kinds), len(self.findings.found), len(self.faulty), len(self.comments)
        self.add("{|", "{", at)
        closed = self.run(at + 1, stop, inside=True)
        if closed < stop:
            self.add("|}", "}", closed)
            return closed + 1, True
        self.forget(*before)
        found = "this interpolation is never closed"
        remedy = "close it with `}`; for a brace in the text write \\{"
        named = all(part.isidentifier() for part in self.text[at + 1 : stop].split("."))
        edit = Edit(stop, stop, "}") if named else Edit(at, at, "\\")
        self.fault("unterminated-interpolation", found, at, at + 1, remedy, edit)
        return at, False

    def forget(self, tokens: int, found: int, faulty: int, comments: int) -> None:
        """What was lexed as an interpolation and is none."""
        self.dropped += len(self.kinds) - tokens
        del self.kinds[tokens:], self.values[tokens:], self.starts[tokens:]
        del self.findings.found[found:], self.faulty[faulty:], self.comments[comments:]

    def unterminated(self, quote: str, opened: int, start: int, stop: int) -> int:
        end = self.late_end(quote, start, stop)
        found = "this string is never closed"
        where = "on the same line" if quote == '"' else "after its last line"
        shown = end if quote == '"' else opened + len(quote)
        remedy = f"close it with {quote} {where}"
        self.fault("unterminated-string", found, opened, shown, remedy, Edit(end, end, quote))
        return self.cut(quote, start, stop)

    def cut(self, quote: str, start: int, stop: int) -> int:
        """The rest of a faulty string is taken as it is, up to its quote or the end of its line."""
        closed = self.text.find(quote, start, stop)
        end = closed if closed >= 0 else self.late_end(quote, start, stop)
        if end > start:
            self.add("chunk", self.text[start:end].replace("\\", " "), start)
        self.add("close", quote if closed >= 0 else "", end)
        return end + len(quote) if closed >= 0 else end

    def late_end(self, quote: str, start: int, stop: int) -> int:
        """What closes a statement at the end of the line is kept for the parser."""
        if quote != '"':
            return stop
        late = _LATE_END.search(self.text, start, stop)
        return late.start() if late else stop


def _line_end(text: str, at: int, end: int) -> int:
    found = text.find("\n", at, end)
    return end if found < 0 else found
