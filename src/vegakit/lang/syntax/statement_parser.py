"""Parse statements and blocks, and report the brace that is missing (pure)."""

from collections.abc import Callable
from typing import NoReturn

from vegakit.lang.diagnostics import Edit
from vegakit.lang.syntax import tree
from vegakit.lang.syntax.cursor import FOREIGN_WORDS, SESSION_SETTINGS, TOP_WORDS, ParseError
from vegakit.lang.syntax.expression_parser import ExpressionParser

# Blocks in braces, and what is said of a brace that is missing.
#
# A `}` further left than the line of its `{` is remembered: when it turns out later that a brace
# is missing, that block is named and not the last one in the file.


class UnclosedBlockError(Exception):
    """A declaration begins inside a block: the blocks around it are taken as closed."""


class BlockParser(ExpressionParser):
    """Parses blocks, and reports the brace that is missing."""

    def block(self, where: str = "") -> tree.Block:
        """Parse a block in braces; `where` says in a message what it should follow."""
        opener = self.i
        if self.kinds[opener] != "{":
            self.no_block(where)
        self.i = opener + 1
        self.deeper()
        self.open_blocks.append(opener)
        body = self.statements()
        self.depth -= 1
        if self.kinds[self.i] == "eof":
            self.never_closed(opener)
        self.open_blocks.pop()
        self.watch_indent(opener)
        self.i += 1
        return tree.Block(self.starts[opener], self.ends[self.i - 1], body)

    def statements(self) -> tuple[tree.Stmt, ...]:
        """Parse statements up to a `}` or the end of the file. A faulty one is reported and left
        out."""
        body: list[tree.Stmt] = []
        kinds = self.kinds
        while (kind := kinds[self.i]) not in {"}", "eof"}:
            if kind == ";":
                self.stray_semicolon()
                continue
            began, depth = self.i, self.depth
            try:
                body.append(self.statement(kind))
            except ParseError:
                self.depth = depth
                self.go_on(began)
        return tuple(body)

    def go_on(self, began: int) -> None:
        """Skip the faulty statement that began at token `began`, and one token at least, so that
        the parse comes to an end."""
        self.skip_statement()
        if self.i == began:
            self.i += 1

    def statement(self, kind: str) -> tree.Stmt:
        """Parse a statement that begins with a token of this kind; `StatementParser` does it."""
        raise NotImplementedError

    # Faults

    def no_block(self, where: str) -> NoReturn:
        """Report that there is no `{`, or that `=` was written to compare."""
        if self.kinds[self.i] == "=":
            edit = Edit(self.starts[self.i], self.ends[self.i], "==")
            self.fail("expected", "`=` does not compare", "write `==`", edit)
        self.as_in_python()
        what = f"`{{` {where}" if where else "`{`"
        self.expected(what, "blocks stand in braces, also those of one statement")

    def watch_indent(self, opener: int) -> None:
        """A `}` further left than the line of its `{`: remembered, in case one is missing."""
        if self.suspect >= 0 or not self.begins_line(self.i):
            return
        if self.indent(self.starts[self.i]) < self.indent(self.starts[opener]):
            self.suspect = opener

    def never_closed(self, opener: int) -> NoReturn:
        """Report a `{` without its `}`: one that the indentation made suspect, else `opener`."""
        opener = self.suspect if self.suspect >= 0 else opener
        at = self.starts[opener]
        found = "this `{` is never closed"
        self.report("unclosed", found, at, at + 1, "add `}` where its block ends")
        raise UnclosedBlockError

    def declaration_inside(self) -> NoReturn:
        """Report a declaration inside a block. At the left margin, a brace is missing before it."""
        word = self.values[self.i]
        if self.suspect >= 0 or self.indent(self.starts[self.i]) == 0:
            self.missing_brace(word)
        found = f"`{word}` cannot stand inside a block"
        self.fail("misplaced", found, "move the declaration to top level")

    def missing_brace(self, word: str) -> NoReturn:
        """Report that a declaration begins before the block around it was closed."""
        opener = self.suspect if self.suspect >= 0 else self.open_blocks[-1]
        where = f"the `{{` at {self.place(self.starts[opener])}"
        at, end = self.starts[self.i], self.ends[self.i]
        found = f"`{word}` begins here, but {where} is not closed"
        self.report("unclosed", found, at, end, "add `}` before it")
        self.suspect = -1
        raise UnclosedBlockError


# Statements and blocks.
#
# After a fault in a statement the rest of it is skipped and the block goes on; after one in the
# head of `if`, `while` or `for` the block below is parsed all the same, so its faults are found
# too.


_OR = 2
_TAKING_APART = frozenset(["{", "[", "("])
_AFTER_KEYWORDS = frozenset(["name", "text", "open", "{"])


class StatementParser(BlockParser):
    """Parses statements."""

    def statement(self, kind: str) -> tree.Stmt:
        parse = _STATEMENTS.get(kind)
        if parse is not None:
            return parse(self)
        if kind == "name":
            follows = self.kinds[self.i + 1]
            if follows == "(" and self.values[self.i] == "monitor":
                return self.monitor()
            if follows in _AFTER_KEYWORDS:
                return self.odd(follows)
        return self.simple()

    def odd(self, follows: str) -> tree.Stmt:
        """A word and another one: a declaration inside a block, or a misspelt keyword."""
        if follows == "name" and self.values[self.i] in TOP_WORDS:
            self.declaration_inside()
        meant = self.meant_word(outside=False)
        return self.meant_statement(meant) if meant else self.simple()

    def meant_statement(self, word: str) -> tree.Stmt:
        """Parse what follows as if the keyword were spelled right."""
        parse = _STATEMENTS.get(word)
        if parse is None or word in {"else", "catch"}:
            raise ParseError
        return parse(self)

    def simple(self) -> tree.Stmt:
        """An expression or an assignment."""
        i = self.i
        value = self.expr()
        kind = self.kinds[self.i]
        if kind == "=":
            return self.assignment(value, i)
        if kind != ";":
            self.no_statement_end(i)
        self.semicolon("the statement")
        return tree.ExprStmt(self.starts[i], self.ends[self.i - 1], value)

    def assignment(self, target: tree.Expr, i: int) -> tree.Stmt:
        """Parse `= value;` behind a target that began at token i, and refuse what cannot be
        assigned to."""
        if not isinstance(target, tree.Name | tree.Member | tree.Index) or not _rooted(target):
            remedy = "only a variable, a field or an item can get a new value"
            self.fail("not-assignable", "nothing can be assigned to this", remedy, i=i)
        self.i += 1
        value = self.expr()
        self.semicolon("the assignment")
        return tree.Assign(self.starts[i], self.ends[self.i - 1], target, value)

    def let(self) -> tree.Stmt:
        """Parse `let name: T = value;`, where the type may be left out."""
        i = self.i
        self.i += 1
        if self.kinds[self.i] in _TAKING_APART:
            remedy = 'write a `let` for each: `let first = xs[0];`, `let key = m["key"];`'
            self.fail("expected", "`let` declares one variable", remedy)
        name = self.name("after `let`")
        written = None
        if self.kinds[self.i] == ":":
            self.i += 1
            written = self.type("after `:`")
        if self.kinds[self.i] == "==":
            edit = Edit(self.starts[self.i], self.ends[self.i], "=")
            self.fail("expected", "`==` compares", f"write: let {name} = …", edit)
        if self.kinds[self.i] != "=":
            self.no_value_of_let(name)
        self.i += 1
        value = self.expr()
        self.semicolon("`let`")
        return tree.Let(self.starts[i], self.ends[self.i - 1], name, written, value)

    def no_value_of_let(self, name: str) -> NoReturn:
        """Report a `let` without `=`, or of more than one variable."""
        what, i = f"`=` and a value: let {name} = …", self.i
        if self.kinds[i] == ",":
            remedy = "write a `let` for each; what fails raises an error, which `catch` takes"
            self.fail("expected", "`let` declares one variable", remedy)
        if self.values[i - 1] in {"mut", "var", "const"} and self.kinds[i] == "name":
            edit = Edit(self.starts[i - 1], self.starts[i], "")
            self.fail("expected", "`let` alone declares a variable", "leave it out", edit, i - 1)
        self.expected(what, 'a variable has a value from the start, such as "", 0, [] or null')

    def returns(self) -> tree.Stmt:
        """Parse `return;` or `return value;`."""
        i = self.i
        self.i += 1
        value = None
        if self.kinds[self.i] not in {";", "}", "eof"}:
            value = self.expr()
        self.semicolon("`return`")
        return tree.Return(self.starts[i], self.ends[self.i - 1], value)

    def breaks(self) -> tree.Stmt:
        """Parse `break;`."""
        i = self.i
        self.i += 1
        self.semicolon("`break`")
        return tree.Break(self.starts[i], self.ends[self.i - 1])

    def continues(self) -> tree.Stmt:
        """Parse `continue;`."""
        i = self.i
        self.i += 1
        self.semicolon("`continue`")
        return tree.Continue(self.starts[i], self.ends[self.i - 1])

    def head(self, parse: Callable[[], tree.Expr], where: str) -> tree.Expr:
        """Parse what stands between a keyword and its block; a fault in it does not hide the
        block."""
        depth = self.depth
        try:
            value = parse()
            if self.kinds[self.i] != "{":
                self.no_block(where)
        except ParseError:
            self.depth = depth
            self.skip_to_block()
            value = tree.Word(self.starts[self.i], self.starts[self.i], None)
        return value

    def ifs(self) -> tree.Stmt:
        """`if … else if … else …`, from the first to the last."""
        depth = self.depth
        heads: list[tuple[int, tree.Expr, tree.Block]] = []
        other: tree.Block | None = None
        while True:
            i = self.i
            self.i += 1
            test = self.head(self.expr, "after the condition")
            heads.append((self.starts[i], test, self.block()))
            if self.kinds[self.i] != "else":
                break
            self.i += 1
            if self.kinds[self.i] != "if":
                other = self.block("or `if` after `else`")
                break
            self.deeper()
        self.depth = depth
        return self.nested(heads, other)

    def nested(
        self, heads: list[tuple[int, tree.Expr, tree.Block]], other: tree.Block | None
    ) -> tree.If:
        end = self.ends[self.i - 1]
        at, test, then = heads.pop()
        inner = tree.If(at, end, test, then, other)
        while heads:
            at, test, then = heads.pop()
            inner = tree.If(at, end, test, then, tree.Block(inner.at, end, (inner,)))
        return inner

    def whiles(self) -> tree.Stmt:
        """Parse `while test limit n { … }`, where the limit may be left out."""
        i = self.i
        self.i += 1
        limits: list[tree.Expr] = []
        test = self.head(lambda: self.condition(limits), "after the condition")
        body = self.block()
        limit = limits[0] if limits else None
        return tree.While(self.starts[i], self.ends[self.i - 1], test, body, limit)

    def condition(self, limits: list[tree.Expr]) -> tree.Expr:
        """Parse the test of a `while`, and put its limit into `limits` if it has one."""
        test = self.expr()
        if self.is_word("limit"):
            self.i += 1
            limits.append(self.expr())
        return test

    def fors(self) -> tree.Stmt:
        """Parse `for x in xs { … }` or `for k, v in m { … }`."""
        i = self.i
        self.i += 1
        names: list[str] = []
        over = self.head(lambda: self.walk(names), "after what the loop walks")
        body = self.block()
        return tree.For(self.starts[i], self.ends[self.i - 1], tuple(names), over, body)

    def walk(self, names: list[str]) -> tree.Expr:
        """Parse `x in xs`: put the one or two names into `names`, and return what is walked."""
        if self.kinds[self.i] == "(":
            self.no_loop_parentheses()
        names.append(self.name("after `for`"))
        if self.kinds[self.i] == ",":
            self.i += 1
            names.append(self.name("after `,`"))
        if self.kinds[self.i] != "in":
            remedy = "write `for x in xs { … }`, or `for i in range(10) { … }`"
            if self.is_word("of") or self.kinds[self.i] == ":":
                written, i = "in" if self.is_word("of") else " in", self.i
                self.foreign("a loop walks `in` a list", remedy, i, i, written, "expected")
            self.expected("`in` after the name", remedy)
        self.i += 1
        return self.expr()

    def tries(self) -> tree.Stmt:
        """Parse `try { … }` and its catches, at least one of which has to follow."""
        i = self.i
        self.i += 1
        body = self.block("after `try`")
        catches = self.catches()
        if not catches and FOREIGN_WORDS.get(self.values[self.i]) != "catch":
            end = self.ends[self.i - 1]
            found = f"`try` needs a `catch`, found {self.shown()}"
            remedy = "write `catch Timeout { … }`, or `catch { … }` for all errors"
            self.report("missing-catch", found, end - 1, end, remedy)
        return tree.Try(self.starts[i], self.ends[self.i - 1], body, catches)

    def catches(self) -> tuple[tree.Catch, ...]:
        """Parse any number of `catch Kind(reason) { … }`; an empty kind catches all errors."""
        found: list[tree.Catch] = []
        while self.kinds[self.i] == "catch":
            i = self.i
            self.i += 1
            kind = reason = ""
            if self.kinds[self.i] == "name":
                kind = self.name()
                reason = self.reason()
            if kind and self.kinds[self.i] == "as" and self.kinds[self.i + 1] == "name":
                at, said = self.ends[self.i - 1], self.values[self.i + 1]
                edit = Edit(at, self.ends[self.i + 1], f"({said})")
                message = "the reason of an error stands in parentheses"
                self.fail("expected", message, f"write `catch {kind}({said})`", edit)
            if self.kinds[self.i] == "(":
                self.no_reason_of_all()
            if self.kinds[self.i] != "{":
                remedy = (
                    "write `catch Timeout { … }`, `catch Timeout(reason) { … }` or `catch { … }`"
                )
                self.expected("`{` or the name of an error", remedy)
            self.deeper()
            body = self.block()
            self.depth -= 1
            found.append(tree.Catch(self.starts[i], self.ends[self.i - 1], kind, reason, body))
        return tuple(found)

    def reason(self) -> str:
        """Parse the name in parentheses that a catch gives to the reason; empty if there is
        none."""
        if self.kinds[self.i] != "(":
            return ""
        opener = self.i
        self.i += 1
        reason = self.name("for the reason")
        self.close(")", opener)
        return reason

    def session(self) -> tree.Stmt:
        """Parse `session budget $5.00 { … }` with its settings and catches."""
        i = self.i
        self.i += 1
        settings: list[tree.Setting] = []
        budget = self.head(lambda: self.session_head(settings), "after the budget")
        body = self.block()
        catches = self.catches()
        end = self.ends[self.i - 1]
        return tree.Session(self.starts[i], end, budget, body, tuple(settings), catches)

    def session_head(self, settings: list[tree.Setting]) -> tree.Expr:
        """Parse the budget of a session, and put the settings behind it into `settings`."""
        if not self.is_word("budget"):
            self.expected("`budget` after `session`", "write `session budget $5.00 { … }`")
        self.i += 1
        budget = self.allowance() or self.operators(_OR)
        while self.kinds[self.i] == "name":
            settings.append(self.session_setting())
        return budget

    def session_setting(self) -> tree.Setting:
        """Parse one setting of a session; a name that is nearly right is reported and taken for
        it."""
        i = self.i
        name = self.name()
        if name not in SESSION_SETTINGS:
            found = f"a session has no setting `{name}`"
            name = self.nearly(i, SESSION_SETTINGS, "unknown-setting", found)
        value = self.name_path("such as `ask`") if name == "on_exceed" else self.operators(_OR)
        return tree.Setting(self.starts[i], self.ends[self.i - 1], name, value)

    def parallel(self) -> tree.Stmt:
        """Parse `parallel { … }` and its catches."""
        i = self.i
        self.i += 1
        body = self.block("after `parallel`")
        catches = self.catches()
        return tree.Parallel(self.starts[i], self.ends[self.i - 1], body, catches)

    def monitor(self) -> tree.Stmt:
        """Parse `monitor(process) { reason -> … }`."""
        i = self.i
        self.i += 2
        of = self.expr()
        self.close(")", i + 1)
        opener = self.take("{", "and what to do")
        if self.kinds[self.i + 1] != "->":
            self.expected("a name for the reason and `->`", "write `monitor(a) { reason -> … }`")
        reason = self.name("for the reason")
        self.i += 1
        self.deeper()
        body = self.statements()
        self.depth -= 1
        if self.kinds[self.i] == "eof":
            self.never_closed(opener)
        self.i += 1
        inner = tree.Block(self.starts[opener], self.ends[self.i - 1], body)
        return tree.Monitor(self.starts[i], self.ends[self.i - 1], of, reason, inner)

    def belongs_to_nothing(self) -> NoReturn:
        """Report an `else` or `catch` that follows no block it could belong to."""
        word = self.values[self.i]
        owner = "`if`" if word == "else" else "`try`, `session` or `parallel`"
        found = f"this `{word}` belongs to no {owner}"
        self.fail("misplaced", found, f"it stands right behind the block of {owner}")


def _rooted(target: tree.Expr) -> bool:
    """A variable, and from there fields and items."""
    while isinstance(target, tree.Member | tree.Index):
        target = target.of
    return isinstance(target, tree.Name) and "::" not in target.name


_STATEMENTS: dict[str, Callable[[StatementParser], tree.Stmt]] = {
    "let": StatementParser.let,
    "if": StatementParser.ifs,
    "for": StatementParser.fors,
    "while": StatementParser.whiles,
    "return": StatementParser.returns,
    "break": StatementParser.breaks,
    "continue": StatementParser.continues,
    "try": StatementParser.tries,
    "session": StatementParser.session,
    "parallel": StatementParser.parallel,
    "{": StatementParser.block,
    "else": StatementParser.belongs_to_nothing,
    "catch": StatementParser.belongs_to_nothing,
    "fn": StatementParser.declaration_inside,
}
