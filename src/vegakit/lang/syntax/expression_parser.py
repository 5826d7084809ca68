"""Parse expressions by operator precedence, with sends, spawns and `await` (pure)."""

from typing import NoReturn, TypeAlias

from vegakit.lang.diagnostics import Edit
from vegakit.lang.syntax import tree
from vegakit.lang.syntax.cursor import SPAWN_OPTIONS, SPAWN_RULES, ParseError
from vegakit.lang.syntax.lexer import MAX_INT, RESERVED, duration_ms, money_nanos
from vegakit.lang.syntax.type_parser import SettingParser

# Sends, spawns and waiting; and what is said when an expression is none.
#
# a <- m timeout 30s budget $1 as T          async a <- m          a <~ m
# spawn A wallet $2 named "x" supervised by { strategy restart }   spawn async A   await f
# race [a <- m, b <- m]      race x in [a <- m, b <- m] if len(x) > 3


_OR = 2
_MEANT = {"||": "or", "&&": "and", "!": "not"}
_INSTEAD = {
    ")": "something is missing before it",
    "]": "something is missing before it",
    "=": "to compare write `==`",
    "=>": "there are no arrow functions",
    "parallel": "`parallel { … }` is a statement; several answers at once are futures: "
    "`[for x in xs { async A <- x }]`",
    ".": "write numbers with a digit before the point, like 0.5",
    "|": "there are no functions without a name; to make a list write `[for x in xs { … }]`",
    "?": "there is no `a ? b : c`; use `if`, or `??` for a value that may be null",
    "*": "something is missing before it",
    "if": "`if` is a statement: give the value a name by `let` first and assign to it",
    "await": "put it in parentheses: (await …)",
    "spawn": "put it in parentheses: (spawn …)",
    "async": "put it in parentheses: (async …)",
    "race": "put it in parentheses: (race …)",
    "fn": "functions are declared at top level, and have a name",
    "<-": "write the agent before it: agent <- message",
}

_SENDS = frozenset(["<-", "<~"])
_SEND_PREFIXES = frozenset(["spawn", "async", "await", "race"])
_ASK_OPTIONS = frozenset(["timeout", "budget", "as"])
_RACE = "write `race [a <- m, b <- m]`, or `race x in [a <- m, b <- m] if len(x) > 3`"


class SendParser(SettingParser):
    """Parses sends, spawns and waits, and reports what is no expression."""

    def prefixed(self) -> tree.Expr:
        """`spawn`, `async`, `await` or `race` and what follows."""
        i = self.i
        kind = self.kinds[i]
        if kind == "spawn":
            return self.spawn()
        if kind == "race":
            return self.race()
        self.i = i + 1
        self.deeper()
        if kind == "await":
            of = self.prefixed() if self.kinds[i + 1] in _SEND_PREFIXES else self.operand()
            self.depth -= 1
            self.grown()
            if self.kinds[self.i] in _SENDS:
                edit = Edit(self.starts[i], self.starts[i + 1], "")
                self.fail("not-a-future", "a send waits by itself", "leave `await` out", edit, i)
            return tree.Await(self.starts[i], self.ends[self.i - 1], of)
        to = self.operand()
        self.depth -= 1
        if self.kinds[self.i] not in {"<-", "<~"} or self.kinds[i + 1] == "-":
            remedy = "write `async agent <- message`, or `spawn async Agent`"
            self.expected("`<-` after `async` and an agent", remedy)
        return self.ask(to, i, later=True)

    def ask(self, to: tree.Expr, first: int, later: bool = False) -> tree.Ask:
        """Parse a send from the arrow on; `first` is the token where the whole send begins."""
        height, stream = self.height, self.kinds[self.i] == "<~"
        self.i += 1
        message = self.operators(_OR)
        height = max(height, self.height)
        options: dict[str, tree.Expr] = {}
        answer: tree.TypeExpr | None = None
        while True:
            word = self.values[self.i]
            if word not in _ASK_OPTIONS:
                break
            if word in options or (word == "as" and answer is not None):
                self.fail("twice", f"this send has `{word}` twice", "remove one of them")
            self.i += 1
            if self.kinds[self.i] == ":":
                at, end = self.starts[self.i], self.ends[self.i]
                remedy = f"write: {word} …"
                self.fail("separator", f"`{word}` has no `:`", remedy, Edit(at, end, ""))
            if word == "as":
                answer = self.type("after `as`")
            else:
                options[word] = self.operators(_OR)
                height = max(height, self.height)
        self.height = height
        self.grown()
        at, end = self.starts[first], self.ends[self.i - 1]
        timeout, budget = options.get("timeout"), options.get("budget")
        return tree.Ask(at, end, to, message, stream, later, timeout, budget, answer)

    def spawn(self) -> tree.Spawn:
        first = self.i
        self.i += 1
        later = self.kinds[self.i] == "async"
        self.i += later
        if self.kinds[self.i] != "name":
            self.expected("the name of an agent after `spawn`", "write it like: spawn Coder")
        agent = self.name_path("")
        if self.kinds[self.i] == "(":
            remedy = f"write: spawn {agent.name}"
            closes, at = self.kinds[self.i + 1] == ")", self.starts[self.i]
            edit = Edit(at, self.ends[self.i + 1], "") if closes else None
            self.fail("expected", "an agent is spawned without parentheses", remedy, edit)
        found: dict[str, tree.Expr] = {}
        rules: tuple[tree.Setting, ...] | None = None
        height = 0
        self.deeper()
        while (word := self.values[self.i]) in SPAWN_OPTIONS:
            if word in found or (word == "supervised" and rules is not None):
                self.fail("twice", f"this spawn has `{word}` twice", "remove one of them")
            self.i += 1
            if word == "supervised":
                self.by()
            if word == "supervised" and self.kinds[self.i] == "{":
                rules = self.settings(SPAWN_RULES, "a supervised spawn")
                continue
            found[word] = self.operators(_OR)
            height = max(height, self.height)
        if word == "budget":
            edit = Edit(self.starts[self.i], self.ends[self.i], "wallet")
            said = "what a process may spend is its wallet"
            self.fail("expected", said, "write `wallet`", edit)
        self.depth -= 1
        self.height = height
        self.grown()
        at, end = self.starts[first], self.ends[self.i - 1]
        wallet, named, under = map(found.get, SPAWN_OPTIONS)
        return tree.Spawn(at, end, agent, later, wallet, named, under, rules)

    def by(self) -> None:
        """Take the `by` that stands behind `supervised`."""
        if not self.is_word("by"):
            self.expected("`by` after `supervised`")
        self.i += 1

    def name_path(self, where: str) -> tree.Name:
        """Parse `a` or `a::b` into a name."""
        i = self.i
        if self.kinds[i] != "name":
            self.name(where)
        path = self.path()
        return tree.Name(self.starts[i], self.ends[self.i - 1], path)

    # Values of literals

    def nanos(self, i: int) -> int:
        nanos = money_nanos(self.values[i])
        if nanos is None:
            found = f"{self.shown(i)} is not an amount of money"
            remedy = "amounts have at most six decimals and are at most a billion dollars"
            self.report("bad-money", found, self.starts[i], self.ends[i], remedy)
        return nanos or 0

    def ms(self, i: int) -> int:
        """Return the milliseconds of a duration; one that is too long is reported and is 0."""
        ms = duration_ms(self.values[i])
        if ms is None:
            found = f"{self.shown(i)} is too long a time"
            self.report("number-too-large", found, self.starts[i], self.ends[i], "use fewer digits")
        return ms or 0

    def decimal(self, i: int) -> float:
        """Return the value of a float; one that is too large is reported and is 0."""
        value = float(self.values[i])
        if value == float("inf"):
            found = f"{self.shown(i)} is too large for a float"
            self.report("number-too-large", found, self.starts[i], self.ends[i], "at most 1e308")
            return 0.0
        return value

    # What is wrong with an expression

    def meant(self, written: str) -> str:
        """`||` is said to be `or`, and taken as such."""
        word = _MEANT[written]
        at, end = self.starts[self.i], self.ends[self.i]
        edit = Edit(at, end, "not " if word == "not" else word)
        self.report(
            "foreign-operator", f"`{written}` is spelled `{word}`", at, end, f"write `{word}`", edit
        )
        return word

    def chained(self) -> NoReturn:
        """Report comparisons in a row, such as `a < b < c`."""
        remedy = "write both comparisons: a < b and b < c"
        self.fail("chained-comparison", "comparisons cannot be chained", remedy)

    def member_name(self) -> str:
        """Take the name behind a `.` that is taken already, and report `..` as what it is."""
        if self.kinds[self.i] == ".":
            self.no_range()
        return self.name("after `.`")

    def no_range(self) -> NoReturn:
        """Report `1..10`."""
        first, last = self.i - 2, self.i + 1
        ends = {self.kinds[first], self.kinds[last]}
        written = None
        if ends <= {"int", "name"}:
            written = f"range({self.values[first]}, {self.values[last]})"
        remedy = f"write `{written or 'range(0, 10)'}`, without the last number"
        found = "there is no `..`"
        if written is None:
            self.fail("foreign-operator", found, remedy)
        self.foreign(found, remedy, first, last, written)

    def no_colon(self, opener: int, later: bool) -> NoReturn:
        """A block where a value should stand looks like a map that went wrong."""
        if later or not (self.kinds[self.i] == ";" or self.begins_line(opener + 1)):
            self.expected("`:` between key and value", 'write maps as {"key": value}')
        self.i = opener
        found = "expected a value, found a block"
        self.fail("expected-value", found, f"write a value after `{self.values[opener - 1]}`")

    def not_an_agent(self) -> NoReturn:
        """Report an arrow behind a value that cannot be an agent, such as `a + b <- c`."""
        arrow = self.values[self.i]
        remedy = "put it in parentheses"
        if arrow == "<-":
            remedy = "to compare with a negative number write `< -`; else put it in parentheses"
        found = f"`{arrow}` sends a message, and what stands before it is not one agent"
        self.fail("not-an-agent", found, remedy)

    def no_expression(self, kind: str) -> NoReturn:
        """Report a token that begins no value, with what to write instead where that is known."""
        self.foreign_value(kind)
        found = f"expected a value, found {self.shown()}"
        if kind in _INSTEAD:
            self.fail("expected-value", found, _INSTEAD[kind])
        if kind in RESERVED:
            word = self.values[self.i]
            self.fail("expected-value", found, f"as a name, `{word}_` would do")
        self.no_value_after(found)

    def no_value_after(self, found: str) -> NoReturn:
        """Report that a value is missing. At the end of a line or statement the place to write is
        behind the token before."""
        end = self.ends[self.i - 1] if self.i else 0
        if self.i and (
            self.begins_line(self.i) or self.kinds[self.i] in {";", ",", "}", "|}", "eof"}
        ):
            remedy = f"write a value after `{self.values[self.i - 1]}`"
            self.report("expected-value", found, end, end + 1, remedy)
            raise ParseError
        self.fail("expected-value", found)

    def operators(self, least: int, left: tree.Expr | None = None, at: int = 0) -> tree.Expr:
        """Parse operators from level `least` up; `ExpressionParser` does it."""
        raise NotImplementedError

    def operand(self) -> tree.Expr:
        """Parse an atom and what clings to it; `ExpressionParser` does it."""
        raise NotImplementedError

    def race(self) -> tree.Race:
        """Parse a race; `ExpressionParser` does it."""
        raise NotImplementedError


# Expressions, by how tightly their operators bind.
#
# | level | operators                     |                                                      |
# |-------|-------------------------------|------------------------------------------------------|
# |       | `<-` `<~` `async spawn await` | the left side of a send stands at level 8            |
# |       | `as T`                        |                                                      |
# | 1     | `??`                          |                                                      |
# | 2     | `or`                          | the message of a send and the values of its options  |
# | 3     | `and`                         |                                                      |
# | 4     | `not`                         |                                                      |
# | 5     | `== != < <= > >= in`          | not chained                                          |
# | 6     | `+ -`                         |                                                      |
# | 7     | `* / %`                       |                                                      |
# | 8     | `-x`, calls, `x[i]`, `x.f`    |                                                      |
#
# At most four Python frames are used for a level of nesting, so that 200 levels fit on the stack.
# `height` is that of the last expression parsed: long chains make trees deep that no bracket
# announces.


_OPERATORS = {1: "??", 2: "or ||", 3: "and &&", 5: "== != < <= > >= in", 6: "+ -", 7: "* / %"}
_LEVELS = {word: level for level, words in _OPERATORS.items() for word in words.split()}
_NOT, _COMPARE = 4, 5
_NOTS = frozenset(["not", "!"])
_FOREIGN = frozenset(["||", "&&", "!"])
_CLINGING = frozenset(["(", "[", "."])
_TEXTS = frozenset(["text", "open"])
_WORDS = {"true": True, "false": False, "null": None}

_Waiting: TypeAlias = tuple[int, str, int, tree.Expr | None, int]
"""Level, operator, where it begins, left side (none of `not`), and the height of that."""


class ExpressionParser(SendParser):
    """Parses expressions by the levels of their operators."""

    def expr(self) -> tree.Expr:
        kinds = self.kinds
        i = self.i
        if kinds[i] in _SEND_PREFIXES:
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
            value = tree.Cast(self.starts[i], self.ends[self.i - 1], value, to)
            self.grown()
        if kinds[self.i] in _SENDS:
            self.not_an_agent()
        return value

    def operators(self, least: int, left: tree.Expr | None = None, at: int = 0) -> tree.Expr:
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
        """Take an operator. One of another language is reported, and ours is returned in its
        place."""
        kind = self.kinds[self.i]
        if kind in _FOREIGN:
            kind = self.meant(kind)
        self.i += 1
        return kind

    def negation(self, waiting: "list[_Waiting]", least: int) -> "_Waiting":
        """Take a `not`, which then waits for its operand. Behind an operator that binds more
        tightly it needs parentheses."""
        if least > _NOT or (waiting and waiting[-1][0] > _NOT):
            remedy = "put it in parentheses: (not …)"
            self.fail("expected", "`not` binds more loosely than what stands before it", remedy)
        at = self.starts[self.i]
        return (_NOT, self.operator(), at, None, 0)

    def joined(self, waiting: "_Waiting", right: tree.Expr) -> tree.Expr:
        """Return the node of an operator that waited and of its right side."""
        _, operator, at, left, height = waiting
        end = self.ends[self.i - 1]
        self.height = max(height, self.height)
        self.grown()
        if left is None:
            return tree.Unary(at, end, operator, right)
        return tree.Binary(at, end, operator, left, right)

    def operand(self) -> tree.Expr:  # noqa: C901, PLR0912  (one frame, see above)
        """An atom and what clings to it."""
        i = self.i
        kind = self.kinds[i]
        at = self.starts[i]
        self.height = 0
        if kind == "name":
            if self.kinds[i + 1] == "::":
                path = self.path()
                value = tree.Name(at, self.ends[self.i - 1], path)
            else:
                self.i = i + 1
                value = tree.Name(at, self.ends[i], self.values[i])
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
                value = tree.Member(at, self.ends[self.i - 1], value, name)
                self.grown()
        return value

    def index(self, of: tree.Expr, at: int) -> tree.Expr:
        """Parse `[i]` behind the value `of`, which begins at offset `at`."""
        opener, height = self.i, self.height
        self.i += 1
        self.deeper()
        self.no_slice(opener)
        index = self.expr()
        self.depth -= 1
        if self.kinds[self.i] != "]":
            self.no_slice(opener)
        self.close("]", opener)
        self.height = max(height, self.height)
        self.grown()
        return tree.Index(at, self.ends[self.i - 1], of, index)

    def call(self, callee: tree.Expr, at: int) -> tree.Expr:
        opener, height = self.i, self.height
        kinds = self.kinds
        args: list[tree.Expr] = []
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
            if kinds[self.i] == "=" and self.named_argument():
                self.expr()
            if kinds[self.i] != ",":
                break
            self.i += 1
        self.close(")", opener, "`,`" if args else "")
        self.depth -= 1
        self.height = height
        self.grown()
        return tree.Call(at, self.ends[self.i - 1], callee, tuple(args), tuple(names))

    def atom(self, kind: str, i: int) -> tree.Expr:
        """Parse an atom that `operand` did not see to itself."""
        at, end = self.starts[i], self.ends[i]
        self.i = i + 1
        if kind == "int":
            return tree.Whole(at, end, self.whole(i))
        if kind in _WORDS:
            return tree.Word(at, end, _WORDS[kind])
        if kind == "money":
            return tree.MoneyLit(at, end, self.nanos(i))
        if kind == "float":
            return tree.Decimal(at, end, self.decimal(i))
        if kind == "duration":
            return tree.Duration(at, end, self.ms(i))
        self.i = i
        return self.no_expression(kind)

    def minus(self) -> tree.Expr:
        """Parse any number of `-` and their operand, in a loop, so that many of them need no deep
        stack."""
        first = self.i
        while self.kinds[self.i] == "-":
            self.i += 1
        last = self.i
        self.deeper()
        value = self.smallest() or self.operand()
        self.depth -= 1
        for i in range(last - 1, first - 1, -1):
            value = tree.Unary(self.starts[i], self.ends[self.i - 1], "-", value)
            self.grown()
        return value

    def smallest(self) -> tree.Whole | None:
        """Parse the digits of the smallest int, which are one too large without the `-` before
        them."""
        i = self.i
        if self.kinds[i] != "int" or self.values[i].replace("_", "") != str(MAX_INT + 1):
            return None
        self.i, self.height = i + 1, 0
        return tree.Whole(self.starts[i], self.ends[i], MAX_INT + 1)

    def list(self) -> tree.ListLit:
        """Parse `[a, b]`, with a comma after the last one if you like."""
        opener = self.i
        items: list[tree.Expr] = []
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
        return tree.ListLit(self.starts[opener], self.ends[self.i - 1], tuple(items))

    def build(self) -> tree.Build:
        """Parse `[for x in xs if test { item }]`."""
        opener = self.i
        self.i += 2
        self.deeper()
        name = self.name("after `for`")
        if self.kinds[self.i] == ",":
            remedy = "walk the keys: `[for k in m { m[k] }]`"
            self.fail("expected", "a list is built with one name", remedy)
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
        return tree.Build(self.starts[opener], self.ends[self.i - 1], name, over, where, item)

    def race(self) -> tree.Race:
        """Parse a race, whose candidates are written as a list."""
        first, name = self.i, ""
        self.i += 1
        self.deeper()
        if self.kinds[self.i] == "name":
            name = self.name("after `race`")
            if self.kinds[self.i] != "in":
                self.expected("`in` after the name", _RACE)
            self.i += 1
        if self.kinds[self.i] != "[":
            self.expected("the list of what runs", _RACE)
        of, where = self.build() if self.kinds[self.i + 1] == "for" else self.list(), None
        height = self.height
        if name and self.kinds[self.i] != "if":
            self.expected("`if` and what makes an answer good", _RACE)
        if name:
            self.i += 1
            where = self.operators(_OR)
        self.depth -= 1
        self.height = max(height, self.height)
        self.grown()
        return tree.Race(self.starts[first], self.ends[self.i - 1], name, of, where)

    def map(self) -> tree.Expr:
        """Parse `{"key": value}`, with a comma after the last one if you like."""
        opener = self.i
        pairs: list[tree.Pair] = []
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
            pairs.append(tree.Pair(at, self.ends[self.i - 1], key, value))
            if self.kinds[self.i] != ",":
                break
            self.i += 1
        self.close("}", opener, "`,`" if pairs else "")
        self.depth -= 1
        self.height = height
        self.grown()
        return tree.MapLit(self.starts[opener], self.ends[self.i - 1], tuple(pairs))
