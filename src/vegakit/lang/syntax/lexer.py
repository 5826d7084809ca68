"""Source text to tokens: three lists side by side, as an object for each token is slow (pure)."""

import re
from itertools import islice
from operator import add
from unicodedata import is_normalized, normalize

from msgspec import Struct

from vegakit.lang.diagnostics import DiagnosticCollector, Edit, TooManyDiagnosticsError
from vegakit.lang.syntax.literals import (
    SMART_QUOTES,
    bad_number,
    clipped,
    has_plain_escapes,
    is_disguised,
    is_escape,
    kind_of_number,
    may_name,
    remedy_for,
    spoken,
    without_hidden,
)

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
    and or not true false null as
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


class Tokens(Struct):
    """`comments` are offsets from and to; `faulty` the offsets of what was wrong."""

    kinds: list[str]
    values: list[str]
    starts: list[int]
    ends: list[int]
    comments: list[tuple[int, int]]
    faulty: list[int]


def tokenize(text: str, findings: DiagnosticCollector) -> Tokens:
    """Raises EnoughFoundError when the text is beyond the limits."""
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
            self.fault("name-not-normal", found, at, at + len(word), "write it in NFC", edit)
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
        code, found, remedy = bad_number(word)
        self.fault(code, found, at, at + len(word), remedy)
        kind, plain = ("money", "$0") if word[0] == "$" else ("int", "0")
        self.add(kind, plain.ljust(len(word)), at)

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
        self.fault("unterminated-interpolation", found, at, at + 1, remedy, Edit(at, at, "\\"))
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
