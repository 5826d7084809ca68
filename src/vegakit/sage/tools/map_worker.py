"""Name what source files define, by tree-sitter: the program that `project_map` runs in a sandbox,
by its text, in a Python that has no part of Vega.

It reads lines of JSON, `[language, text]`, and answers each by a line, a list of `[name, members]`,
at once: if a text hangs or kills a parser, who started this knows which one.
"""

import importlib
import json
import sys
from typing import Any

_MOST_NAMES, _MOST_MEMBERS = 200, 40
_GRAMMARS = {
    "python": ("tree_sitter_python", "language"),
    "javascript": ("tree_sitter_javascript", "language"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "bash": ("tree_sitter_bash", "language"),
}
_WRAPPERS = {"decorated_definition": "definition", "export_statement": "declaration"}
_DEFINITIONS = frozenset(
    """
    function_definition class_definition function_declaration generator_function_declaration
    class_declaration abstract_class_declaration interface_declaration type_alias_declaration
    enum_declaration method_definition
    """.split()
)
_CLASSES = frozenset("class_definition class_declaration abstract_class_declaration".split())
_FUNCTIONS = frozenset("arrow_function function_expression generator_function".split())


def main() -> None:
    """Answer every line until there is none."""
    tree_sitter: Any = importlib.import_module("tree_sitter")
    parsers: dict[str, Any] = {}
    for line in sys.stdin:
        language, text = json.loads(line)
        if language not in parsers:
            module, function = _GRAMMARS[language]
            made = getattr(importlib.import_module(module), function)()
            parsers[language] = tree_sitter.Parser(tree_sitter.Language(made))
        tree = parsers[language].parse(text.encode("utf-8", "replace"))
        sys.stdout.write(json.dumps(_defined(tree.root_node)) + "\n")
        sys.stdout.flush()


def _defined(root: Any) -> list[tuple[str, list[str]]]:  # noqa: ANN401
    found: list[tuple[str, list[str]]] = []
    for child in root.named_children:
        node = child.child_by_field_name(_WRAPPERS.get(child.type, "")) or child
        if node.type in _DEFINITIONS:
            found.append((_name(node), _members(node) if node.type in _CLASSES else []))
        elif node.type == "lexical_declaration":
            found += [(name, []) for name in _constants(node)]
    return [(name, members) for name, members in found if name][:_MOST_NAMES]


def _members(node: Any) -> list[str]:  # noqa: ANN401
    body = node.child_by_field_name("body")
    inside: list[Any] = [] if body is None else body.named_children
    names: list[str] = []
    for child in inside:
        inner = child.child_by_field_name(_WRAPPERS.get(child.type, "")) or child
        if inner.type in _DEFINITIONS and not (name := _name(inner)).startswith("_") and name:
            names.append(name)
    return names[:_MOST_MEMBERS]


def _constants(node: Any) -> list[str]:  # noqa: ANN401
    """Functions that JavaScript gives a name by a constant."""
    made = [child for child in node.named_children if child.type == "variable_declarator"]
    values = [(child, child.child_by_field_name("value")) for child in made]
    return [_name(child) for child, value in values if value and value.type in _FUNCTIONS]


def _name(node: Any) -> str:  # noqa: ANN401
    name = node.child_by_field_name("name")
    return "" if name is None else name.text.decode("utf-8", "replace")[:80]


if __name__ == "__main__":
    main()
