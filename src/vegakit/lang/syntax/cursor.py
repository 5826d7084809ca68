"""The parser's position in the tokens: taking them, reporting what was expected, recovering after
an error; and the soft keywords (pure).
"""

import re
from collections.abc import Callable, Iterable
from typing import NoReturn, TypeVar

from vegakit.lang.diagnostics import DiagnosticCollector, Edit, TooManyDiagnosticsError, nearest
from vegakit.lang.syntax.lexer import MAX_NESTING, RESERVED, Tokens

# The soft keywords: words that mean something in one place and are names everywhere else.


AGENT_BLOCKS = {
    "retry": ("max_attempts", "backoff", "on", "resend_unknown"),
    "circuit_breaker": ("threshold", "reset_after", "probes"),
    "rate_limit": ("requests", "tokens", "per", "burst", "slots", "strategy", "queue_size"),
}
AGENT_FIELDS = (
    "model",
    "system",
    "temperature",
    "effort",
    "max_tokens",
    "max_steps",
    "budget",
    "on_exceed",
    "memory",
    "priority",
    "timeout",
    "tools",
    "tool",
    *AGENT_BLOCKS,
)
SPAWN_RULES = ("strategy", "max_restarts", "window", "backoff")
SUPERVISOR_SETTINGS = (*SPAWN_RULES, "children")
SPAWN_OPTIONS = ("wallet", "named", "supervised")
SESSION_SETTINGS = ("on_exceed", "speculate", "confirm")

GRANTS = {
    "may": "capabilities",
    "capabilities": "capabilities",
    "allowed_paths": "paths",
    "allowed_commands": "commands",
    "allowed_hosts": "hosts",
}
_NARROWING = ("allowed_paths", "allowed_commands", "allowed_hosts")
CLAUSES_OF = {
    "program": ("may", *_NARROWING),
    "function": ("may", *_NARROWING, "budget"),
    "tool": ("capabilities", *_NARROWING, "idempotent"),
}

TOP_WORDS = frozenset("agent tool type use node supervisor program".split())
"""With `fn`, they begin a declaration where what follows fits."""

SETTING_WORDS = {
    **dict.fromkeys(
        ("prompt", "system_prompt", "systemPrompt", "instructions", "instruction", "role"), "system"
    ),
    **dict.fromkeys(("llm", "engine"), "model"),
    **dict.fromkeys(("max_output_tokens", "maximum_tokens", "token_limit"), "max_tokens"),
    **dict.fromkeys(("functions", "toolset"), "tools"),
    **dict.fromkeys(("max_turns", "max_iterations", "maxSteps"), "max_steps"),
    **dict.fromkeys(("retries", "max_retries", "tries", "attempts"), "max_attempts"),
    **dict.fromkeys(("max_cost", "cost_limit", "max_budget"), "budget"),
}
"""Words of other libraries for our settings."""

STATEMENT_WORDS = (
    "let return break continue if while for try session parallel monitor spawn await".split()
)
LINE_STARTERS = frozenset([*STATEMENT_WORDS, "fn"]) & RESERVED
"""Keywords that begin a statement and nothing else, so that parsing can go on there."""

_MEANT = {
    "fn": "def func function fun proc",
    "let": "var const val mut",
    "type": "class struct record enum interface",
    'use "lib/text.vega"': "import from include require",
    "else if": "elif elsif elseif",
    "catch": "except finally",
    "for": "foreach",
    "if not": "unless",
    "if … else if": "switch match case",
    "for i in range(n)": "repeat",
    "while true": "loop do",
    "while not": "until",
    "fail(reason)": "raise throw",
    "process::yield()": "yield",
    "session budget": "with",
}
FOREIGN_WORDS = {word: meant for meant, words in _MEANT.items() for word in words.split()}
"""Words of other languages, by what is written here."""


# Where the parser stands in the tokens: taking them, saying what was expected, going on after a
# fault.
#
# A fault is reported once and raised as `ParseError`; whoever parses a list of things catches it,
# skips to where the next thing can begin, and goes on. Where a fault can be fixed on the spot (a
# missing `;` at the end of a line) nothing is raised.


T = TypeVar("T")

BRACKETS = {"(": ")", "[": "]", "{": "}", "{|": "|}"}
CLOSING = frozenset(BRACKETS.values())
_SPOKEN = {
    "name": "a name",
    "int": "a whole number",
    "text": 'a text in quotes, "…"',
    "eof": "the end of the file",
    "|}": "`}`",
}
_OPERATORS = frozenset("?? or and == != < <= > >= in + - * / % <- <~ as".split())
_PERIOD = re.compile(r"/(hour|day|month)\b")
_BLANKS = re.compile(r"[ \t]*")
_GOES_ON = frozenset([";", ",", ")", "]", "="])
"""Behind a `}` these show that it closed no block."""
_WITHIN = frozenset(["else", "catch", ",", ")", "]", "="])
"""Behind a `}` these show that the statement goes on."""
_LONGEST_SHOWN = 30


class ParseError(Exception):
    """A fault that is reported already. Parsing goes on further down."""


class Cursor:
    """The position of the parser. `depth` counts open brackets and blocks, `height` is that of the
    last expression, `suspect` a `{` whose `}` is probably missing."""

    i: int
    depth: int
    height: int
    suspect: int

    def __init__(self, text: str, tokens: Tokens, findings: DiagnosticCollector) -> None:
        self.source = text
        self.kinds = tokens.kinds
        self.values = tokens.values
        self.starts = tokens.starts
        self.ends = tokens.ends
        self.findings = findings
        self.i = 0
        self.depth = 0
        self.height = 0
        self.faulty_lines = {self.line_start(at) for at in tokens.faulty}
        self.open_blocks: list[int] = []
        self.suspect = -1

    # Looking

    def line_start(self, at: int) -> int:
        """Return the offset at which the line of offset `at` begins."""
        return self.source.rfind("\n", 0, at) + 1

    def place(self, at: int) -> str:
        """Line and column, for a person."""
        return f"{self.source.count(chr(10), 0, at) + 1}:{at - self.line_start(at) + 1}"

    def begins_line(self, i: int) -> bool:
        """Nothing but blanks stands before token i on its line."""
        return i == 0 or "\n" in self.source[self.ends[i - 1] : self.starts[i]]

    def indent(self, at: int) -> int:
        """Return how many blanks and tabs the line of offset `at` begins with."""
        start = self.line_start(at)
        blanks = _BLANKS.match(self.source, start)
        return blanks.end() - start if blanks else 0

    def is_word(self, word: str) -> bool:
        """Return whether the token here is this word, as a name and not as a keyword."""
        return self.values[self.i] == word and self.kinds[self.i] == "name"

    def shown(self, i: int | None = None) -> str:
        """Return how a message calls token i, or the token here: quoted, shortened if it is
        long."""
        i = self.i if i is None else i
        kind, value = self.kinds[i], self.values[i]
        if kind == "eof":
            return "the end of the file"
        if kind == "open":
            return "a text"
        if len(value) > _LONGEST_SHOWN:
            value = value[:_LONGEST_SHOWN] + "…"
        return f"the keyword `{value}`" if kind in RESERVED else f"`{value}`"

    # Saying what is wrong

    def report(
        self,
        code: str,
        message: str,
        at: int,
        end: int,
        help: str = "",  # noqa: A002
        edit: Edit | None = None,
    ) -> None:
        """Nothing is said of a line on which a character or a keyword was wrong already."""
        if self.faulty_lines and self.line_start(at) in self.faulty_lines:
            return
        self.findings.report(code, message, at, end, help, edit)

    def fail(
        self,
        code: str,
        message: str,
        help: str = "",  # noqa: A002
        edit: Edit | None = None,
        i: int | None = None,
    ) -> NoReturn:
        """Report a fault at token i, or at the token here, and raise `ParseError`. At the end of
        the file the caret stands behind the last token."""
        i = self.i if i is None else i
        at, end = self.starts[i], self.ends[i]
        if self.kinds[i] == "eof" and i:
            at = end = self.ends[i - 1]
        self.report(code, message, at, max(end, at + 1), help, edit)
        raise ParseError

    def expected(self, what: str, help: str = "") -> NoReturn:  # noqa: A002
        """The caret stands here, or where the line before ended."""
        found = f"expected {what}, found {self.shown()}"
        if self.i and self.begins_line(self.i):
            end = self.ends[self.i - 1]
            self.report("expected", found, end, end + 1, help)
            raise ParseError
        self.fail("expected", found, help)

    def hint(self) -> str:
        """Return what was perhaps meant by the token here, which cannot stand behind a value; empty
        if nothing comes to mind."""
        kind = self.kinds[self.i]
        if kind in _OPERATORS:
            word = self.values[self.i]
            return f"to go on with `{word}`, put what stands before it in parentheses"
        return ""

    def stuck(self) -> None:
        """Report the token here if it is a sign of another language; `MisspellingParser` does
        it."""
        raise NotImplementedError

    def too_deep(self) -> NoReturn:
        """Report that the program is nested too deep, and end the parse as a whole."""
        found = f"the program is nested more than {MAX_NESTING} levels deep"
        at, end = self.starts[self.i], self.ends[self.i]
        self.report("too-deep", found, at, end, "give parts of it names by `let` or `fn`")
        raise TooManyDiagnosticsError

    def deeper(self) -> None:
        """Enter a bracket or block, unless that is too deep; the caller lowers `depth` when it
        leaves."""
        self.depth += 1
        if self.depth > MAX_NESTING:
            self.too_deep()

    def grown(self) -> None:
        """Count one more level of the expression that was just parsed, upward."""
        self.height += 1
        if self.height + self.depth > MAX_NESTING:
            self.too_deep()

    # Taking

    def take(self, kind: str, where: str = "") -> int:
        """The index of the token that is taken."""
        i = self.i
        if self.kinds[i] == kind:
            self.i = i + 1
            return i
        what = _SPOKEN.get(kind, f"`{kind}`")
        return self.expected(f"{what} {where}" if where else what)

    def name(self, where: str = "") -> str:
        i = self.i
        if self.kinds[i] == "name":
            self.i = i + 1
            return self.values[i]
        what = f"a name {where}" if where else "a name"
        if self.kinds[i] in RESERVED:
            value = self.values[i]
            found = f"expected {what}, but `{value}` is a keyword"
            edit = Edit(self.starts[i], self.ends[i], f"{value}_")
            self.fail("keyword-as-name", found, f"choose another name, such as `{value}_`", edit)
        return self.expected(what)

    def close(self, kind: str, opener: int, between: str = "") -> None:
        """The bracket that closes token `opener`."""
        if self.kinds[self.i] == kind:
            self.i += 1
            return
        self.stuck()
        at, shown = self.starts[opener], "}" if kind == "|}" else kind
        either = f"{between} or `{shown}`" if between else f"`{shown}`"
        found = f"expected {either}, found {self.shown()}"
        remedy = (
            self.hint()
            or f"the `{self.values[opener]}` at {self.place(at)} is not closed yet: add `{shown}`"
        )
        if kind == "|}" and self.kinds[self.i] == ":" and self.kinds[self.i - 1] != "text":
            remedy = "write `{str::pad_left(text, 10)}`, or `{math::round(x, 2)}`"
            self.fail("expected", "there are no formats in `{…}`", remedy)
        if kind == "|}":
            remedy = "for a brace in the text write \\{"
        if self.begins_line(self.i) or self.kinds[self.i] in {";", "eof", *CLOSING}:
            end = self.ends[self.i - 1]
            self.report("unclosed", found, end, end + 1, remedy, Edit(end, end, shown))
            raise ParseError
        self.fail("unclosed", found, remedy)

    def series(self, opening: str, one: Callable[[], T]) -> tuple[T, ...]:
        """`[one, one, …]`, with a comma after the last one if you like."""
        opener = self.take(opening)
        closing = BRACKETS[opening]
        items: list[T] = []
        height = 0
        while self.kinds[self.i] != closing:
            items.append(one())
            height = max(height, self.height)
            if self.kinds[self.i] != ",":
                break
            self.i += 1
        self.close(closing, opener, "`,`" if items else "")
        self.height = height
        return tuple(items)

    def semicolon(self, after: str) -> None:
        """Take the `;`. If it is missing at the end of a line, that is reported and the parse goes
        on as if it were there; elsewhere the statement is given up."""
        if self.kinds[self.i] == ";":
            self.i += 1
            return
        self.stuck()
        end = self.ends[self.i - 1]
        found = f"expected `;` after {after}, found {self.shown()}"
        if self.begins_line(self.i) or self.kinds[self.i] in {"}", "eof"}:
            edit = Edit(end, end, ";")
            self.report("missing-semicolon", found, end, end + 1, "add `;` here", edit)
            return
        self.fail("missing-semicolon", found, self.hint() or "end the statement with `;`")

    def nearly(self, i: int, known: Iterable[str], code: str, found: str) -> str:
        """The known word that token i was meant for, after it was reported."""
        close = SETTING_WORDS.get(self.values[i], "")
        close = close if close in known else nearest(self.values[i], known)
        at, end = self.starts[i], self.ends[i]
        remedy = f"did you mean `{close}`?" if close else f"one of: {', '.join(known)}"
        self.report(code, found, at, end, remedy, Edit(at, end, close) if close else None)
        if not close:
            raise ParseError
        return close

    # Going on after a fault

    def skip_statement(self) -> None:
        """Skip to behind the `;` or block that ends the faulty statement, to the `}` around it, or
        to where another one begins."""
        kinds = self.kinds
        began = self.i
        while (kind := kinds[self.i]) != "eof":
            if kind == ";":
                self.i += 1
                return
            if kind == "}" and kinds[self.i + 1] not in _GOES_ON:
                return
            if self.i > began and self.starts_anew(kind):
                return
            if kind == "{":
                self.skip_braces()
                if kinds[self.i] in _WITHIN:
                    continue
                if kinds[self.i] == ";":
                    self.i += 1
                return
            self.i += 1

    def starts_anew(self, kind: str) -> bool:
        """A statement or declaration begins here, on a line of its own."""
        if kind == "name":
            word, follows = self.values[self.i], self.kinds[self.i + 1]
            declares = word in TOP_WORDS or word in FOREIGN_WORDS
            return declares and follows in {"name", "text"} and self.begins_line(self.i)
        return kind in LINE_STARTERS and self.begins_line(self.i)

    def skip_braces(self) -> None:
        """Skip from a `{` to behind its `}`."""
        depth = 0
        while (kind := self.kinds[self.i]) != "eof":
            depth += (kind == "{") - (kind == "}")
            self.i += 1
            if depth == 0:
                return

    def skip_to_block(self) -> None:
        """Skip to the `{` on this line; when there is none the fault goes up."""
        i = self.i
        while self.kinds[i] not in {"eof", ";", "}"} and (i == self.i or not self.begins_line(i)):
            if self.kinds[i] == "{":
                self.i = i
                return
            i += 1
        raise ParseError

    def period(self) -> str:
        """`day` when `/day` stands right behind the amount that was just taken."""
        end = self.ends[self.i - 1]
        if self.kinds[self.i] != "/" or not (found := _PERIOD.match(self.source, end)):
            return ""
        self.i += 2
        return found[1]
