"""Functions and tools of a file: their rights, and their bodies in the tree."""

import ast

from vegakit.lang.python.agents import budget_in, grants, repeatable
from vegakit.lang.python.context import Body, File, FunctionHead
from vegakit.lang.python.flowing import Reads, assigned_names
from vegakit.lang.python.owning import shared_changes
from vegakit.lang.python.signs import is_natural, natural_names
from vegakit.lang.python.statements import statements
from vegakit.lang.tree import Block, Decl, FnDecl, Text, ToolDecl

__all__ = ["function", "tool"]

_RIGHTS = ("allowed_paths", "allowed_commands", "allowed_hosts")
_MAIN = ("may", *_RIGHTS, "budget")
_TOOL = ("capabilities", *_RIGHTS, "repeatable")


def function(file: File, made: FunctionHead, keywords: list[ast.keyword]) -> Decl:
    node = made.node
    rights, span = grants(file, keywords, _MAIN), file.span(node)
    budget = budget_in(file, keywords)
    inner = _body(file, made, node.body)
    return FnDecl(span.at, span.end, node.name, made.params, made.result, rights, budget, inner)


def tool(file: File, made: FunctionHead, keywords: list[ast.keyword]) -> Decl:
    """Its docstring is what the model is told."""
    node = made.node
    rights, span = grants(file, keywords, _TOOL), file.span(node)
    said = ast.get_docstring(node)
    told = None
    if said is not None:
        at = file.span(node.body[0])
        told = Text(at.at, at.end, (said,))
    return ToolDecl(
        span.at,
        span.end,
        node.name,
        made.params,
        made.result,
        told,
        rights,
        _body(file, made, node.body),
        repeatable(file, keywords),
    )


def _natural_constants(file: File) -> set[str]:
    """No variable can have their names."""
    return {name for name, value in file.constants.items() if is_natural(value, set())}


def _body(file: File, made: FunctionHead, nodes: list[ast.stmt]) -> Block:
    node = made.node
    body = Body(file, assigned_names(node), natural_names(node) | _natural_constants(file))
    body.shared = shared_changes(node, {*file.records, *file.agents})
    body.read_after = Reads(node).is_read_after
    body.returns_nothing = made.result is None
    for param in made.params:
        body.declare(param.name, param.type)
    made_of = statements(body, nodes)
    first, last = file.span(nodes[0]), file.span(nodes[-1])
    return Block(first.at, last.end, made_of)
