"""A plain run of a program on made-up answers, in which every value knows what it came from.

It shares nothing with the flows but the parser. What is made from an answer is tainted by the line
of the ask; who is asked with it depends on that line.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeAlias

from vegakit.lang import parse
from vegakit.lang.syntax import tree as t

ANSWERS = ("yes", "no", "stop", "perhaps", "")
MOST_STEPS = 2_000


@dataclass(frozen=True)
class Val:
    it: Any
    from_: frozenset[int] = frozenset()


Scope: TypeAlias = list[dict[str, Val]]


class FailedError(Exception):
    pass


class LeftError(Exception):
    def __init__(self, how: str, value: Val | None = None) -> None:
        self.how, self.value = how, value


class TiredError(Exception):
    """The program runs longer than anybody wants to look."""


@dataclass
class Run:
    """`found` are pairs of lines of one function: what was made on the first went into the
    second."""

    text: str
    chance: Random
    found: set[tuple[int, int]] = field(default_factory=set)
    steps: int = 0

    def __post_init__(self) -> None:
        source = parse(self.text, "p.vega").source
        assert source is not None
        self.functions = {fn.name: fn for fn in source.decls if isinstance(fn, t.FnDecl)}

    def main(self) -> None:
        given = [self.chance.choice(ANSWERS) for _ in range(3)]
        with suppress(FailedError, TiredError):
            self.call("main", [Val("x"), Val([Val(each) for each in given])])

    def call(self, name: str, args: list[Val]) -> Any:
        """The values come to the function bare: it has pairs of its own."""
        names = [param.name for param in self.functions[name].params]
        scope = [{one: Val(bare(arg.it)) for one, arg in zip(names, args, strict=True)}]
        try:
            self.block(self.functions[name].body, scope)
        except LeftError as left:
            return bare(left.value.it) if left.value else ""
        return ""

    def line(self, node: t.Node) -> int:
        return self.text.count("\n", 0, node.at) + 1

    def act(self, node: t.Node, operands: list[Val]) -> frozenset[int]:
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise TiredError
        line = self.line(node)
        self.found |= {(before, line) for each in operands for before in taints(each)}
        if self.chance.random() < 0.08:
            raise FailedError
        return frozenset({line})

    def block(self, block: t.Block, scope: Scope) -> None:
        inner = [*scope, {}]
        for stmt in block.body:
            self.stmt(stmt, inner)

    def stmt(self, node: Any, scope: Scope) -> None:
        getattr(self, f"on_{type(node).__name__.lower()}")(node, scope)

    def on_let(self, node: t.Let, scope: Scope) -> None:
        scope[-1][node.name] = self.value(node.value, scope)

    def on_assign(self, node: t.Assign, scope: Scope) -> None:
        assert isinstance(node.target, t.Name)
        name, value = node.target.name, self.value(node.value, scope)
        next(each for each in reversed(scope) if name in each)[name] = value

    def on_exprstmt(self, node: t.ExprStmt, scope: Scope) -> None:
        self.value(node.value, scope)

    def on_return(self, node: t.Return, scope: Scope) -> None:
        raise LeftError("return", self.value(node.value, scope))

    def on_break(self, node: t.Break, scope: Scope) -> None:
        raise LeftError("break")

    def on_continue(self, node: t.Continue, scope: Scope) -> None:
        raise LeftError("continue")

    def on_if(self, node: t.If, scope: Scope) -> None:
        if self.value(node.test, scope).it:
            self.block(node.then, scope)
        elif node.other is not None:
            self.block(node.other, scope)

    def on_while(self, node: t.While, scope: Scope) -> None:
        while self.value(node.test, scope).it and self.round(node.body, scope):
            pass

    def on_for(self, node: t.For, scope: Scope) -> None:
        for item in self.items(node.over, scope):
            if not self.round(node.body, [*scope, {node.names[0]: item}]):
                break

    def on_try(self, node: t.Try, scope: Scope) -> None:
        try:
            self.block(node.body, scope)
        except FailedError:
            self.block(node.catches[0].body, scope)

    def on_session(self, node: t.Session, scope: Scope) -> None:
        self.block(node.body, scope)

    def on_parallel(self, node: t.Parallel, scope: Scope) -> None:
        for each in node.body.body:
            self.stmt(each, scope)

    def round(self, body: t.Block, scope: Scope) -> bool:
        try:
            self.block(body, scope)
        except LeftError as left:
            if left.how == "return":
                raise
            return left.how == "continue"
        return True

    def items(self, node: Any, scope: Scope) -> list[Val]:
        over = self.value(node, scope)
        return [Val(item.it, item.from_ | over.from_) for item in over.it]

    def value(self, node: Any, scope: Scope) -> Val:
        match node:
            case t.Whole():
                return Val(node.value)
            case t.Name():
                return next(each[node.name] for each in reversed(scope) if node.name in each)
            case t.Text():
                parts = [Val(p) if isinstance(p, str) else self.value(p, scope) for p in node.parts]
                return Val("".join(str(p.it) for p in parts)[:20], joined(parts))
            case t.ListLit():
                return Val([self.value(each, scope) for each in node.items])
            case t.Ask():
                return Val(self.answer(), self.act(node, [self.value(node.message, scope)]))
            case t.Await():
                return self.value(node.of, scope)
            case t.Build():
                items = self.items(node.over, scope)
                return Val([self.value(node.item, [*scope, {node.name: it}]) for it in items])
            case t.Binary():
                return self.binary(node, scope)
            case t.Call(callee=t.Name(name=name)):
                return self.called(node, name, [self.value(arg, scope) for arg in node.args])
            case _:
                raise NotImplementedError(node)

    def answer(self) -> str:
        return self.chance.choice(ANSWERS)

    def binary(self, node: t.Binary, scope: Scope) -> Val:
        left = self.value(node.left, scope)
        if (node.op == "and" and not left.it) or (node.op == "??" and left.it is not None):
            return left
        right = self.value(node.right, scope)
        rules: dict[str, Any] = {
            "+": lambda: left.it + right.it,
            "<": lambda: left.it < right.it,
            ">": lambda: left.it > right.it,
            "==": lambda: left.it == right.it,
            "!=": lambda: left.it != right.it,
            "and": lambda: right.it,
            "??": lambda: right.it,
        }
        return Val(rules[node.op](), joined([left, right]))

    def called(self, node: t.Call, name: str, args: list[Val]) -> Val:
        match name:
            case "print":
                return Val(None, self.act(node, args))
            case "len":
                return Val(len(args[0].it), joined(args))
            case "str::upper":
                return Val(args[0].it.upper(), joined(args))
            case "list::take":
                return Val(args[0].it[: args[1].it], joined(args))
            case "list::first":
                first = args[0].it[0] if args[0].it else Val(None)
                return Val(first.it, first.from_ | args[0].from_)
            case _:
                from_ = self.act(node, args)
                return Val(self.call(name, args), from_)


def joined(values: list[Val]) -> frozenset[int]:
    return frozenset[int]().union(*(value.from_ for value in values))


def taints(value: Val) -> frozenset[int]:
    inner = value.it if isinstance(value.it, list) else []
    return value.from_ | joined([Val(0, taints(each)) for each in inner])


def bare(it: Any) -> Any:
    return [Val(bare(each.it)) for each in it] if isinstance(it, list) else it
