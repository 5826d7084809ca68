"""A program in Python as Vega: the same tree in its other spelling."""

import tokenize

from vegakit.lang.diagnostics import Diagnostic
from vegakit.lang.formatting import format_source
from vegakit.lang.python.lowering import Lowered, lower
from vegakit.lang.python.places import Places
from vegakit.lang.python.printing.context import NoFormError
from vegakit.lang.python.printing.vega_expressions import put, text_literal, type_text, written
from vegakit.lang.python.printing.vega_statements import Lines, statements
from vegakit.lang.tree import (
    AgentDecl,
    AgentField,
    Decl,
    FnDecl,
    Grants,
    Param,
    Setting,
    SupervisorDecl,
    ToolDecl,
    ToolRef,
    TypeDecl,
    UseMcp,
)

__all__ = ["to_vega"]


def to_vega(text: str, file: str) -> tuple[str, tuple[Diagnostic, ...]]:
    """The text, or why there is none."""
    lowered = lower(text, file)
    if lowered.diagnostics:
        return "", lowered.diagnostics
    try:
        return _Whole(text, lowered).text(), ()
    except NoFormError as error:
        found = Diagnostic(
            "no-form",
            f"this cannot be written in the other language: {error.what}",
            file,
            error.node.at,
            error.node.end,
            error.help,
        )
        return "", (found,)


class _Whole:
    def __init__(self, text: str, lowered: Lowered) -> None:
        if lowered.tools:
            name = next(iter(lowered.tools))
            raise NoFormError(
                lowered.source,
                f"`{name}` is a function of Python",
                f'pass it in: load("x.vega", tools=[{name}])',
            )
        self._source = lowered.source
        self._lines = Lines(_comments(text), text)

    def text(self) -> str:
        lines = self._lines
        decls = sorted(self._source.decls, key=lambda decl: decl.at)
        for decl in decls:
            lines.before(decl.at)
            self._decl(decl)
            lines.add("")
        lines.before(len(lines.text) + 1)
        return format_source("\n".join(lines.made).strip("\n") + "\n")

    def _decl(self, decl: Decl) -> None:
        match decl:
            case UseMcp(server=server, name=name):
                same = server == name
                self._lines.add(f"use mcp {text_literal(server)}{'' if same else f' as {name}'}")
            case TypeDecl():
                self._type(decl)
            case AgentDecl():
                self._agent(decl)
            case SupervisorDecl():
                self._supervisor(decl)
            case FnDecl():
                budget = "" if decl.budget is None else f" budget {put(decl.budget)}"
                head = f"fn {_head(decl)}{_grants(decl.grants, 'may')}{budget}"
                self._body(head, decl)
            case ToolDecl(description=said, settings=settings):
                described = "" if said is None else f" {put(said)}"
                more = " repeatable" if settings else ""
                head = f"tool {_head(decl)}{described}{_grants(decl.grants, 'capabilities')}{more}"
                self._body(head, decl)
            case _:
                raise NoFormError(decl, "this declaration")

    def _body(self, head: str, decl: FnDecl | ToolDecl) -> None:
        self._lines.add(f"{head} {{")
        statements(self._lines, decl.body.body, decl.result)
        self._lines.before(decl.body.end, beside=True)
        self._lines.add("}")

    def _type(self, decl: TypeDecl) -> None:
        if decl.alias is not None:
            self._lines.add(f"type {decl.name} = {type_text(decl.alias)}")
            return
        self._lines.add(f"type {decl.name} {{")
        for field in decl.fields:
            self._lines.add(f"{field.name}: {type_text(field.type)}")
        self._lines.add("}")

    def _agent(self, decl: AgentDecl) -> None:
        self._lines.add(f"agent {decl.name} {{")
        for field in decl.fields:
            self._lines.add(_field(field))
        self._lines.add("}")

    def _supervisor(self, decl: SupervisorDecl) -> None:
        children = ", ".join(child.name for child in decl.children)
        rows = [*_settings(decl.settings), f"children [{children}]"]
        self._lines.add(f"supervisor {decl.name} {{ {'  '.join(rows)} }}")


def _head(decl: FnDecl | ToolDecl) -> str:
    result = "" if decl.result is None else f" -> {type_text(decl.result)}"
    return f"{decl.name}({', '.join(map(_param, decl.params))}){result}"


def _param(param: Param) -> str:
    assert param.type is not None
    return f"{written(param.name)}: {type_text(param.type)}"


def _grants(grants: Grants | None, word: str) -> str:
    if grants is None:
        return ""
    made = ""
    if grants.capabilities is not None:
        made += f" {word} [{', '.join(one.name for one in grants.capabilities)}]"
    for name, rows in (
        ("allowed_paths", grants.paths),
        ("allowed_commands", grants.commands),
        ("allowed_hosts", grants.hosts),
    ):
        if rows is not None:
            made += f" {name} [{', '.join(put(row) for row in rows)}]"
    return made


def _field(field: AgentField) -> str:
    value = field.value
    if not isinstance(value, tuple):
        return f"{field.name} {put(value)}"
    if field.name == "tools":
        refs = [_ref(ref) for ref in value if isinstance(ref, ToolRef)]
        return f"tools [{', '.join(refs)}]"
    rows = tuple(row for row in value if isinstance(row, Setting))
    return f"{field.name} {{ {'  '.join(_settings(rows))} }}"


def _ref(ref: ToolRef) -> str:
    return f"{ref.kind} {text_literal(ref.name)}" if ref.kind else ref.name


def _settings(rows: tuple[Setting, ...]) -> list[str]:
    return [f"{row.name} {put(row.value)}" for row in rows]


def _comments(text: str) -> list[tuple[int, str]]:
    places = Places(text)
    lines = text.split("\n")
    found: list[tuple[int, str]] = []
    readline = iter(text.splitlines(keepends=True)).__next__
    for token in tokenize.generate_tokens(readline):
        if token.type == tokenize.COMMENT:
            line, column = token.start
            at = places.at(line, len(lines[line - 1][:column].encode()))
            found.append((at, f"//{token.string[1:]}"))
    return found
