"""Statements: branches, loops, and what stands alone on a line."""

import ast

from vegakit.lang.python.annotations import is_none
from vegakit.lang.python.context import STATEMENTS, Body, RefusedError, Rule, expression
from vegakit.lang.python.hoisting import declared_before, declared_empty
from vegakit.lang.python.kinds import kind_of
from vegakit.lang.python.looping import walked
from vegakit.lang.python.naming import new_name
from vegakit.lang.python.simple import is_simple
from vegakit.lang.python.standard import is_vega
from vegakit.lang.python.storing import annotated, append, assigned, augmented, bound
from vegakit.lang.python.words import NO_STATEMENTS
from vegakit.lang.steps import took
from vegakit.lang.tree import (
    Block,
    Break,
    Continue,
    ExprStmt,
    For,
    If,
    Return,
    Stmt,
    While,
)

__all__ = ["PLAIN_STATEMENTS", "block", "statements"]


def statements(body: Body, nodes: list[ast.stmt]) -> tuple[Stmt, ...]:
    """What is refused is left out, and the next is looked at."""
    made: list[Stmt] = []
    for node in nodes:
        try:
            made += declared_before(body, node)
            took(2)
            made += STATEMENTS[type(node)](body, node)
        except RefusedError:
            _declare_all(body, node)
    return tuple(made)


def _declare_all(body: Body, node: ast.stmt) -> None:
    """So that one fault is told once, not at every later line."""
    for one in ast.walk(node):
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
            body.declare(one.id)


def block(body: Body, nodes: list[ast.stmt], around: ast.AST) -> Block:
    body.scopes.append({})
    made = statements(body, nodes)
    body.scopes.pop()
    first = body.file.span(nodes[0]) if nodes else body.file.span(around)
    last = body.file.span(nodes[-1]) if nodes else first
    return Block(first.at, last.end, made)


# Assignments


def _assign(body: Body, node: ast.Assign | ast.AnnAssign) -> list[Stmt]:
    value = node.value
    if isinstance(value, ast.IfExp) and not _is_default(body, value):
        return _chosen(body, node, value)
    return annotated(body, node) if isinstance(node, ast.AnnAssign) else assigned(body, node)


def _is_default(body: Body, node: ast.IfExp) -> bool:
    match node.test:
        case ast.Compare(left=left, ops=[ast.IsNot()], comparators=[other]):
            return is_none(other) and body.file.source(left) == body.file.source(node.body)
        case _:
            return False


def _chosen(body: Body, node: ast.Assign | ast.AnnAssign, value: ast.IfExp) -> list[Stmt]:
    """`x = a if c else b` is `if c: x = a` and `else: x = b`; a new variable is declared before,
    with the side that cannot fail if there is one."""
    file = body.file
    target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
    if not isinstance(target, ast.Name):
        file.refuse(
            "python-conditional",
            value,
            "`a if c else b` is assigned to a variable",
            "give it a name first",
        )
    made: list[Stmt] = []
    if not body.is_known(target.id):
        made.append(_first(body, node, target, value))
    span, test = file.span(value), expression(body, value.test)
    then, other = (
        Block(span.at, span.end, (bound(body, target, expression(body, side), node),))
        for side in (value.body, value.orelse)
    )
    return [*made, If(span.at, span.end, test, then, other)]


def _first(
    body: Body, node: ast.Assign | ast.AnnAssign, target: ast.Name, value: ast.IfExp
) -> Stmt:
    for side in (value.orelse, value.body):
        if is_simple(side):
            if isinstance(node, ast.AnnAssign):
                with_side = ast.AnnAssign(target, node.annotation, side, 1)
                return annotated(body, ast.copy_location(with_side, node))[0]
            return assigned(body, ast.copy_location(ast.Assign([target], side), node))[0]
    kind = kind_of(body, value)
    made = None if kind is None else declared_empty(body, target.id, kind, node)
    if made is None:
        body.file.refuse(
            "python-conditional",
            value,
            "both sides of this may fail or call something, and one of them shall not be done",
            f"give `{target.id}` a value first, or write `if … else …`",
        )
    return made


# What stands alone


def _alone(body: Body, node: ast.Expr) -> list[Stmt]:
    match node.value:
        case ast.Constant(value=str()):
            return []
        case ast.Call(func=ast.Attribute(value=ast.Name() as name, attr="append")) as call:
            return append(body, node, name, call)
        case ast.Constant(value=value) if value is Ellipsis:
            return []
        case _:
            span = body.file.span(node)
            return [ExprStmt(span.at, span.end, expression(body, node.value))]


def _return(body: Body, node: ast.Return) -> list[Stmt]:
    span, value = body.file.span(node), node.value
    if isinstance(value, ast.IfExp) and not _is_default(body, value):
        test = expression(body, value.test)
        one, other = (
            Block(
                *_at(body, side),
                (Return(*_at(body, side), expression(body, side)),),
            )
            for side in (value.body, value.orelse)
        )
        return [If(span.at, span.end, test, one, other)]
    if value is None or (is_none(value) and body.returns_nothing):
        return [Return(span.at, span.end, None)]
    return [Return(span.at, span.end, expression(body, value))]


def _at(body: Body, node: ast.AST) -> tuple[int, int]:
    span = body.file.span(node)
    return span.at, span.end


def _break(body: Body, node: ast.Break) -> list[Stmt]:
    return [Break(*_at(body, node))]


def _continue(body: Body, node: ast.Continue) -> list[Stmt]:
    return [Continue(*_at(body, node))]


def _pass(_body: Body, _node: ast.Pass) -> list[Stmt]:
    return []


# Branches and loops


def _if(body: Body, node: ast.If) -> list[Stmt]:
    test = expression(body, node.test)
    then = block(body, node.body, node)
    other = block(body, node.orelse, node) if node.orelse else None
    return [If(*_at(body, node), test, then, other)]


def _no_else(body: Body, node: ast.While | ast.For) -> None:
    if node.orelse:
        body.file.refuse(
            "python-loop",
            node.orelse[0],
            "a loop has no `else` here",
            "keep a bool that says whether it broke off, and test it after the loop",
        )


def _while(body: Body, node: ast.While) -> list[Stmt]:
    """`while vega.limit(10, x > 0):` ends by LimitReached after 10 rounds."""
    _no_else(body, node)
    test, limit = node.test, None
    match test:
        case ast.Call(func=ast.Attribute(attr="limit") as callee, args=[most, inner]) if is_vega(
            body.file, callee
        ):
            test, limit = inner, expression(body, most)
        case _:
            pass
    tested = expression(body, test)
    return [While(*_at(body, node), tested, block(body, node.body, node), limit)]


def _for(body: Body, node: ast.For) -> list[Stmt]:
    _no_else(body, node)
    targets = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    over = walked(body, node.iter)
    if len(names) != len(targets) or len(names) != 1 + over.pairs:
        body.file.refuse(
            "python-loop",
            node.target,
            "a loop has one variable, or two over `enumerate(xs)` and `d.items()`",
            "write `for x in xs:`, `for i, x in enumerate(xs):` or `for k, v in d.items():`",
        )
    for target, name in zip(targets, names, strict=True):
        if body.is_known(name) and name != "_":
            body.file.refuse(
                "python-shadow",
                target,
                f"`{name}` has a value already, which the loop would replace",
                "choose another name for the variable of the loop",
            )
        new_name(body, target, name)
    kinds = [over.key, over.kind] if over.pairs else [over.kind]
    body.scopes.append(dict(zip(names, kinds, strict=True)))
    inner = block(body, node.body, node)
    body.scopes.pop()
    return [For(*_at(body, node), tuple(names), over.value, inner)]


def _no(body: Body, node: ast.stmt) -> list[Stmt]:
    word, why, advice = NO_STATEMENTS[type(node)]
    return body.file.refuse("python-statement", node, f"`{word}` cannot stand here: {why}", advice)


PLAIN_STATEMENTS: dict[type, Rule] = {
    **dict.fromkeys(NO_STATEMENTS, _no),
    ast.Assign: _assign,
    ast.AnnAssign: _assign,
    ast.AugAssign: augmented,
    ast.Expr: _alone,
    ast.Return: _return,
    ast.Break: _break,
    ast.Continue: _continue,
    ast.Pass: _pass,
    ast.If: _if,
    ast.While: _while,
    ast.For: _for,
}
