"""Analyses on Python's own syntax tree: non-negative integers, definite assignment, expressions
without effects (pure).

They decide where Python and Vega mean the same. Each one is conservative: when it cannot tell,
the line is refused.
"""

import ast
from bisect import bisect_right
from collections.abc import Iterable, Iterator

# Expressions that may be worked out twice, sooner, or not at all.


def is_pure(node: ast.expr) -> bool:
    """Return whether an expression has no effect and cannot fail, so that it may be worked out
    twice, sooner, or not at all."""
    match node:
        case ast.Constant() | ast.Name():
            return True
        case ast.Attribute(value=of) | ast.UnaryOp(operand=of) | ast.FormattedValue(value=of):
            return is_pure(of)
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult(), left=left, right=right):
            return is_pure(left) and is_pure(right)
        case ast.Compare(left=left, comparators=others):
            return is_pure(left) and all(map(is_pure, others))
        case ast.JoinedStr(values=values) | ast.List(elts=values) | ast.BoolOp(values=values):
            return all(map(is_pure, values))
        case ast.Dict(keys=keys, values=values):
            return all(one is None or is_pure(one) for one in [*keys, *values])
        case ast.Call(func=ast.Name(id="len"), args=[of]):
            return is_pure(of)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="vega"), attr="money" | "duration")):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="vega"), attr="default"), args=args):
            return all(map(is_pure, args))
        case _:
            return False


# Whole numbers that are never below zero, as far as the lines of one function show it.
#
# On those, Python's `//` and `%` and an index mean what they mean here; on others they differ.


_MOST_PASSES = 50


def natural_names(function: ast.FunctionDef) -> set[str]:
    """Variables that only ever get such numbers: all are taken for it at first, then those that
    get anything else are struck out, until none is; where that takes too long, none is known."""
    given = list(_given(function))
    found = {name for name, _ in given} - {arg.arg for arg in function.args.args}
    for _ in range(_MOST_PASSES):
        wrong = {name for name, value in given if name in found and not is_natural(value, found)}
        if not wrong:
            return found
        found -= wrong
    return set()


def _given(function: ast.FunctionDef) -> Iterator[tuple[str, ast.expr | None]]:
    """Each variable with each value it gets; None where nothing is known of it."""
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), value=value):
                yield name, value
            case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=value):
                yield name, ast.BinOp(ast.Name(target.id, ast.Load()), op, value)
            case ast.For(target=target, iter=over) | ast.comprehension(target=target, iter=over):
                yield from _walked(target, over)
            case ast.ExceptHandler(name=str() as name):
                yield name, None
            case _:
                pass


def _walked(target: ast.expr, over: ast.expr) -> Iterator[tuple[str, ast.expr | None]]:
    match target, over:
        case ast.Name(id=name), ast.Call(func=ast.Name(id="range"), args=args):
            yield name, (ast.Constant(0) if len(args) == 1 else args[0] if args else None)
        case (
            ast.Tuple(elts=[ast.Name(id=index), ast.Name(id=item)]),
            ast.Call(func=ast.Name(id="enumerate")),
        ):
            yield index, ast.Constant(0)
            yield item, None
        case _:
            for one in ast.walk(target):
                if isinstance(one, ast.Name):
                    yield one.id, None


def is_natural(node: ast.expr | None, natural: set[str]) -> bool:
    """Return whether an expression is a whole number that is never below zero. `natural` are the
    variables that are."""
    match node:
        case ast.Constant(value=bool()):
            return False
        case ast.Constant(value=int() as value):
            return value >= 0
        case ast.Name(id=name):
            return name in natural
        case ast.BinOp(op=ast.Add() | ast.Mult() | ast.FloorDiv() | ast.Mod()):
            return is_natural(node.left, natural) and is_natural(node.right, natural)
        case ast.Call(func=ast.Name(id="len" | "abs")):
            return True
        case ast.Call(func=ast.Name(id="max"), args=[_, _, *_] as args):
            return any(is_natural(arg, natural) for arg in args)
        case ast.Call(func=ast.Name(id="min"), args=[_, _, *_] as args):
            return all(is_natural(arg, natural) for arg in args)
        case ast.Call(func=ast.Attribute(attr="count")):
            return True
        case _:
            return False


# Which variables have a value on every way through a statement, and which are read after it.


def assigned_names(function: ast.FunctionDef) -> dict[str, ast.AST]:
    """Return each variable with the first place that gives it a value. Variables of comprehensions
    are their own."""
    found: dict[str, ast.AST] = {}
    inner = {
        id(one)
        for node in ast.walk(function)
        if isinstance(node, ast.comprehension)
        for one in ast.walk(node.target)
    }
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in inner:
            first = found.setdefault(node.id, node)
            if node.lineno < getattr(first, "lineno", 0):
                found[node.id] = node
    return found


class VariableReads:
    """Knows where each variable of a function stands: by name, its lines with whether it is read
    there first."""

    def __init__(self, function: ast.FunctionDef) -> None:
        lines: dict[str, dict[int, bool]] = {}
        walked = {
            id(one)
            for node in ast.walk(function)
            if isinstance(node, ast.For)
            for one in ast.walk(node.target)
        }
        grown = {id(node.target) for node in ast.walk(function) if isinstance(node, ast.AugAssign)}
        begun: set[tuple[str, int]] = set()
        for node in ast.walk(function):
            if isinstance(node, ast.Name):
                here = lines.setdefault(node.id, {})
                is_read = isinstance(node.ctx, ast.Load) or id(node) in grown
                here[node.lineno] = here.get(node.lineno, False) or is_read
                if id(node) in walked:
                    begun.add((node.id, node.lineno))
        for name, line in begun:
            lines[name][line] = False
        self._lines = {name: sorted(here.items()) for name, here in lines.items()}

    def is_read_after(self, name: str, statement: ast.AST) -> bool:
        """Before it gets another value there."""
        end = getattr(statement, "end_lineno", 0)
        found = self._lines.get(name, [])
        at = bisect_right(found, (end, True))
        return at < len(found) and found[at][1]


def is_read_before_assignment(name: str, node: ast.stmt) -> bool:
    """Return whether some block of the statement reads the variable before it gives it a value,
    where Python has none."""
    match node:
        case ast.If(test=test, body=body, orelse=other):
            blocks, heads = [body, other], [test]
        case ast.Try(body=body, handlers=handlers):
            blocks, heads = [body, *(handler.body for handler in handlers)], []
        case ast.With(items=items, body=body):
            blocks, heads = [body], [item.context_expr for item in items]
        case _:
            return True
    return any(_reads(name, head) for head in heads) or any(
        _read_first(name, block) for block in blocks
    )


def _read_first(name: str, block: list[ast.stmt]) -> bool:
    for statement in block:
        match statement:
            case ast.Assign(targets=[ast.Name(id=given)], value=value) if given == name:
                return _reads(name, value)
            case ast.AnnAssign(target=ast.Name(id=given), value=ast.expr() as value) if (
                given == name
            ):
                return _reads(name, value)
            case _ if name in definitely_assigned(statement):
                return is_read_before_assignment(name, statement)
            case _ if _reads(name, statement):
                return True
            case _:
                pass
    return False


def _reads(name: str, node: ast.AST) -> bool:
    return any(_is_read(name, one) for one in ast.walk(node))


def _is_read(name: str, node: ast.AST) -> bool:
    match node:
        case ast.Name(id=read, ctx=ast.Load()) | ast.AugAssign(target=ast.Name(id=read)):
            return read == name
        case _:
            return False


def definitely_assigned(node: ast.stmt) -> dict[str, ast.expr]:
    """Return the variables that every way through a statement gives a value, with the first value
    of each."""
    match node:
        case ast.If(body=body, orelse=[_, *_] as other):
            return _common([body, other])
        case ast.Try(body=body, handlers=handlers):
            return _common([body, *(handler.body for handler in handlers)])
        case ast.With(body=body):
            return _in_block(body)[0]
        case _:
            return {}


def _common(blocks: Iterable[list[ast.stmt]]) -> dict[str, ast.expr]:
    """Blocks that do not go on need give nothing."""
    ways = [found for found, goes_on in map(_in_block, blocks) if goes_on]
    if not ways:
        return {}
    first, *others = ways
    return {name: value for name, value in first.items() if all(name in way for way in others)}


def _in_block(body: list[ast.stmt]) -> tuple[dict[str, ast.expr], bool]:
    found: dict[str, ast.expr] = {}
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found.setdefault(name, value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found.setdefault(name, value)
            case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
                return found, False
            case _:
                for name, value in definitely_assigned(statement).items():
                    found.setdefault(name, value)
    return found, True


def target_root(node: ast.expr) -> ast.expr:
    """Return the variable of `x.f[i]`."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node
