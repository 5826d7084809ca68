"""A tree that is printed as Vega and parsed again is the same tree."""

from typing import Any

import pytest

from tests.lang.generating import source
from tests.lang.test_grammar_properties import PROGRAMS
from vegakit.lang import parse, to_vega
from vegakit.lang.syntax import tree
from vegakit.lang.syntax.printer import Comments, print_source


def shape(node: Any) -> Any:
    """Without places; an answer is text whether it says so or not."""
    if isinstance(node, tuple):
        return tuple(map(shape, node))
    if not isinstance(node, tree.Node):
        return node
    fields = {name: shape(getattr(node, name)) for name in node.__struct_fields__[2:]}
    if fields.get("answer") == ("NamedType", "str", None):
        fields["answer"] = None
    return (type(node).__name__, *fields.values())


def printed(text: str) -> str:
    return print_source(parse(text).source, Comments(text, ()))


def test_printed_and_parsed_again_is_the_same_tree() -> None:
    """On every generated program."""
    for seed in range(PROGRAMS):
        text = source(seed)
        again = parse(printed(text))
        assert again.diagnostics == (), (seed, printed(text))
        assert shape(again.source) == shape(parse(text).source), seed


@pytest.mark.parametrize(
    "text",
    [
        'use "lib/text.vega"',
        'use "lib/text.vega" as words',
        "program may [fs::read]",
        "monitor(a) { why -> print(why); }",
        "{ let x = 1; }",
        "agent A { model fast  tool f() { return; } }",
        "let x: [str]? = a <- m as str;",
        "let x = a <- (m ?? n);",
        "session budget (a ?? b) confirm (a as money) { print(1); }",
        "let y = (a - b) - (c - d) * -(e + 1);",
    ],
)
def test_every_kind_of_node_has_a_form(text: str) -> None:
    assert shape(parse(printed(text)).source) == shape(parse(text).source)


def test_a_choice_that_may_be_none_is_a_type_of_vega() -> None:
    """`"a" | "b"?`: types have no parentheses."""
    python = (
        "from typing import Literal\n\nfrom vegakit import program\n\n\n@program\n"
        'def main(x: Literal["a", "b"] | None) -> None:\n    print("x")\n'
    )
    text, found = to_vega(python, "x.py")
    assert found == ()
    assert parse(text).diagnostics == ()
    assert 'x: "a" | "b"?' in text
