"""The contract language as it is written: tokens and syntax (pure).

    amount > 0 AND order.status IN ['pending', 'open']
    FORALL item IN items: item.quantity >= 1
    balance == old(balance) - amount

| binds, loosest first                    | note                                                  |
|-----------------------------------------|-------------------------------------------------------|
| `FORALL x IN e: e`, `EXISTS`, `IF e THEN e ELSE e` | reach as far to the right as they can      |
| `OR`, then `AND`, then `NOT`            | what stands right of OR and AND may not be evaluated  |
| `== != < <= > >= IN CONTAINS`           | not in a row: `a < b AND b < c`                       |
| `+ -`, then `* / %`, then `-e`          | left to right                                         |
| `e.field`, `e[key]`                     |                                                       |

Primaries are numbers, `0.25`, 'text' or "text" (without escapes), `true`, `false`, names, `(e)`,
`[e, e]`, `{name: e}`, `SUM(e)`, `SUM(x IN e: e)`, `all(e)`, `old(e)`, and calls of `FUNCTIONS`.
Nothing in it can run code, wait or look anything up. Size and depth are bounded before anything is
built, so that a hostile text is refused at once.
"""

import re
from collections.abc import Callable, Mapping

from msgspec import Struct

from vegakit.contracts.node_types import DECIMAL_DIGITS, INTEGER_MAX, INTEGER_MIN, MAX_SCALE
from vegakit.errors import UserError, did_you_mean

MAX_EXPRESSION = 4_000
MAX_HEIGHT = 40
FUNCTIONS: Mapping[str, int] = {
    "ABS": 1,
    "LENGTH": 1,
    "MAX": 2,
    "MIN": 2,
    "ROUND": 2,
    "SECONDS": 2,
    "TIMESTAMP": 1,
}
"""The functions and how many arguments each takes."""
QUANTIFIERS = ("FORALL", "EXISTS")
RELATIONS = ("==", "!=", "<=", ">=", "<", ">")
KEYWORDS = frozenset(
    "AND OR NOT IN CONTAINS FORALL EXISTS SUM IF THEN ELSE all old true false".split()
)
_LEVELS = {
    "OR": 1,
    "AND": 2,
    **dict.fromkeys((*RELATIONS, "IN", "CONTAINS"), 4),
    **dict.fromkeys("+-", 5),
    **dict.fromkeys("*/%", 6),
}
_NOT_LEVEL, _RELATION_LEVEL, _MINUS_LEVEL = 3, 4, 7
_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<number>[0-9]+(?:\.[0-9]+)?(?![A-Za-z_0-9.]))
    |(?P<name>[A-Za-z][A-Za-z0-9_]*)
    |(?P<text>'[^'\n]*'|"[^"\n]*")
    |(?P<sign>==|!=|<=|>=|[-+*/%<>().,:\[\]{}])""",
    re.VERBOSE,
)
_FOREIGN = {
    "=": "write == to compare",
    "&": "write AND",
    "|": "write OR",
    "!": "write NOT, or != to compare",
    "'": "close the quote in the same line",
    '"': "close the quote in the same line",
    "_": "names begin with a letter",
}


class ExpressionError(UserError):
    """A mistake in an expression: where it is, counted from 1, and what to write instead."""

    def __init__(self, text: str, at: int, reason: str) -> None:
        self.line = text.count("\n", 0, at) + 1
        self.column = at - (text.rfind("\n", 0, at) + 1) + 1
        self.reason = reason
        place = f"column {self.column}" if self.line == 1 else f"{self.line}:{self.column}"
        super().__init__(f"in {_shortened(text)!a}, {place}: {reason}")


def _shortened(text: str) -> str:
    one_line = " ".join(text[:200].split())
    return one_line if len(one_line) <= 70 else one_line[:67] + "..."


class _Token(Struct, frozen=True):
    kind: str
    text: str
    at: int


class Term(Struct, frozen=True):
    """A part of an expression as it is written. `kind` says which: `integer decimal text boolean
    name field item negate NOT binary FORALL EXISTS SUM all old IF list record entry call`."""

    kind: str
    at: int
    text: str = ""
    parts: tuple["Term", ...] = ()
    height: int = 1


def parse_expression(text: str) -> Term:
    """Return an expression as it is written, or raise `ExpressionError`."""
    if len(text) > MAX_EXPRESSION:
        raise ExpressionError(
            text, 0, f"{len(text):,} characters of at most {MAX_EXPRESSION:,}; split it"
        )
    return _Parser(text).whole()


def _tokens(text: str) -> list[_Token]:
    found, at = list[_Token](), 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            fix = _FOREIGN.get(text[at], "take it out")
            if text[at].isdigit():
                fix = "a number is digits, with a point and digits if it is a decimal"
            raise ExpressionError(text, at, f"{text[at]!a} is not read here; {fix}")
        if match.lastgroup != "space":
            found.append(_Token(match.lastgroup or "", match[0], at))
        at = match.end()
    return [*found, _Token("end", "", len(text))]


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._at = 0
        self._depth = 0

    def whole(self) -> Term:
        found = self._expression(0)
        if self._token.kind != "end":
            raise self._unexpected("an operator or the end")
        return found

    @property
    def _token(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        self._at += 1
        return self._tokens[self._at - 1]

    def _accept(self, text: str) -> bool:
        # A quoted text is never a sign.
        if self._token.text == text and self._token.kind in ("name", "sign"):
            self._at += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise self._unexpected(repr(text))

    def _error(self, at: int, reason: str) -> ExpressionError:
        return ExpressionError(self._text, at, reason)

    def _unexpected(self, wanted: str) -> ExpressionError:
        token = self._token
        got = f"{token.text[:40]!a}" if token.text else "the end"
        hint = ""
        if token.kind == "name" and token.text.upper() in KEYWORDS | {"XOR"}:
            hint = f"; write {token.text.upper()}" if token.text.upper() in KEYWORDS else ""
        elif token.kind == "name":
            hint = did_you_mean(token.text.upper(), ("AND", "OR", "IN", "CONTAINS"), "")
            hint = f"; {hint}" if hint else ""
        return self._error(token.at, f"{wanted} is expected here, and there is {got}{hint}")

    def _made(self, kind: str, at: int, text: str = "", parts: tuple[Term, ...] = ()) -> Term:
        height = 1 + max((part.height for part in parts), default=0)
        if height > MAX_HEIGHT:
            raise self._error(
                at, f"this is nested deeper than {MAX_HEIGHT} levels; split it into steps"
            )
        return Term(kind, at, text, parts, height)

    def _expression(self, level: int) -> Term:
        self._depth += 1
        if self._depth > MAX_HEIGHT:
            raise self._error(
                self._token.at,
                f"this is nested deeper than {MAX_HEIGHT} levels; split it into steps",
            )
        left = self._prefixed(level)
        while (found := self._operator()) and _LEVELS[found[0]] > level:
            left = self._binary(left, *found)
        self._depth -= 1
        return left

    def _operator(self) -> tuple[str, bool] | None:
        """Return the operator that comes next, and whether it is negated: `NOT IN`."""
        token = self._token
        if token.kind == "name" and token.text == "NOT":
            following = self._tokens[self._at + 1].text
            return (following, True) if following in ("IN", "CONTAINS") else None
        return (token.text, False) if token.kind != "text" and token.text in _LEVELS else None

    def _binary(self, left: Term, operator: str, negated: bool) -> Term:
        at = self._take().at
        if negated:
            self._take()
        level = _LEVELS[operator]
        right = self._expression(level)
        more = self._operator()
        if more and level == _RELATION_LEVEL == _LEVELS[more[0]]:
            raise self._error(self._token.at, "comparisons are not chained; write a < b AND b < c")
        made = self._made("binary", at, operator, (left, right))
        return self._made("NOT", at, parts=(made,)) if negated else made

    def _prefixed(self, level: int) -> Term:
        token = self._token
        if self._accept("NOT"):
            if level > _NOT_LEVEL:
                raise self._error(token.at, "put NOT and what it negates in parentheses")
            return self._made("NOT", token.at, parts=(self._expression(_NOT_LEVEL - 1),))
        if self._accept("-"):
            if self._token.kind == "number":
                return self._postfixed(self._number(self._take(), negative=True))
            return self._made("negate", token.at, parts=(self._expression(_MINUS_LEVEL),))
        return self._postfixed(self._primary())

    def _postfixed(self, found: Term) -> Term:
        while True:
            at = self._token.at
            if self._accept("."):
                found = self._made("field", at, self._name("a field"), (found,))
            elif self._accept("["):
                found = self._made("item", at, parts=(found, self._expression(0)))
                self._expect("]")
            else:
                return found

    def _name(self, what: str) -> str:
        token = self._token
        if token.kind != "name" or token.text in KEYWORDS:
            raise self._unexpected(what)
        return self._take().text

    def _number(self, token: _Token, *, negative: bool = False) -> Term:
        digits = f"-{token.text}" if negative else token.text
        whole, point, places = token.text.partition(".")
        if point:
            if len(places) > MAX_SCALE or len((whole + places).lstrip("0")) > DECIMAL_DIGITS:
                raise self._error(
                    token.at,
                    f"a decimal has at most {DECIMAL_DIGITS} digits, {MAX_SCALE} after the point",
                )
            return self._made("decimal", token.at, digits)
        if len(whole) > 30 or not INTEGER_MIN <= int(digits) <= INTEGER_MAX:
            raise self._error(
                token.at, "an integer fits 64 bits; with a point it is a decimal: 10.0"
            )
        return self._made("integer", token.at, digits)

    def _primary(self) -> Term:
        token = self._token
        if token.kind == "number":
            return self._number(self._take())
        if token.kind == "text":
            return self._made("text", self._take().at, token.text[1:-1])
        if token.kind == "name":
            return self._named(token)
        if self._accept("("):
            inner = self._expression(0)
            self._expect(")")
            return inner
        if self._accept("["):
            return self._made("list", token.at, parts=self._until("]", self._item))
        if self._accept("{"):
            return self._made("record", token.at, parts=self._until("}", self._entry))
        raise self._unexpected("a value")

    def _item(self) -> Term:
        return self._expression(0)

    def _entry(self) -> Term:
        at = self._token.at
        name = self._name("the name of a field")
        self._expect(":")
        return self._made("entry", at, name, (self._expression(0),))

    def _until(self, end: str, read: Callable[[], Term]) -> tuple[Term, ...]:
        parts = list[Term]()
        while not self._accept(end):
            if parts:
                self._expect(",")
            parts.append(read())
        return (*parts,)

    def _named(self, token: _Token) -> Term:
        name = token.text
        if name in QUANTIFIERS:
            self._take()
            return self._made(name, token.at, *self._binding())
        if name == "IF":
            return self._conditional(self._take())
        if name in ("true", "false"):
            return self._made("boolean", self._take().at, name)
        if name in ("SUM", "all", "old"):
            return self._folded(self._take())
        if name in KEYWORDS:
            raise self._unexpected("a value")
        self._take()
        if not self._accept("("):
            return self._made("name", token.at, name)
        if name not in FUNCTIONS:
            raise self._error(
                token.at,
                f"there is no function {name[:40]!a}; "
                f"{did_you_mean(name, [*FUNCTIONS, 'SUM', 'all', 'old'])}",
            )
        parts = self._until(")", self._item)
        if len(parts) != FUNCTIONS[name]:
            raise self._error(
                token.at, f"{name} takes {FUNCTIONS[name]} arguments, and has {len(parts)}"
            )
        return self._made("call", token.at, name, parts)

    def _binding(self) -> tuple[str, tuple[Term, ...]]:
        name = self._name("the name of an item")
        self._expect("IN")
        over = self._expression(_RELATION_LEVEL)
        self._expect(":")
        return name, (over, self._expression(0))

    def _conditional(self, token: _Token) -> Term:
        test = self._expression(0)
        self._expect("THEN")
        then = self._expression(0)
        self._expect("ELSE")
        return self._made("IF", token.at, parts=(test, then, self._expression(0)))

    def _folded(self, token: _Token) -> Term:
        """Return `SUM(e)`, `SUM(x IN e: e)`, `all(e)` or `old(e)`."""
        self._expect("(")
        following = self._tokens[self._at + 1]
        if token.text == "SUM" and self._token.kind == "name" and following.text == "IN":
            made = self._made("SUM", token.at, *self._binding())
        else:
            made = self._made(token.text, token.at, parts=(self._expression(0),))
        self._expect(")")
        return made
