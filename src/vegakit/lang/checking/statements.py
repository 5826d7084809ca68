"""Plain statements: let, assignment, expressions, return, if."""

from vegakit.lang.checked import CalleeKind
from vegakit.lang.checking.assigning import assign, learn
from vegakit.lang.checking.blocks import StatementRule, check_block
from vegakit.lang.checking.context import Body, infer
from vegakit.lang.checking.declared import described
from vegakit.lang.checking.fitting import check_declared, condition
from vegakit.lang.checking.relations import UNKNOWN, shown
from vegakit.lang.checking.variables import Facts, merged
from vegakit.lang.checking.written import written
from vegakit.lang.diagnostics import Edit
from vegakit.lang.library import ENDS
from vegakit.lang.tree import (
    Ask,
    Assign,
    Await,
    Binary,
    Block,
    Call,
    ExprStmt,
    If,
    Let,
    Name,
    Node,
    Return,
    Spawn,
)
from vegakit.lang.types import NOTHING, NULL, FutureOf, ListOf, OptionalOf, Type

__all__ = ["PLAIN_STATEMENTS", "shadows"]


_NO_FACTS: tuple[Facts, Facts] = ({}, {})


def _let(body: Body, node: Let) -> bool:
    if node.type is not None:
        kind = written(body.program, body.names, node.type)
        given = check_declared(body, node.value, kind, f"`{node.name}`")
    else:
        kind = given = _inferred(body, node)
    body.program.types[id(node)] = kind
    shadows(body, node, node.name)
    variable = body.scopes.declare(node.name, "let", kind, node, node.type is not None)
    learn(body, (variable.number, ""), kind, given)
    return True


def _inferred(body: Body, node: Let) -> Type:
    kind = infer(body, node.value)
    if kind == NOTHING:
        body.reports.error(
            "no-value",
            node.value,
            "this gives no value",
            f"leave out `let {node.name} =`",
            Edit(node.at, node.value.at, ""),
        )
        return UNKNOWN
    if kind == NULL:
        return OptionalOf(body.holes.fresh())
    return ListOf(kind.inner) if isinstance(kind, ListOf) and kind.most == 0 else kind


def shadows(body: Body, node: Node, name: str) -> None:
    declared = body.names.own.get(name)
    if declared is not None:
        at = body.names.unit.text.find(name, node.at, node.end)
        body.reports.error(
            "shadows-declaration",
            Node(at, at + len(name)) if at >= 0 else node,
            f"`{name}` is {described(declared)} of this file, a variable cannot have its name",
            "choose another name",
        )


def _assign(body: Body, node: Assign) -> bool:
    assign(body, node)
    return True


def _expression(body: Body, node: ExprStmt) -> bool:
    value = node.value
    kind = infer(body, value)
    callee = body.program.callees.get(id(value))
    if isinstance(kind, FutureOf):
        body.reports.warn(
            "never-awaited",
            node,
            "nothing waits for this, and its failure goes unseen",
            "keep it, `let f = …;`, and `await f`; or leave out `async`",
        )
    elif isinstance(value, Binary) and value.op == "==" and isinstance(value.left, Name):
        at = body.names.unit.text.find("==", value.left.end, value.right.at)
        body.reports.warn(
            "no-effect",
            node,
            "this compares and does nothing with the outcome",
            f"to assign write `{value.left.name} = {body.source(value.right)};`",
            Edit(at, at + 2, "=") if at >= 0 else None,
        )
    elif not isinstance(value, Call | Ask | Spawn | Await) and kind != UNKNOWN:
        body.reports.warn("no-effect", node, "this has no effect")
    return not (callee and callee.kind is CalleeKind.LIBRARY and callee.name in ENDS)


_BESIDE = "it runs beside the rest; put the value into a variable"


def _return(body: Body, node: Return) -> bool:
    if body.strand:
        body.reports.error(
            "leaves-strand", node, f"`return` cannot leave a `{body.strand}` block", _BESIDE
        )
    if body.owner is None:
        _return_at_top(body, node)
    elif node.value is None:
        if body.result not in (NOTHING, UNKNOWN):
            body.reports.error(
                "missing-value",
                node,
                f"`{body.owner.name}` returns {shown(body.result)}",
                "write `return …;` with a value",
            )
    elif body.result == NOTHING:
        kind = infer(body, node.value)
        if kind not in (NOTHING, UNKNOWN):
            _unwanted_result(body, node, kind)
    else:
        check_declared(body, node.value, body.result, f"what `{body.owner.name}` returns")
    return False


def _return_at_top(body: Body, node: Return) -> None:
    if node.value is not None:
        infer(body, node.value)
        body.reports.error(
            "return-at-top",
            node,
            "statements at top level return no value",
            "write `fn main() -> T { … }`, or print it",
        )


def _unwanted_result(body: Body, node: Return, kind: Type) -> None:
    assert body.owner is not None
    at = body.owner.body.at
    body.reports.error(
        "unwanted-value",
        node,
        f"`{body.owner.name}` is declared to return nothing",
        f"add `-> {shown(body.holes.full(kind))}` after its parameters",
        None if body.owner.grants else Edit(at, at, f"-> {shown(body.holes.full(kind))} "),
    )


def _if(body: Body, node: If) -> bool:
    """`else if` follows in a chain, which may be long."""
    scopes, ends = body.scopes, list[Facts]()
    current: If | None = node
    while current is not None:
        condition(body, current.test, "a condition")
        when_true, when_false = body.tests.get(id(current.test), _NO_FACTS)
        before = scopes.facts
        scopes.know(when_true)
        if check_block(body, current.then):
            ends.append(scopes.facts)
        scopes.facts = before
        scopes.know(when_false)
        other = current.other
        current = None
        if other is not None and len(other.body) == 1 and isinstance(other.body[0], If):
            current = other.body[0]
        elif other is None or check_block(body, other):
            ends.append(scopes.facts)
    scopes.facts = merged(ends)
    return bool(ends)


def _bare(body: Body, node: Block) -> bool:
    return check_block(body, node)


PLAIN_STATEMENTS: dict[type, StatementRule] = {
    Let: _let,
    Assign: _assign,
    ExprStmt: _expression,
    Return: _return,
    If: _if,
    Block: _bare,
}
