"""Whole numbers that are never below zero, as far as the lines of one function show it.

On those, Python's `//` and `%` and an index mean what they mean here; on others they differ.
"""

import ast
from collections.abc import Iterator

__all__ = ["is_natural", "natural_names"]

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
