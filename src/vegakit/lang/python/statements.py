"""Statements: branches, loops, `try`, `raise`, `with session(…)` and `with parallel()` (pure)."""

import ast

from vegakit.lang.diagnostics import Edit, count_steps
from vegakit.lang.library import BUILTIN_ERRORS, CATCHABLE, VEGA_ERRORS
from vegakit.lang.python.analysis import is_pure
from vegakit.lang.python.assignments import (
    annotated_assignment,
    append,
    assignment,
    augmented_assignment,
    bind,
    empty_declaration,
    hoisted_declarations,
)
from vegakit.lang.python.context import (
    STATEMENTS,
    FunctionContext,
    PythonFile,
    RefusedError,
    Rule,
    check_variable_name,
    expression,
    with_imports,
)
from vegakit.lang.python.expressions import library, loop_source
from vegakit.lang.python.sends import is_vega
from vegakit.lang.python.settings import money_value, setting
from vegakit.lang.python.subset import NO_STATEMENTS
from vegakit.lang.python.types import is_none, kind_of, space_of
from vegakit.lang.syntax import tree
from vegakit.lang.syntax.cursor import SESSION_SETTINGS

# Statements: branches, loops, and what stands alone on a line.


def statements(body: FunctionContext, nodes: list[ast.stmt]) -> tuple[tree.Stmt, ...]:
    """Return statements. One that is refused is left out, and the next is looked at."""
    made: list[tree.Stmt] = []
    for node in nodes:
        try:
            made += hoisted_declarations(body, node)
            count_steps(2)
            made += STATEMENTS[type(node)](body, node)
        except RefusedError:
            _declare_all(body, node)
            if isinstance(node, ast.Expr):
                body.file.left_out.append(body.span(node))
    return tuple(made)


def _declare_all(body: FunctionContext, node: ast.stmt) -> None:
    """So that one fault is told once, not at every later line."""
    for one in ast.walk(node):
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
            body.declare(one.id)
            body.unread.add(one.id)
        elif isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            body.unread.add(one.name)


def block(body: FunctionContext, nodes: list[ast.stmt], around: ast.AST) -> tree.Block:
    """Return a block with a scope of its own."""
    body.scopes.append({})
    made = statements(body, nodes)
    body.scopes.pop()
    first = body.span(nodes[0]) if nodes else body.span(around)
    last = body.span(nodes[-1]) if nodes else first
    return tree.Block(first.at, last.end, made)


# Assignments


def _assign(body: FunctionContext, node: ast.Assign | ast.AnnAssign) -> list[tree.Stmt]:
    value = _without_or(body, node.value)
    if isinstance(value, ast.IfExp) and not _is_default(body, value):
        return _chosen(body, node, value)
    return (
        annotated_assignment(body, node)
        if isinstance(node, ast.AnnAssign)
        else assignment(body, node)
    )


def _without_or(body: FunctionContext, node: ast.expr | None) -> ast.expr | None:
    """`x or y` of what is no bool is `x if x != "" else y`, or as emptiness is written for it."""
    match node:
        case ast.BoolOp(op=ast.Or(), values=[one, other]) if _may_be_repeated(body, one):
            test = _is_filled(one, kind_of(body, one))
            chosen = node if test is None else ast.IfExp(test, one, other)
            return ast.fix_missing_locations(ast.copy_location(chosen, node))
        case _:
            return node


def _may_be_repeated(body: FunctionContext, node: ast.expr) -> bool:
    """Whether it is the same when it is worked out twice: also `d.get(k)` of what is seen to be a
    dict, which of a server could be anything."""
    match node:
        case ast.Call(func=ast.Attribute(value=of, attr="get"), args=args, keywords=[]):
            is_dict = isinstance(kind_of(body, of), tree.MapType)
            return is_dict and all(map(is_pure, [of, *args]))
        case _:
            return is_pure(node)


_EMPTY: dict[str, str | float] = {"str": "", "int": 0, "float": 0.0}


def _is_filled(node: ast.expr, kind: tree.TypeExpr | None) -> ast.expr | None:
    """Return the test that `x or …` makes of `x`, None where it is a bool or not known."""
    match kind:
        case tree.NamedType(name=name) if name in _EMPTY:
            empty: list[ast.expr] = [ast.Constant(_EMPTY[name])]
            return ast.Compare(node, [ast.NotEq()], empty)
        case tree.ListType() | tree.MapType():
            length = ast.Call(ast.Name("len", ast.Load()), [node], [])
            return ast.Compare(length, [ast.Gt()], [ast.Constant(0)])
        case tree.OptionalType(inner=inner):
            there = ast.Compare(node, [ast.IsNot()], [ast.Constant(None)])
            filled = _is_filled(node, inner)
            return None if filled is None else ast.BoolOp(ast.And(), [there, filled])
        case _:
            return None


def _is_default(body: FunctionContext, node: ast.IfExp) -> bool:
    match node.test:
        case ast.Compare(left=left, ops=[ast.IsNot()], comparators=[other]):
            return is_none(other) and body.file.source(left) == body.file.source(node.body)
        case _:
            return False


def _chosen(
    body: FunctionContext, node: ast.Assign | ast.AnnAssign, value: ast.IfExp
) -> list[tree.Stmt]:
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
    made: list[tree.Stmt] = []
    if not body.is_known(target.id):
        made.append(_first(body, node, target, value))
    span, test = file.span(value), expression(body, value.test)
    then, other = (
        tree.Block(*span, (bind(body, target, expression(body, side), node),))
        for side in (value.body, value.orelse)
    )
    return [*made, tree.If(*span, test, then, other)]


def _first(
    body: FunctionContext, node: ast.Assign | ast.AnnAssign, target: ast.Name, value: ast.IfExp
) -> tree.Stmt:
    for side in (value.orelse, value.body):
        if is_pure(side):
            if isinstance(node, ast.AnnAssign):
                with_side = ast.AnnAssign(target, node.annotation, side, 1)
                return annotated_assignment(body, ast.copy_location(with_side, node))[0]
            return assignment(body, ast.copy_location(ast.Assign([target], side), node))[0]
    kind = kind_of(body, value)
    made = None if kind is None else empty_declaration(body, target.id, kind, node)
    if made is None:
        body.refuse(
            "python-conditional",
            value,
            "both sides of this may fail or call something, and one of them shall not be done",
            f"give `{target.id}` a value first, or write `if … else …`",
        )
    return made


# What stands alone


def _alone(body: FunctionContext, node: ast.Expr) -> list[tree.Stmt]:
    match node.value:
        case ast.Constant(value=str()):
            return []
        case ast.Call(func=ast.Attribute(value=ast.Name() as name, attr="append")) as call:
            return append(body, node, name, call)
        case ast.Constant(value=value) if value is Ellipsis:
            return []
        case _:
            return [tree.ExprStmt(*body.span(node), expression(body, node.value))]


def _return(body: FunctionContext, node: ast.Return) -> list[tree.Stmt]:
    span, value = body.span(node), _without_or(body, node.value)
    if isinstance(value, ast.IfExp) and not _is_default(body, value):
        test = expression(body, value.test)
        one, other = (
            tree.Block(*body.span(side), (tree.Return(*body.span(side), expression(body, side)),))
            for side in (value.body, value.orelse)
        )
        return [tree.If(*span, test, one, other)]
    if value is None or (is_none(value) and body.returns_nothing):
        return [tree.Return(*span, None)]
    return [tree.Return(*span, expression(body, value))]


# Branches and loops


def _if(body: FunctionContext, node: ast.If) -> list[tree.Stmt]:
    test = expression(body, node.test)
    then = block(body, node.body, node)
    other = block(body, node.orelse, node) if node.orelse else None
    return [tree.If(*body.span(node), test, then, other)]


def _no_else(body: FunctionContext, node: ast.While | ast.For) -> None:
    if node.orelse:
        body.refuse(
            "python-loop",
            node.orelse[0],
            "a loop has no `else` here",
            "keep a bool that says whether it broke off, and test it after the loop",
        )


def _while(body: FunctionContext, node: ast.While) -> list[tree.Stmt]:
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
    return [tree.While(*body.span(node), tested, block(body, node.body, node), limit)]


def _for(body: FunctionContext, node: ast.For) -> list[tree.Stmt]:
    _no_else(body, node)
    targets = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    over = loop_source(body, node.iter)
    if len(names) != len(targets) or len(names) != 1 + over.pairs:
        body.refuse(
            "python-loop",
            node.target,
            "a loop has one variable, or two over `enumerate(xs)` and `d.items()`",
            "write `for x in xs:`, `for i, x in enumerate(xs):` or `for k, v in d.items():`",
        )
    again: list[tree.Stmt] = []
    for place, target in enumerate(targets):
        assert isinstance(target, ast.Name)
        if body.is_known(target.id) and target.id != "_":
            names[place] = _unused(body, target.id)
            again.append(bind(body, target, tree.Name(*body.span(target), names[place]), target))
        else:
            check_variable_name(body, target, target.id)
    kinds = [over.key, over.kind] if over.pairs else [over.kind]
    body.scopes.append(dict(zip(names, kinds, strict=True)))
    inner = block(body, node.body, node)
    body.scopes.pop()
    inner = tree.Block(inner.at, inner.end, (*again, *inner.body))
    return [tree.For(*body.span(node), tuple(names), over.value, inner)]


def _unused(body: FunctionContext, name: str) -> str:
    """Return a name for the items of a loop whose variable has a value already: it gets each item
    in turn, as in Python, and keeps the last."""
    while body.is_known(name) or name in body.assigned or body.file.is_declared(name):
        name += "_"
    return name


def _no(body: FunctionContext, node: ast.stmt) -> list[tree.Stmt]:
    word, why, advice = NO_STATEMENTS[type(node)]
    match node:
        case ast.Delete(targets=[ast.Subscript(value=ast.Name(id=name) as of, slice=at)]) if (
            space := space_of(body, of)
        ) in _REMOVED and not isinstance(at, ast.Slice):
            why = "what is removed is left out of a new one"
            written = f"{name} = vega.{_REMOVED[space]}({name}, {body.file.source(at)})"
            edit = body.file.written(node, written)
            said = f"`{word}` cannot stand here: {why}"
            body.refuse("python-statement", node, said, f"write `{written}`", edit)
        case _:
            pass
    return body.refuse("python-statement", node, f"`{word}` cannot stand here: {why}", advice)


_REMOVED = {"map": "map.remove", "list": "list.remove_at"}


PLAIN_STATEMENTS: dict[type, Rule] = {
    **dict.fromkeys(NO_STATEMENTS, _no),
    ast.Assign: _assign,
    ast.AnnAssign: _assign,
    ast.AugAssign: augmented_assignment,
    ast.Expr: _alone,
    ast.Return: _return,
    ast.Break: lambda body, node: [tree.Break(*body.span(node))],
    ast.Continue: lambda body, node: [tree.Continue(*body.span(node))],
    ast.Pass: lambda _body, _node: [],
    ast.If: _if,
    ast.While: _while,
    ast.For: _for,
}


# Blocks that can fail: `try`, `raise`, `with session(…)` and `with parallel()`.


def _try(body: FunctionContext, node: ast.Try) -> list[tree.Stmt]:
    file = body.file
    if node.finalbody or node.orelse:
        word = "finally" if node.finalbody else "else"
        file.refuse(
            "python-try",
            (node.finalbody or node.orelse)[0],
            f"a `try` has no `{word}` here",
            "write it behind the `try`; processes and budgets are given back by themselves",
        )
    inner = block(body, node.body, node)
    catches = [one for handler in node.handlers for one in _handler(body, handler)]
    return [tree.Try(*file.span(node), inner, tuple(catches))]


def _handler(body: FunctionContext, node: ast.ExceptHandler) -> list[tree.Catch]:
    """One for each kind that it names."""
    name = node.name or ""
    if name:
        if body.is_known(name) or name in body.reasons:
            body.refuse(
                "python-shadow",
                node,
                f"`{name}` has a value already, which Python would take away here",
                "choose another name",
            )
        check_variable_name(body, node, name)
    kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    found: list[tree.Catch] = []
    for one in kinds:
        kind = "" if one is None else _kind(body, one)
        if name:
            body.reasons[name] = kind in VEGA_ERRORS and len(kinds) == 1
        found.append(tree.Catch(*body.span(node), kind, name, block(body, node.body, node)))
        body.reasons.pop(name, None)
    return found


def _kind(body: FunctionContext, node: ast.expr) -> str:
    name = node.id if isinstance(node, ast.Name) else ""
    if name == "Exception":
        return ""
    is_imported = body.file.imported.get(name) == f"vegakit.{name}"
    if name in BUILTIN_ERRORS or (name in VEGA_ERRORS and is_imported):
        return name
    known = ", ".join(sorted(CATCHABLE))
    advice = f"there are: {known}"
    if name in VEGA_ERRORS:
        advice = f"import it: `from vegakit import {name}`"
    elif name in ("ZeroDivisionError", "OverflowError"):
        advice = "write `except ArithmeticError:`"
    elif name == "TimeoutError":
        advice = "write `except Timeout:`, and import it from vegakit"
    elif name == "BaseException":
        advice = "write `except Exception:`"
    return body.refuse(
        "python-except", node, f"`{body.file.source(node)}` is no error of a program", advice
    )


def _raise(body: FunctionContext, node: ast.Raise) -> list[tree.Stmt]:
    file = body.file
    match node.exc, node.cause:
        case ast.Call(func=func, args=[reason], keywords=[]), None if file.means(
            func, "vegakit.Failed"
        ):
            said = expression(body, reason)
            return [tree.ExprStmt(*body.span(node), library(body, node, "fail", said))]
        case None, _:
            advice = "write `raise Failed(str(e))` with the reason, or do not catch it"
        case _:
            advice = 'write `raise Failed("…")`, and import Failed from vegakit'
    edit = None
    if isinstance(node.exc, ast.Call) and (made := file.rewritten(node.exc, "Failed({args})")):
        edit = with_imports(file, made, "Failed")
    return file.refuse("python-raise", node, "a program raises Failed only", advice, edit)


def _with(body: FunctionContext, node: ast.With) -> list[tree.Stmt]:
    file = body.file
    item = node.items[0]
    call = item.context_expr
    if len(node.items) == 1 and item.optional_vars is None and isinstance(call, ast.Call):
        if file.means(call.func, "vegakit.parallel") and not (call.args or call.keywords):
            inner = statements(body, node.body)
            return [
                tree.Parallel(
                    *body.span(node),
                    tree.Block(file.span(node.body[0]).at, file.span(node.body[-1]).end, inner),
                )
            ]
        if file.means(call.func, "vegakit.session"):
            return [_session(body, node, call)]
    _no_other_with(file, item, call)
    return file.refuse(
        "python-with",
        item.context_expr,
        "`with` opens a session or runs statements at the same time",
        'write `with session(budget="$1"):` or `with parallel():`',
    )


def _no_other_with(file: PythonFile, item: ast.withitem, call: ast.expr) -> None:
    """Refuse `with open(path) as f:` and `with session(…) as s:` by what is meant."""
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
        if call.func.id == "open" and call.args:
            path = file.source(call.args[0])
            advice = f"write `text = vega.file.read({path})`, or `vega.file.write({path}, text)`"
            file.refuse("python-with", call, "a file is read and written as a whole here", advice)
        if item.optional_vars is not None and file.means(call.func, "vegakit.session"):
            named = file.span(item.optional_vars)
            edit = Edit(file.span(call).end, named.end, "")
            advice = f"leave out `as {file.source(item.optional_vars)}`"
            file.refuse("python-with", named, "a session is no value", advice, edit)


def _session(body: FunctionContext, node: ast.With, call: ast.Call) -> tree.Stmt:
    file = body.file
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    budget = call.args[0] if call.args else given.get("budget")
    if budget is None or len(call.args) > 1:
        file.refuse(
            "python-with", call, "a session has a budget", 'write `with session(budget="$1"):`'
        )
    settings: list[tree.Setting] = []
    for keyword in call.keywords:
        if keyword.arg in SESSION_SETTINGS:
            settings.append(setting(file, keyword))
        elif keyword.arg != "budget":
            known = ", ".join(("budget", *SESSION_SETTINGS))
            file.refuse(
                "python-with", keyword, f"a session has no `{keyword.arg}`", f"there are: {known}"
            )
    amount = money_value(body, budget)
    return tree.Session(*body.span(node), amount, block(body, node.body, node), tuple(settings))


GUARDS: dict[type, Rule] = {ast.Try: _try, ast.Raise: _raise, ast.With: _with}
