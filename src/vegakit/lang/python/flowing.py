"""Which variables have a value on every way through a statement, and which are read after it."""

import ast
from bisect import bisect_right
from collections.abc import Iterable

__all__ = ["Reads", "assigned_names", "given_on_all_ways", "is_read_too_early"]


def assigned_names(function: ast.FunctionDef) -> dict[str, ast.AST]:
    """Each with the first place that gives it a value; variables of comprehensions are their
    own."""
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


class Reads:
    """Where each variable of a function stands: by name, its lines with whether it is read there
    first."""

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


def is_read_too_early(name: str, node: ast.stmt) -> bool:
    """Some block of the statement reads it before it gives it a value: there Python has none."""
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
            case _ if name in given_on_all_ways(statement):
                return is_read_too_early(name, statement)
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


def given_on_all_ways(node: ast.stmt) -> dict[str, ast.expr]:
    """With the first value of each."""
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
                for name, value in given_on_all_ways(statement).items():
                    found.setdefault(name, value)
    return found, True
