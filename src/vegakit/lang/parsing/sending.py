"""Sends, spawns and waiting; and what is said when an expression is none.

a <- m timeout 30s budget $1 as T          async a <- m          a <~ m
spawn A wallet $2 named "x" supervised by { strategy restart }   spawn async A   await f
"""

from typing import NoReturn

from vegakit.lang.diagnostics import Edit
from vegakit.lang.lexer import RESERVED
from vegakit.lang.parsing.cursor import FaultError
from vegakit.lang.parsing.literals import duration_ms, money_nanos
from vegakit.lang.parsing.settings import SettingParser
from vegakit.lang.parsing.words import SPAWN_RULES
from vegakit.lang.tree import Ask, Await, Expr, Name, Setting, Spawn, TypeExpr

__all__ = ["SendParser"]

_OR = 2
_MEANT = {"||": "or", "&&": "and", "!": "not"}
_INSTEAD = {
    ")": "something is missing before it",
    "]": "something is missing before it",
    "=": "to compare write `==`",
    "=>": "there are no arrow functions",
    ".": "write numbers with a digit before the point, like 0.5",
    "?": "there is no `a ? b : c`; use `if`, or `??` for a value that may be null",
    "*": "something is missing before it",
    "if": "`if` is a statement: give the value a name by `let` first and assign to it",
    "await": "put it in parentheses: (await …)",
    "spawn": "put it in parentheses: (spawn …)",
    "async": "put it in parentheses: (async …)",
    "fn": "functions are declared at top level, and none is `async`",
    "<-": "write the agent before it: agent <- message",
}

_PREFIXES = frozenset(["spawn", "async", "await"])
_ASK_OPTIONS = frozenset(["timeout", "budget", "as"])
_SPAWN_OPTIONS = ("wallet", "named", "supervised")


class SendParser(SettingParser):
    def prefixed(self) -> Expr:
        """`spawn`, `async` or `await` and what follows."""
        i = self.i
        kind = self.kinds[i]
        if kind == "spawn":
            return self.spawn()
        self.i = i + 1
        self.deeper()
        if kind == "await":
            of = self.prefixed() if self.kinds[i + 1] in _PREFIXES else self.operand()
            self.depth -= 1
            self.grown()
            return Await(self.starts[i], self.ends[self.i - 1], of)
        to = self.operand()
        self.depth -= 1
        if self.kinds[self.i] not in {"<-", "<~"} or self.kinds[i + 1] == "-":
            remedy = "write `async agent <- message`, or `spawn async Agent`"
            self.expected("`<-` after `async` and an agent", remedy)
        return self.ask(to, i, later=True)

    def ask(self, to: Expr, first: int, later: bool = False) -> Ask:
        """From the arrow on; `first` is the token where the whole send begins."""
        height, stream = self.height, self.kinds[self.i] == "<~"
        self.i += 1
        message = self.operators(_OR)
        height = max(height, self.height)
        options: dict[str, Expr] = {}
        answer: TypeExpr | None = None
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
        return Ask(at, end, to, message, stream, later, timeout, budget, answer)

    def spawn(self) -> Spawn:
        first = self.i
        self.i += 1
        later = self.kinds[self.i] == "async"
        self.i += later
        if self.kinds[self.i] != "name":
            self.expected("the name of an agent after `spawn`", "write it like: spawn Coder")
        agent = self.name_path("")
        if self.kinds[self.i] == "(":
            remedy = f"write: spawn {agent.name}"
            self.fail("expected", "an agent is spawned without parentheses", remedy)
        found: dict[str, Expr] = {}
        rules: tuple[Setting, ...] | None = None
        height = 0
        self.deeper()
        while (word := self.values[self.i]) in _SPAWN_OPTIONS:
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
        self.depth -= 1
        self.height = height
        self.grown()
        at, end = self.starts[first], self.ends[self.i - 1]
        wallet, named, under = map(found.get, _SPAWN_OPTIONS)
        return Spawn(at, end, agent, later, wallet, named, under, rules)

    def by(self) -> None:
        if not self.is_word("by"):
            self.expected("`by` after `supervised`")
        self.i += 1

    def name_path(self, where: str) -> Name:
        i = self.i
        if self.kinds[i] != "name":
            self.name(where)
        path = self.path()
        return Name(self.starts[i], self.ends[self.i - 1], path)

    # Values of literals

    def nanos(self, i: int) -> int:
        nanos = money_nanos(self.values[i])
        if nanos is None:
            found = f"{self.shown(i)} is not an amount of money"
            remedy = "amounts have at most six decimals and are at most a billion dollars"
            self.report("bad-money", found, self.starts[i], self.ends[i], remedy)
        return nanos or 0

    def ms(self, i: int) -> int:
        ms = duration_ms(self.values[i])
        if ms is None:
            found = f"{self.shown(i)} is too long a time"
            self.report("number-too-large", found, self.starts[i], self.ends[i], "use fewer digits")
        return ms or 0

    def decimal(self, i: int) -> float:
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
        remedy = "write both comparisons: a < b and b < c"
        self.fail("chained-comparison", "comparisons cannot be chained", remedy)

    def member_name(self) -> str:
        if self.kinds[self.i] == ".":
            remedy = "write range(0, 10) for the numbers from 0 to 9"
            self.fail("foreign-operator", "there is no `..`", remedy)
        return self.name("after `.`")

    def no_colon(self, opener: int, later: bool) -> NoReturn:
        """A block where a value should stand looks like a map that went wrong."""
        if later or not (self.kinds[self.i] == ";" or self.begins_line(opener + 1)):
            self.expected("`:` between key and value", 'write maps as {"key": value}')
        self.i = opener
        found = "expected a value, found a block"
        self.fail("expected-value", found, f"write a value after `{self.values[opener - 1]}`")

    def not_an_agent(self) -> NoReturn:
        arrow = self.values[self.i]
        remedy = "put it in parentheses"
        if arrow == "<-":
            remedy = "to compare with a negative number write `< -`; else put it in parentheses"
        found = f"`{arrow}` sends a message, and what stands before it is not one agent"
        self.fail("not-an-agent", found, remedy)

    def no_expression(self, kind: str) -> NoReturn:
        found = f"expected a value, found {self.shown()}"
        if kind in _INSTEAD:
            self.fail("expected-value", found, _INSTEAD[kind])
        if kind in RESERVED:
            word = self.values[self.i]
            self.fail("expected-value", found, f"as a name, `{word}_` would do")
        self.no_value_after(found)

    def no_value_after(self, found: str) -> NoReturn:
        """At the end of a line or statement the place to write is behind the token before."""
        end = self.ends[self.i - 1] if self.i else 0
        if self.i and (
            self.begins_line(self.i) or self.kinds[self.i] in {";", ",", "}", "|}", "eof"}
        ):
            remedy = f"write a value after `{self.values[self.i - 1]}`"
            self.report("expected-value", found, end, end + 1, remedy)
            raise FaultError
        self.fail("expected-value", found)

    def operators(self, least: int, left: Expr | None = None, at: int = 0) -> Expr:
        raise NotImplementedError

    def operand(self) -> Expr:
        raise NotImplementedError
