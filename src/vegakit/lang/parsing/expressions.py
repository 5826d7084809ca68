"""Expressions, by how tightly their operators bind.

| level | operators                     |                                                      |
|-------|-------------------------------|------------------------------------------------------|
|       | `<-` `<~` `async spawn await` | the left side of a send stands at level 8            |
|       | `as T`                        |                                                      |
| 1     | `??`                          |                                                      |
| 2     | `or`                          | the message of a send and the values of its options  |
| 3     | `and`                         |                                                      |
| 4     | `not`                         |                                                      |
| 5     | `== != < <= > >= in`          | not chained                                          |
| 6     | `+ -`                         |                                                      |
| 7     | `* / %`                       |                                                      |
| 8     | `-x`, calls, `x[i]`, `x.f`    |                                                      |

At most four Python frames are used for a level of nesting, so that 200 levels fit on the stack.
`height` is that of the last expression parsed: long chains make trees deep that no bracket
announces.
"""

from typing import TypeAlias

from vegakit.lang.parsing.sending import SendParser
from vegakit.lang.tree import (
    Binary,
    Build,
    Call,
    Cast,
    Decimal,
    Duration,
    Expr,
    Index,
    ListLit,
    MapLit,
    Member,
    MoneyLit,
    Name,
    Pair,
    Unary,
    Whole,
    Word,
)

__all__ = ["ExpressionParser"]

_LEVELS = {
    "??": 1,
    "or": 2,
    "||": 2,
    "and": 3,
    "&&": 3,
    "==": 5,
    "!=": 5,
    "<": 5,
    "<=": 5,
    ">": 5,
    ">=": 5,
    "in": 5,
    "+": 6,
    "-": 6,
    "*": 7,
    "/": 7,
    "%": 7,
}
_NOT, _COMPARE = 4, 5
_NOTS = frozenset(["not", "!"])
_FOREIGN = frozenset(["||", "&&", "!"])
_SENDS = frozenset(["<-", "<~"])
_PREFIXES = frozenset(["spawn", "async", "await"])
_CLINGING = frozenset(["(", "[", "."])
_TEXTS = frozenset(["text", "open"])
_WORDS = {"true": True, "false": False, "null": None}

_Waiting: TypeAlias = tuple[int, str, int, Expr | None, int]
"""Level, operator, where it begins, left side (none of `not`), and the height of that."""


class ExpressionParser(SendParser):
    def expr(self) -> Expr:
        kinds = self.kinds
        i = self.i
        if kinds[i] in _PREFIXES:
            return self.prefixed()
        if kinds[i] in _NOTS:
            value = self.operators(1)
        else:
            value = self.operand()
            kind = kinds[self.i]
            if kind in _SENDS and kinds[i] != "-":
                return self.ask(value, i)
            if kind in _LEVELS:
                value = self.operators(1, value, self.starts[i])
        while kinds[self.i] == "as":
            self.i += 1
            to = self.type("after `as`")
            value = Cast(self.starts[i], self.ends[self.i - 1], value, to)
            self.grown()
        if kinds[self.i] in _SENDS:
            self.not_an_agent()
        return value

    def operators(self, least: int, left: Expr | None = None, at: int = 0) -> Expr:
        """Operators from level `least` up, and their operands; `left` is the first one if it was
        taken already. What waits for its right side waits in a list, not on Python's stack."""
        kinds = self.kinds
        waiting: list[_Waiting] = []
        while True:
            if left is None:
                while kinds[self.i] in _NOTS:
                    waiting.append(self.negation(waiting, least))
                at = self.starts[self.i]
                left = self.operand()
            level = _LEVELS.get(kinds[self.i], 0)
            while waiting and waiting[-1][0] >= level:
                if level == waiting[-1][0] == _COMPARE:
                    self.chained()
                at = waiting[-1][2]
                left = self.joined(waiting.pop(), left)
            if level < least:
                return left
            waiting.append((level, self.operator(), at, left, self.height))
            left = None

    def operator(self) -> str:
        kind = self.kinds[self.i]
        if kind in _FOREIGN:
            kind = self.meant(kind)
        self.i += 1
        return kind

    def negation(self, waiting: "list[_Waiting]", least: int) -> "_Waiting":
        if least > _NOT or (waiting and waiting[-1][0] > _NOT):
            remedy = "put it in parentheses: (not …)"
            self.fail("expected", "`not` binds more loosely than what stands before it", remedy)
        at = self.starts[self.i]
        return (_NOT, self.operator(), at, None, 0)

    def joined(self, waiting: "_Waiting", right: Expr) -> Expr:
        _, operator, at, left, height = waiting
        end = self.ends[self.i - 1]
        self.height = max(height, self.height)
        self.grown()
        if left is None:
            return Unary(at, end, operator, right)
        return Binary(at, end, operator, left, right)

    def operand(self) -> Expr:  # noqa: C901, PLR0912  (one frame, see above)
        """An atom and what clings to it."""
        i = self.i
        kind = self.kinds[i]
        at = self.starts[i]
        self.height = 0
        if kind == "name":
            if self.kinds[i + 1] == "::":
                path = self.path()
                value = Name(at, self.ends[self.i - 1], path)
            else:
                self.i = i + 1
                value = Name(at, self.ends[i], self.values[i])
        elif kind == "(":
            self.i = i + 1
            self.deeper()
            value = self.expr()
            self.depth -= 1
            self.close(")", i)
        elif kind in _TEXTS:
            value = self.text()
        elif kind == "[":
            value = self.build() if self.kinds[i + 1] == "for" else self.list()
        elif kind == "{":
            value = self.map()
        elif kind == "-":
            return self.minus()
        else:
            value = self.atom(kind, i)
        while (kind := self.kinds[self.i]) in _CLINGING:
            if kind == "(":
                value = self.call(value, at)
            elif kind == "[":
                value = self.index(value, at)
            else:
                self.i += 1
                name = self.member_name()
                value = Member(at, self.ends[self.i - 1], value, name)
                self.grown()
        return value

    def index(self, of: Expr, at: int) -> Expr:
        opener, height = self.i, self.height
        self.i += 1
        self.deeper()
        index = self.expr()
        self.depth -= 1
        self.close("]", opener)
        self.height = max(height, self.height)
        self.grown()
        return Index(at, self.ends[self.i - 1], of, index)

    def call(self, callee: Expr, at: int) -> Expr:
        opener, height = self.i, self.height
        kinds = self.kinds
        args: list[Expr] = []
        names: list[str] = []
        self.i += 1
        self.deeper()
        while kinds[self.i] != ")":
            name = ""
            if kinds[self.i + 1] == ":" and kinds[self.i] == "name":
                name = self.values[self.i]
                self.i += 2
            names.append(name)
            args.append(self.expr())
            height = max(height, self.height)
            if kinds[self.i] != ",":
                break
            self.i += 1
        self.close(")", opener, "`,`" if args else "")
        self.depth -= 1
        self.height = height
        self.grown()
        return Call(at, self.ends[self.i - 1], callee, tuple(args), tuple(names))

    def atom(self, kind: str, i: int) -> Expr:
        """What `operand` did not see to itself."""
        at, end = self.starts[i], self.ends[i]
        self.i = i + 1
        if kind == "int":
            return Whole(at, end, self.whole(i))
        if kind in _WORDS:
            return Word(at, end, _WORDS[kind])
        if kind == "money":
            return MoneyLit(at, end, self.nanos(i))
        if kind == "float":
            return Decimal(at, end, self.decimal(i))
        if kind == "duration":
            return Duration(at, end, self.ms(i))
        self.i = i
        return self.no_expression(kind)

    def minus(self) -> Expr:
        first = self.i
        while self.kinds[self.i] == "-":
            self.i += 1
        last = self.i
        self.deeper()
        value = self.operand()
        self.depth -= 1
        for i in range(last - 1, first - 1, -1):
            value = Unary(self.starts[i], self.ends[self.i - 1], "-", value)
            self.grown()
        return value

    def list(self) -> Expr:
        opener = self.i
        items: list[Expr] = []
        height = 0
        self.i += 1
        self.deeper()
        while self.kinds[self.i] != "]":
            items.append(self.expr())
            height = max(height, self.height)
            if self.kinds[self.i] != ",":
                break
            self.i += 1
        self.close("]", opener, "`,`" if items else "")
        self.depth -= 1
        self.height = height
        self.grown()
        return ListLit(self.starts[opener], self.ends[self.i - 1], tuple(items))

    def build(self) -> Expr:
        opener = self.i
        self.i += 2
        self.deeper()
        name = self.name("after `for`")
        self.take("in", "after the name")
        over, where, height = self.expr(), None, self.height
        if self.kinds[self.i] == "if":
            self.i += 1
            where = self.expr()
            height = max(height, self.height)
        brace = self.take("{", "before the item that is built")
        item = self.expr()
        self.close("}", brace)
        self.close("]", opener)
        self.depth -= 1
        self.height = max(height, self.height)
        self.grown()
        return Build(self.starts[opener], self.ends[self.i - 1], name, over, where, item)

    def map(self) -> Expr:
        opener = self.i
        pairs: list[Pair] = []
        height = 0
        self.i += 1
        self.deeper()
        while self.kinds[self.i] != "}":
            at, key = self.starts[self.i], self.expr()
            height = max(height, self.height)
            if self.kinds[self.i] != ":":
                self.no_colon(opener, bool(pairs))
            self.i += 1
            value = self.expr()
            height = max(height, self.height)
            pairs.append(Pair(at, self.ends[self.i - 1], key, value))
            if self.kinds[self.i] != ",":
                break
            self.i += 1
        self.close("}", opener, "`,`" if pairs else "")
        self.depth -= 1
        self.height = height
        self.grown()
        return MapLit(self.starts[opener], self.ends[self.i - 1], tuple(pairs))
