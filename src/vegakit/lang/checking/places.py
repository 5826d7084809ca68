"""Names, fields and items, where they are read."""

from vegakit.lang.checked import NameKind
from vegakit.lang.checking.context import Body, Rule, infer
from vegakit.lang.checking.declared import Agent, Declared, Routine, Supervisor, described
from vegakit.lang.checking.fitting import check, is_open, null_advice
from vegakit.lang.checking.relations import UNKNOWN, shown
from vegakit.lang.checking.reports import instead, meant
from vegakit.lang.diagnostics import Edit
from vegakit.lang.library import LIBRARY
from vegakit.lang.tree import Expr, Index, Member, Name, Node
from vegakit.lang.types import (
    ANY,
    INT,
    STR,
    ListOf,
    MapOf,
    OptionalOf,
    ProcessOf,
    RecordOf,
    Type,
)

__all__ = ["PLACES", "process_name", "process_of", "unknown_name"]


def _name(body: Body, node: Name, _want: Type | None) -> Type:
    variable = body.scopes.find(node.name)
    if variable is not None:
        body.program.names[id(node)] = NameKind.VARIABLE
        return body.scopes.read(variable, node)
    declared = body.names.find(node.name)
    if declared is not None:
        _not_a_value(body, node, declared)
    else:
        unknown_name(body, node)
    return UNKNOWN


def _not_a_value(body: Body, node: Name, declared: Declared) -> None:
    advice, edit = "", None
    if isinstance(declared, Routine):
        advice = f"to call it write `{node.name}(…)`"
    elif isinstance(declared, Agent | Supervisor):
        advice = f"to have a process of it write `spawn {node.name}`"
        edit = Edit(node.at, node.end, f"spawn {node.name}")
    body.reports.error(
        "not-a-value", node, f"`{node.name}` is {described(declared)}, not a value", advice, edit
    )


def process_name(body: Body, node: Name, declared: Agent | Supervisor) -> Type:
    """The name of an agent or supervisor where one may stand: in a send, a spawn, a list of
    children."""
    is_agent = isinstance(declared, Agent)
    body.program.names[id(node)] = NameKind.AGENT if is_agent else NameKind.SUPERVISOR
    body.program.full_names[id(node)] = declared.full
    body.program.types[id(node)] = ProcessOf(declared.full)
    return ProcessOf(declared.full)


def process_of(body: Body, node: Expr) -> Type:
    """Of an expression that may also be the bare name of an agent or supervisor."""
    if isinstance(node, Name) and body.scopes.find(node.name) is None:
        declared = body.names.find(node.name)
        if isinstance(declared, Agent | Supervisor):
            return process_name(body, node, declared)
    return infer(body, node)


def unknown_name(body: Body, node: Name, extra: tuple[str, ...] = ()) -> None:
    if node.name in LIBRARY:
        body.reports.error(
            "not-a-value",
            node,
            f"`{node.name}` is a function of the library, not a value",
            f"to call it write `{LIBRARY[node.name].signature.partition(' -> ')[0]}`",
        )
    elif node.name in body.later:
        _too_early(body, node)
    else:
        known = {*body.scopes.names(), *body.names.own, *extra}
        body.reports.error(
            "unknown-name",
            node,
            f"nothing is called `{node.name}` here",
            *_help_with_name(body, node, known),
        )


def _help_with_name(body: Body, node: Name, known: set[str]):  # noqa: ANN202
    close = meant(node.name, known)
    if close:
        return instead(node, close)
    if body.owner is not None and node.name in body.names.top_level:
        return "a function sees its parameters only: pass it in", None
    return "", None


def _too_early(body: Body, node: Name) -> None:
    line = body.names.unit.text.count("\n", 0, body.later[node.name].at) + 1
    body.reports.error(
        "used-before-let",
        node,
        f"`{node.name}` is not known here: its `let`, on line {line}, comes later or is in a block",
        "move the `let` up, before the block",
    )


def _member(body: Body, node: Member, _want: Type | None) -> Type:
    of = infer(body, node.of)
    kind = _field(body, node, of)
    if isinstance(kind, OptionalOf) and body.scopes.facts:
        place = body.scopes.place(node)
        return kind if place is None else body.scopes.facts.get(place, kind)
    return kind


def _field(body: Body, node: Member, of: Type) -> Type:
    match of:
        case RecordOf(name=name, fields=fields):
            for field, kind in fields:
                if field == node.name:
                    return kind
            _no_field(body, node, name, [field for field, _ in fields])
        case _ if of == UNKNOWN:
            pass
        case _ if of == ANY:
            _say_what(body, node, node.of, f'(… as {{str: any}})["{node.name}"]')
        case OptionalOf():
            _may_be_null(body, node.of)
        case MapOf():
            body.reports.error(
                "no-field",
                node,
                f"{shown(of)} has keys, not fields",
                f'write `{body.source(node.of)}["{node.name}"]`',
            )
        case _ if is_open(body, node.of, of):
            pass
        case _:
            counted = node.name in ("length", "len", "size", "count") and (
                of == STR or isinstance(of, ListOf)
            )
            written = f"len({body.source(node.of)})"
            body.reports.error(
                "no-field",
                node,
                f"{shown(of)} has no field `{node.name}`",
                f"write `{written}`" if counted else "",
                Edit(node.at, node.end, written) if counted else None,
            )
    return UNKNOWN


def _no_field(body: Body, node: Member, record: str, fields: list[str]) -> None:
    tail = Node(node.end - len(node.name), node.end)
    close = meant(node.name, fields)
    help_, edit = instead(tail, close)
    body.reports.error(
        "no-field",
        tail,
        f"a {record} has no field `{node.name}`",
        help_ or f"its fields are: {', '.join(fields)}",
        edit,
    )


def _may_be_null(body: Body, node: Expr) -> None:
    body.reports.error("may-be-null", node, "this may be null here", null_advice(body, node))


def _index(body: Body, node: Index, _want: Type | None) -> Type:
    of = infer(body, node.of)
    match of:
        case ListOf(inner=inner):
            check(body, node.index, INT, "the index of a list")
            return body.holes.seen(inner)
        case MapOf(inner=inner):
            check(body, node.index, STR, "the key of a map")
            return body.holes.seen(inner)
        case _ if of == STR:
            check(body, node.index, INT, "the index of a str")
            return STR
        case OptionalOf():
            infer(body, node.index)
            _may_be_null(body, node.of)
        case _ if is_open(body, node.of, of):
            infer(body, node.index)
        case _:
            index = infer(body, node.index)
            if of == ANY:
                kind = "{str: any}" if index == STR else "[any]"
                _say_what(body, node, node.of, f"(… as {kind})[{body.source(node.index)}]")
            elif of != UNKNOWN:
                body.reports.error("no-items", node, f"{shown(of)} has no items")
    return UNKNOWN


def _say_what(body: Body, node: Expr, of: Expr, shape: str) -> None:
    """Of `any` nothing is known: what it is has to be said, and is checked when it runs."""
    body.reports.error(
        "any-used",
        of,
        "this is `any`: what is in it is not known",
        f"say what it is, with a type of your own or as `{shape}`",
        Edit(node.at, node.end, shape.replace("…", body.source(of))),
    )


PLACES: dict[type, Rule] = {Name: _name, Member: _member, Index: _index}
