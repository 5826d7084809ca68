"""The parser against the grammar of `vega.lark`, on generated programs.

VEGA_PROGRAMS sets how many: 500 unless histories are few, 10,000 for a full run.
"""

import os
import re

import pytest
from msgspec import Struct

from tests.conftest import HISTORIES
from tests.lang.generating import mutated, source
from tests.lang.oracle import Refused, Shape, shape_by_grammar, shape_of
from vegakit.lang import parse
from vegakit.lang.syntax import tree

PROGRAMS = int(os.environ.get("VEGA_PROGRAMS", min(500, 5 * HISTORIES)))
ABSTRACT = {"Decl", "Expr", "Node", "Stmt", "TypeExpr"}


def by_parser(text: str) -> Shape:
    """None when it is refused."""
    parsed = parse(text)
    return None if parsed.diagnostics else shape_of(parsed.source)


def by_grammar(text: str) -> Shape:
    try:
        return shape_by_grammar(text)
    except Refused:
        return None


def test_both_read_the_same_tree() -> None:
    """Of every program that is right in form."""
    for seed in range(PROGRAMS):
        text = source(seed)
        found = by_parser(text)
        assert found is not None, (seed, parse(text).diagnostics)
        assert found == by_grammar(text), seed


def test_both_accept_and_refuse_alike() -> None:
    """Programs with a token dropped, doubled, swapped or replaced; some are still right."""
    accepted = 0
    for seed in range(PROGRAMS):
        text = mutated(seed)
        found = by_parser(text)
        assert found == by_grammar(text), (seed, text)
        accepted += found is not None
    assert PROGRAMS // 50 < accepted < PROGRAMS


def test_every_node_knows_its_place() -> None:
    """Inside its parent; what stands at a name or named type is that name, but for blanks and the
    size of a text."""
    for seed in range(PROGRAMS // 5):
        text = source(seed)
        waiting: list[tree.Node] = [parse(text).source]
        while waiting:
            node = waiting.pop()
            if isinstance(node, tree.Name | tree.NamedType | tree.CapName):
                assert _without_blanks(text[node.at : node.end]).split(";")[0] == node.name, seed
            for child in _children(node):
                assert node.at <= child.at < child.end <= node.end, (seed, node, child)
                waiting.append(child)


def _without_blanks(text: str) -> str:
    return re.sub(r"\s|/\*.*?\*/|//.*", "", text)


def _children(node: tree.Node) -> list[tree.Node]:
    fields = [getattr(node, name) for name in node.__struct_fields__]
    many = [one for field in fields for one in (field if isinstance(field, tuple) else (field,))]
    return [one for one in many if isinstance(one, tree.Node)]


def test_generated_programs_hold_every_construct() -> None:
    """Every kind of node of the tree."""
    seen: set[str] = set()
    for seed in range(200):
        waiting: list[object] = [parse(source(seed)).source]
        while waiting:
            node = waiting.pop()
            if isinstance(node, Struct):
                seen.add(type(node).__name__)
                waiting += [getattr(node, name) for name in node.__struct_fields__]
            elif isinstance(node, tuple):
                waiting += node
    assert (
        seen
        == {
            name
            for name, kind in vars(tree).items()
            if getattr(kind, "__module__", "") == tree.__name__ and isinstance(kind, type)
        }
        - ABSTRACT
    )


@pytest.mark.parametrize(
    "text",
    [
        "fn f() allowed_paths [] allowed_paths [] {}",
        'tool t() allowed_hosts [] "a" allowed_hosts [] {}',
        "fn f() may [] may [] {}",
        'tool t() "a" "b" {}',
        "tool t() idempotent idempotent {}",
        "program allowed_paths [] allowed_paths []",
        "fn f() budget 1 budget 2 {}",
        "x = a <- b as T as T;",
        "x = spawn A supervised by b supervised by {};",
        "supervisor S { children [] children [] }",
        "{a: 1}.b = 2;",
        "f() = 1;",
    ],
)
def test_both_refuse_what_no_grammar_can_say(text: str) -> None:
    """Rare in generated programs, so they are named."""
    assert by_parser(text) is None
    assert by_grammar(text) is None
