"""Assignments and the declarations they need: a first assignment declares, a later one assigns, a
change in place makes a new value (pure).
"""

import ast

from vegakit.lang.python.analysis import (
    definitely_assigned,
    is_pure,
    is_read_before_assignment,
    target_root,
)
from vegakit.lang.python.context import (
    FunctionContext,
    RefusedError,
    check_variable_name,
    expression,
)
from vegakit.lang.python.expressions import is_place
from vegakit.lang.python.subset import BINARY
from vegakit.lang.python.types import kind_of, space_of, type_of
from vegakit.lang.syntax import tree

# Variables that every way through a block gives a value: they are declared before the block.
#
# A record has no value to begin with, so it begins as null; the checker sees that every way gives
# it one.


def hoisted_declarations(body: FunctionContext, node: ast.stmt) -> list[tree.Stmt]:
    """Return declarations for the variables that every way through a block gives a value and that
    are read after it."""
    made: list[tree.Stmt] = []
    for name, value in definitely_assigned(node).items():
        if body.is_known(name) or not body.read_after(name, node) or _is_parallel(body, node):
            continue
        kind = kind_of(body, value)
        if kind is None or is_read_before_assignment(name, node):
            continue
        declared = empty_declaration(body, name, kind, node)
        if declared is not None:
            made.append(declared)
    return made


def empty_declaration(
    body: FunctionContext, name: str, kind: tree.TypeExpr, node: ast.stmt
) -> tree.Stmt | None:
    """Return a declaration with a value that nobody reads, or None where the type has none."""
    first, at = _empty_value(kind, node, body), body.span(node).at
    if first is None and not (isinstance(kind, tree.NamedType) and kind.name in body.file.records):
        return None
    check_variable_name(body, node, name)
    body.declare(name, kind)
    if first is None:
        return tree.Let(at, at, name, tree.OptionalType(at, at, kind), tree.Word(at, at, None))
    return tree.Let(at, at, name, _plain_kind(kind), first)


def _is_parallel(body: FunctionContext, node: ast.stmt) -> bool:
    if not isinstance(node, ast.With):
        return False
    call = node.items[0].context_expr
    return isinstance(call, ast.Call) and body.file.means(call.func, "vegakit.parallel")


def _plain_kind(kind: tree.TypeExpr) -> tree.TypeExpr | None:
    """Written where it is known all through."""
    inner = kind
    while isinstance(inner, tree.ListType | tree.MapType | tree.OptionalType):
        inner = inner.inner
    return None if isinstance(inner, tree.NamedType) and inner.name == "any" else kind


def _empty_value(kind: tree.TypeExpr, node: ast.stmt, body: FunctionContext) -> tree.Expr | None:
    at = body.span(node).at
    match kind:
        case tree.NamedType(name="str"):
            return tree.Text(at, at, ())
        case tree.NamedType(name="int"):
            return tree.Whole(at, at, 0)
        case tree.NamedType(name="float"):
            return tree.Decimal(at, at, 0.0)
        case tree.NamedType(name="bool"):
            return tree.Word(at, at, False)
        case tree.ListType():
            return tree.ListLit(at, at, ())
        case tree.MapType():
            return tree.MapLit(at, at, ())
        case tree.ChoiceType(choices=choices):
            return tree.Text(at, at, choices[:1])
        case tree.OptionalType():
            return tree.Word(at, at, None)
        case _:
            return None


# Assignments: a first one declares, a later one assigns; changes in place are new values.


def bind(body: FunctionContext, target: ast.Name, value: tree.Expr, at: ast.AST) -> tree.Stmt:
    """The variable gets the value; here it is declared if it was not."""
    span = body.span(at)
    name = target.id
    if name in body.reasons:
        body.refuse(
            "python-shadow", target, f"`{name}` is the error that was caught", "choose another name"
        )
    if body.is_known(name):
        return tree.Assign(*span, tree.Name(*body.span(target), name), value)
    check_variable_name(body, target, name)
    return tree.Let(*span, name, None, value)


def store(body: FunctionContext, target: ast.Name, value: ast.expr, at: ast.AST) -> tree.Stmt:
    """Return `name = value` as a declaration or an assignment."""
    made, kind = expression(body, value), kind_of(body, value)
    statement = bind(body, target, made, at)
    if isinstance(statement, tree.Let):
        body.declare(target.id, kind)
    return statement


def assignment(body: FunctionContext, node: ast.Assign) -> list[tree.Stmt]:
    """Return an assignment to a variable, a field or an item."""
    if len(node.targets) > 1:
        body.refuse("python-assign", node, "one variable is assigned at a time", "write two lines")
    target = node.targets[0]
    match target:
        case ast.Name():
            return [store(body, target, node.value, node)]
        case ast.Attribute() | ast.Subscript():
            return [_replaced(body, node, target, expression(body, node.value))]
        case _:
            return body.refuse(
                "python-assign",
                target,
                "there are no tuples to take apart",
                "assign one variable a line",
            )


def annotated_assignment(body: FunctionContext, node: ast.AnnAssign) -> list[tree.Stmt]:
    """Return `name: T = value`, which declares."""
    file, target = body.file, node.target
    if not isinstance(target, ast.Name):
        file.refuse("python-assign", node, "only a variable is annotated", "leave it out here")
    if node.value is None:
        file.refuse(
            "python-assign",
            node,
            f"`{target.id}` has a type and no value",
            f"give it one: `{file.source(node)} = …`",
        )
    if body.is_known(target.id):
        file.refuse(
            "python-assign",
            node,
            f"`{target.id}` has its type already",
            f"write `{target.id} = {file.source(node.value)}`",
        )
    kind = type_of(file, node.annotation)
    check_variable_name(body, target, target.id)
    value = expression(body, node.value)
    body.declare(target.id, kind)
    return [tree.Let(*file.span(node), target.id, kind, value)]


def _owned(
    body: FunctionContext, node: ast.stmt, what: str, written: str, *, is_whole: bool = False
) -> None:
    why = body.shared.get(id(node), "")
    if why and what.strip("`") in body.unread:
        raise RefusedError
    if why:
        after = ", and return it: who called takes it from there" if "caller" in why else ""
        body.refuse(
            "python-in-place",
            node,
            f"this changes {what} in place, and {why}: in Python the change would be seen there",
            f"make a new one: `{written}`{after}",
            body.file.replaced(node, written) if is_whole else None,
        )


def _replaced(
    body: FunctionContext,
    node: ast.Assign | ast.AugAssign,
    target: ast.Attribute | ast.Subscript,
    value: tree.Expr,
) -> tree.Stmt:
    """`x.f = v`, `x[i] = v`: one step behind the name of a variable."""
    file, root = body.file, target_root(target)
    if not isinstance(root, ast.Name) or target.value is not root:
        file.refuse(
            "python-in-place",
            target,
            "a change reaches one step behind the name of a variable",
            "take the inner value, make a new one of it, and assign that",
        )
    written = f"{root.id} = …"
    _owned(body, node, f"`{root.id}`", written)
    of = expression(body, root)
    if isinstance(target, ast.Attribute):
        place: tree.Member | tree.Index = tree.Member(*file.span(target), of, target.attr)
    else:
        place = _index(body, target, of)
    return tree.Assign(*file.span(node), place, value)


def _index(body: FunctionContext, target: ast.Subscript, of: tree.Expr) -> tree.Index:
    if isinstance(target.slice, ast.Slice) or not is_pure(target.slice):
        body.refuse(
            "python-in-place",
            target,
            "one item is replaced, at an index that calls nothing",
            "give the index a name first",
        )
    at, proven = expression(body, target.slice), is_place(body, target)
    match target.slice:
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as back)) if (
            space_of(body, target.value) == "list"
        ):
            span = body.span(target.slice)
            length = tree.Call(*span, tree.Name(*span, "len"), (of,), ("",))
            at, proven = tree.Binary(*span, "-", length, tree.Whole(*span, back)), True
        case _:
            pass
    made = tree.Index(*body.span(target), of, at)
    body.demand("index", made, target, is_proven=proven)
    return made


def augmented_assignment(body: FunctionContext, node: ast.AugAssign) -> list[tree.Stmt]:
    """`x += 1` is `x = x + 1`; of a list Python changes it in place."""
    file, target = body.file, node.target
    if isinstance(target, ast.Name):
        if not body.is_known(target.id):
            expression(body, ast.copy_location(ast.Name(target.id, ast.Load()), target))
        was = ast.copy_location(ast.Name(target.id, ast.Load()), target)
        both = ast.copy_location(ast.BinOp(was, node.op, node.value), node)
        value = expression(body, both)
        why = body.shared.get(id(node), "")
        if isinstance(node.op, ast.Add | ast.BitOr) and why:
            body.demand("grown", value, node)
        return [tree.Assign(*body.span(node), tree.Name(*file.span(target), target.id), value)]
    if type(node.op) not in BINARY or isinstance(node.op, ast.Div):
        file.refuse("python-operator", node, "this cannot be done in place", "write it out")
    was = ast.copy_location(_loaded(target), target)
    both = ast.copy_location(ast.BinOp(was, node.op, node.value), node)
    value = expression(body, both)
    body.demand("grown", value, node)
    return [_replaced(body, node, target, value)]


def _loaded(target: ast.Attribute | ast.Subscript) -> ast.expr:
    if isinstance(target, ast.Attribute):
        return ast.Attribute(target.value, target.attr, ast.Load())
    return ast.Subscript(target.value, target.slice, ast.Load())


def append(
    body: FunctionContext, node: ast.Expr, name: ast.Name, call: ast.Call
) -> list[tree.Stmt]:
    """Return `xs.append(x)` as `xs = xs + [x]`, where nobody else can see the change."""
    file, span = body.file, body.span(node)
    if len(call.args) != 1 or call.keywords:
        file.refuse("python-in-place", node, "`append` takes one item", f"write `{name.id} + [x]`")
    item = file.source(call.args[0])
    if body.is_known(name.id):
        _owned(body, node, f"`{name.id}`", f"{name.id} = {name.id} + [{item}]", is_whole=True)
    made = tree.ListLit(*span, (expression(body, call.args[0]),))
    of = expression(body, name)
    value = tree.Binary(*span, "+", of, made)
    body.demand("list", of, name)
    return [tree.Assign(*span, tree.Name(*file.span(name), name.id), value)]
