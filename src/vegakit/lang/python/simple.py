"""Expressions that may be worked out twice, sooner, or not at all."""

import ast

__all__ = ["is_simple"]


def is_simple(node: ast.expr) -> bool:
    """Nothing happens when it is worked out and it cannot fail: so it may be done twice, sooner,
    or not at all."""
    match node:
        case ast.Constant() | ast.Name():
            return True
        case ast.Attribute(value=of) | ast.UnaryOp(operand=of) | ast.FormattedValue(value=of):
            return is_simple(of)
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult(), left=left, right=right):
            return is_simple(left) and is_simple(right)
        case ast.Compare(left=left, comparators=others):
            return is_simple(left) and all(map(is_simple, others))
        case ast.JoinedStr(values=values) | ast.List(elts=values) | ast.BoolOp(values=values):
            return all(map(is_simple, values))
        case ast.Dict(keys=keys, values=values):
            return all(one is None or is_simple(one) for one in [*keys, *values])
        case ast.Call(func=ast.Name(id="len"), args=[of]):
            return is_simple(of)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="vega"), attr="money" | "duration")):
            return True
        case _:
            return False
