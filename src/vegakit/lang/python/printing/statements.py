"""Statements as Python, with the comments that stand beside them."""

from collections.abc import Callable
from typing import Any

from vegakit.lang.python.printing.comments import Comments
from vegakit.lang.python.printing.context import NoFormError, Printer
from vegakit.lang.python.printing.expressions import money_text, over, put
from vegakit.lang.python.printing.settings import setting_value
from vegakit.lang.python.printing.types import annotation
from vegakit.lang.python.words import BUILTIN_ERRORS, VEGA_ERRORS
from vegakit.lang.tree import (
    Ask,
    Assign,
    Binary,
    Block,
    Break,
    Call,
    Catch,
    Continue,
    ExprStmt,
    For,
    If,
    Let,
    ListLit,
    MoneyLit,
    Monitor,
    Name,
    Node,
    Parallel,
    Return,
    Session,
    Stmt,
    Try,
    While,
)
from vegakit.lang.types import FLOAT, INT, STR, ListOf, MapOf

__all__ = ["Statements"]


class Statements:
    def __init__(self, p: Printer, comments: Comments) -> None:
        self.p, self.comments = p, comments

    def all(self, statements: tuple[Stmt, ...], around: Node) -> None:
        """`pass` where nothing stands."""
        before = len(self.p.lines)
        for node in statements:
            self._comments_before(node)
            _PRINTED[type(node)](self, node)
        for comment in self.comments.before(around.end):
            self.p.line(comment)
        if not any(not line.strip().startswith("#") for line in self.p.lines[before:]):
            self.p.line("pass")

    def _comments_before(self, node: Node) -> None:
        for comment in self.comments.before(node.at):
            self.p.line(comment)

    def say(self, text: str, node: Node) -> None:
        """One line; what was remarked behind it, or inside it, stands behind it."""
        beside, below = self.comments.beside(node.end)
        self.p.line(f"{text}  {beside[0]}" if beside else text)
        for comment in [*beside[1:], *below]:
            self.p.line(comment)

    def block(self, block: Block) -> None:
        with self.p.indented(), self.p.scope():
            self.all(block.body, block)

    # Plain ones

    def let(self, node: Let) -> None:
        p = self.p
        value = put(p, node.value)
        kind = ""
        if node.type is not None and not isinstance(node.value, Ask):
            kind = f": {annotation(p, node.type)}"
        self.say(f"{p.declare(node.name, node)}{kind} = {value}", node)

    def assign(self, node: Assign) -> None:
        p, target = self.p, node.target
        match node:
            case Assign(
                target=Name(name=name),
                value=Binary(op="+", left=Name(name=same), right=ListLit(items=(item,))),
            ) if name == same and len(p.lines) not in p.shared:
                self.say(f"{p.named(name)}.append({put(p, item)})", node)
            case Assign(
                target=Name(name=name),
                value=Binary(op="+" | "-" | "*" as op, left=Name(name=same), right=right),
            ) if name == same and p.type(node.value) in (INT, FLOAT, STR):
                self.say(f"{p.named(name)} {op}= {put(p, right)}", node)
            case _ if isinstance(target, Name):
                self.say(f"{p.named(target.name)} = {put(p, node.value)}", node)
            case _:
                self.say(f"{put(p, target)} = {put(p, node.value)}", node)

    def alone(self, node: ExprStmt) -> None:
        match node.value:
            case Call(callee=Name(name="fail"), args=(reason,)):
                self.say(f"raise {self.p.uses('Failed')}({put(self.p, reason)})", node)
            case _:
                self.say(put(self.p, node.value), node)

    def give(self, node: Return) -> None:
        self.say("return" if node.value is None else f"return {put(self.p, node.value)}", node)

    def leave(self, node: Break | Continue) -> None:
        self.say("break" if isinstance(node, Break) else "continue", node)

    # Blocks

    def head(self, text: str, block: Block) -> None:
        """A remark behind the brace stands behind the colon."""
        beside, below = self.comments.beside(block.at + 1)
        self.p.line(f"{text}:  {beside[0]}" if beside else f"{text}:")
        with self.p.indented():
            for comment in [*beside[1:], *below]:
                self.p.line(comment)

    def branch(self, node: If) -> None:
        word, current = "if", node
        while True:
            self.head(f"{word} {put(self.p, current.test)}", current.then)
            self.block(current.then)
            other = current.other
            if other is None:
                return
            if len(other.body) == 1 and isinstance(other.body[0], If):
                word, current = "elif", other.body[0]
                continue
            self.head("else", other)
            self.block(other)
            return

    def loop(self, node: While) -> None:
        test = put(self.p, node.test)
        if node.limit is not None:
            test = f"{self.p.uses('vega')}.limit({put(self.p, node.limit)}, {test})"
        self.head(f"while {test}", node.body)
        self.block(node.body)

    def walk(self, node: For) -> None:
        p, walked = self.p, over(self.p, node.over)
        with p.scope():
            names = [p.declare(name, node) for name in node.names]
            if len(names) == 2:
                kind = p.type(node.over)
                is_list = isinstance(kind, ListOf)
                if not is_list and not isinstance(kind, MapOf):
                    raise NoFormError(node, "a loop with two names over this")
                walked = f"enumerate({walked})" if is_list else f"{put(p, node.over, 8)}.items()"
            self.head(f"for {', '.join(names)} in {walked}", node.body)
            self.block(node.body)

    def guard(self, node: Try) -> None:
        self.head("try", node.body)
        self.block(node.body)
        for one in node.catches:
            self.catch(one)

    def catch(self, node: Catch) -> None:
        kind = node.kind or "Exception"
        if kind in VEGA_ERRORS:
            self.p.uses(kind)
        elif kind not in BUILTIN_ERRORS and kind != "Exception":
            raise NoFormError(node, f"the error {kind}")
        with self.p.scope() as scope:
            said = ""
            if node.reason:
                name = self.p.declare(node.reason, node)
                scope.reasons[node.reason] = kind in VEGA_ERRORS
                said = f" as {name}"
            self.head(f"except {kind}{said}", node.body)
            self.block(node.body)

    def session(self, node: Session) -> None:
        budget = node.budget
        amount = money_text(budget) if isinstance(budget, MoneyLit) else put(self.p, budget)
        given = [f"budget={amount}"]
        given += [f"{one.name}={setting_value(self.p, one.value)}" for one in node.settings]
        head = f"with {self.p.uses('session')}({', '.join(given)})"
        self.caught(node.catches, lambda: self._opened(head, node.body))

    def _opened(self, head: str, block: Block) -> None:
        self.head(head, block)
        self.block(block)

    def strands(self, node: Parallel) -> None:
        """What it declares is there after it."""
        self.caught(node.catches, lambda: self._beside(node))

    def _beside(self, node: Parallel) -> None:
        self.head(f"with {self.p.uses('parallel')}()", node.body)
        with self.p.indented():
            self.all(node.body.body, node.body)

    def caught(self, catches: tuple[Catch, ...], body: Callable[[], None]) -> None:
        if not catches:
            body()
            return
        self.p.line("try:")
        with self.p.indented():
            body()
        for one in catches:
            self.catch(one)

    def bare(self, node: Block) -> None:
        """Its variables keep their names to themselves."""
        with self.p.scope() as scope:
            self.all(node.body, node)
        self.p.scopes[-1].names |= {f" {name}": made for name, made in scope.names.items()}

    def monitor(self, node: Monitor) -> None:
        raise NoFormError(node, "`monitor` runs a block later", "keep this file in Vega")


_PRINTED: dict[type, Callable[[Statements, Any], None]] = {
    Let: Statements.let,
    Assign: Statements.assign,
    ExprStmt: Statements.alone,
    Return: Statements.give,
    Break: Statements.leave,
    Continue: Statements.leave,
    If: Statements.branch,
    While: Statements.loop,
    For: Statements.walk,
    Try: Statements.guard,
    Session: Statements.session,
    Parallel: Statements.strands,
    Block: Statements.bare,
    Monitor: Statements.monitor,
}
