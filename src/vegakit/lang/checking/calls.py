"""Calls: whom they reach."""

from vegakit.lang.checked import Callee, CalleeKind
from vegakit.lang.checking.binding import bind
from vegakit.lang.checking.context import Body, Rule, infer
from vegakit.lang.checking.declared import Agent, Declared, Record, Routine, Server, described
from vegakit.lang.checking.fitting import refuse
from vegakit.lang.checking.literals import usable
from vegakit.lang.checking.places import unknown_name
from vegakit.lang.checking.relations import UNKNOWN, is_json, shown
from vegakit.lang.checking.reports import instead, meant
from vegakit.lang.checking.rights import need
from vegakit.lang.diagnostics import Edit
from vegakit.lang.library import LIBRARY, NAMESPACES, Row
from vegakit.lang.signatures import LETTERS, Parameter
from vegakit.lang.tree import Call, Member, Name
from vegakit.lang.types import (
    ANY,
    FLOAT,
    INT,
    STR,
    ChoiceOf,
    FutureOf,
    ListOf,
    MapOf,
    OptionalOf,
    Plain,
    RecordOf,
    StreamOf,
    Type,
)

__all__ = ["CALLS"]

_SPACES: dict[type, str] = {ListOf: "list", MapOf: "map"}
_WRITTEN = {
    "append": "xs + [x]",
    "push": "xs + [x]",
    "println": "print(x)",
    "log": "print(x)",
    "input": "human::ask(question, 1h)",
    "sleep": "process::sleep(1s)",
    "open": "file::read(path)",
    "read_file": "file::read(path)",
    "raise": "fail(reason)",
    "throw": "fail(reason)",
    "error": "fail(reason)",
    "panic": "fail(reason)",
    "assert": "if not … { fail(reason); }",
    "string": "str(x)",
    "length": "len(x)",
    "size": "len(x)",
    "exit": "process::exit(reason)",
    "min": "math::min(a, b)",
    "max": "math::max(a, b)",
    "abs": "math::abs(x)",
    "round": "math::round(x)",
    "sum": "list::sum(items)",
    "sorted": "list::sort(items)",
    "sort": "list::sort(items)",
}


def _call(body: Body, node: Call, _want: Type | None) -> Type:
    callee = node.callee
    if isinstance(callee, Name):
        return _by_name(body, node, callee)
    if isinstance(callee, Member):
        return _by_member(body, node, callee)
    infer(body, callee)
    return _not_callable(body, node, "this is a value, it cannot be called")


def _by_name(body: Body, node: Call, callee: Name) -> Type:
    variable = body.scopes.find(callee.name)
    if variable is not None:
        variable.read = True
        hides = callee.name in LIBRARY or body.names.find(callee.name) is not None
        return _not_callable(
            body,
            node,
            f"`{callee.name}` is a variable here, it cannot be called",
            "give the variable another name" if hides else "",
        )
    declared = _own_tool(body, callee.name) or body.names.find(callee.name)
    if declared is not None:
        return _declared(body, node, callee, declared)
    if callee.name in LIBRARY:
        return _library(body, node, LIBRARY[callee.name])
    if callee.name in body.program.tools:
        return _python(body, node, callee.name)
    _unknown(body, callee)
    return _arguments_only(body, node)


def _own_tool(body: Body, name: str) -> Routine | None:
    return body.names.nested.get(body.agent, {}).get(name)


def _declared(body: Body, node: Call, callee: Name, declared: Declared) -> Type:
    if isinstance(declared, Routine):
        body.program.callees[id(node)] = Callee(declared.kind, declared.full)
        bind(body, node, f"`{callee.name}`", declared.params)
        return declared.result
    if isinstance(declared, Record) and isinstance(declared.type, RecordOf):
        return _record(body, node, declared.type)
    advice = ""
    if isinstance(declared, Agent):
        advice = f'write `{callee.name} <- "…"` to ask it, `spawn {callee.name}` to start one'
    return _not_callable(
        body, node, f"`{callee.name}` is {described(declared)}, it cannot be called", advice
    )


def _record(body: Body, node: Call, kind: RecordOf) -> Type:
    body.program.callees[id(node)] = Callee(CalleeKind.RECORD, kind.name)
    params = tuple(
        Parameter(name, field, isinstance(field, OptionalOf)) for name, field in kind.fields
    )
    bind(body, node, kind.name, params, named=True)
    return kind


def _library(body: Body, node: Call, row: Row) -> Type:
    body.program.callees[id(node)] = Callee(CalleeKind.LIBRARY, row.name)
    if row.capability:
        need(body, node, row.capability, f"`{row.name}`")
    letters: dict[str, Type] = {}
    params = tuple(
        Parameter(param.name, _lettered(body, param.type, letters), param.optional)
        for param in row.params
    )
    bind(body, node, f"`{row.name}`", params, declared=False)
    _particular(body, node, row.name)
    return _lettered(body, row.result, letters)


def _lettered(body: Body, kind: Type, letters: dict[str, Type]) -> Type:
    """With a hole for each letter of a signature."""
    match kind:
        case Plain(name=name) if name in LETTERS:
            if name not in letters:
                letters[name] = body.holes.fresh(LETTERS[name])
            return letters[name]
        case ListOf(inner=inner):
            return ListOf(_lettered(body, inner, letters))
        case MapOf(inner=inner):
            return MapOf(_lettered(body, inner, letters))
        case OptionalOf(inner=inner):
            return OptionalOf(_lettered(body, inner, letters))
        case _:
            return kind


_TAKES: dict[str, tuple[tuple[type, ...], tuple[Type, ...], str]] = {
    "len": ((ListOf, MapOf, ChoiceOf), (STR, UNKNOWN), "a str, list or map"),
    "int": ((ChoiceOf,), (STR, INT, FLOAT, ANY, UNKNOWN), "a str or a number"),
    "float": (
        (ChoiceOf,),
        (STR, INT, FLOAT, ANY, UNKNOWN, Plain("money"), Plain("duration")),
        "a str, a number, money or a duration",
    ),
}


def _particular(body: Body, node: Call, name: str) -> None:
    """What the signature, which says `any`, leaves open."""
    for arg in node.args:
        kind = body.holes.seen(body.program.types.get(id(arg), UNKNOWN))
        if name in _TAKES:
            kinds, plain, words = _TAKES[name]
            if isinstance(kind, OptionalOf):
                refuse(body, arg, kind, kind.inner, f"what `{name}` takes")
            elif not (isinstance(kind, kinds) or kind in plain):
                body.reports.error(
                    "wrong-type", arg, f"`{name}` takes {words}, this is {shown(kind)}"
                )
        elif isinstance(kind, FutureOf | StreamOf) and LIBRARY[name].params:
            usable(body, arg, kind)


def _by_member(body: Body, node: Call, callee: Member) -> Type:
    if isinstance(callee.of, Name) and body.scopes.find(callee.of.name) is None:
        declared = body.names.find(callee.of.name)
        if isinstance(declared, Server):
            return _outside(body, node, CalleeKind.MCP, f"{declared.server}.{callee.name}")
        if isinstance(declared, Agent):
            return _not_callable(
                body,
                node,
                f"the tools of `{callee.of.name}` are its own",
                "a tool that code calls too stands at top level",
            )
    return _method(body, node, callee, infer(body, callee.of))


def _method(body: Body, node: Call, callee: Member, of: Type) -> Type:
    space = "str" if of == STR else _SPACES.get(type(of), "")
    if of == UNKNOWN:
        return _arguments_only(body, node)
    ends = [name.rpartition("::")[2] for name in LIBRARY if name.startswith(f"{space}::")]
    name = meant(callee.name, ends)
    inside = ", ".join([body.source(callee.of), *(body.source(arg) for arg in node.args)])
    if space == "list" and callee.name in ("append", "push", "add") and len(node.args) == 1:
        written = f"{body.source(callee.of)} + [{body.source(node.args[0])}]"
    elif space and name:
        written = f"{space}::{name}({inside})"
    else:
        return _not_callable(body, node, "values have no functions of their own")
    return _not_callable(
        body,
        node,
        "values have no functions of their own",
        f"write `{written}`",
        Edit(node.at, node.end, written),
    )


def _python(body: Body, node: Call, name: str) -> Type:
    signature = body.program.tools[name]
    if signature is None:
        return _outside(body, node, CalleeKind.PYTHON, name)
    body.program.callees[id(node)] = Callee(CalleeKind.PYTHON, name)
    bind(body, node, f"`{name}`", signature.params)
    return signature.result


def _outside(body: Body, node: Call, kind: CalleeKind, name: str) -> Type:
    """What it takes is known when it runs; whatever comes back is `any`."""
    body.program.callees[id(node)] = Callee(kind, name)
    for arg in node.args:
        given = infer(body, arg)
        if not is_json(given):
            body.reports.error("not-sendable", arg, f"{shown(given)} cannot be given to a tool")
    return ANY


def _not_callable(
    body: Body,
    node: Call,
    message: str,
    advice: str = "",
    edit: Edit | None = None,
) -> Type:
    body.reports.error("not-callable", node.callee, message, advice, edit)
    return _arguments_only(body, node)


def _arguments_only(body: Body, node: Call) -> Type:
    for arg in node.args:
        infer(body, arg)
    return UNKNOWN


def _unknown(body: Body, callee: Name) -> None:
    space, colons, _ = callee.name.rpartition("::")
    other = body.names.others.get(space)
    if other is not None:
        known, what = [f"{space}::{name}" for name in other.own], f"`{other.unit.path}`"
    elif colons and space in NAMESPACES:
        known = [name for name in LIBRARY if name.startswith(f"{space}::")]
        what = f"`{space}::`"
    elif colons:
        known, what = list(LIBRARY), "the library, and no `use` gives that name"
    else:
        _unknown_function(body, callee)
        return
    help_, edit = instead(callee, meant(callee.name, known))
    listed = "" if len(known) > 30 else f"there are: {', '.join(known)}"
    body.reports.error(
        "unknown-function", callee, f"there is no `{callee.name}` in {what}", help_ or listed, edit
    )


def _unknown_function(body: Body, callee: Name) -> None:
    written = _WRITTEN.get(callee.name)
    if written is None:
        plain = [name for name in LIBRARY if "::" not in name]
        ends = [name for name in LIBRARY if name.endswith(f"::{callee.name}")]
        known = [*plain, *body.names.own, *body.names.nested.get(body.agent, {})]
        close = ends[0] if len(ends) == 1 else meant(callee.name, known)
        if not close and callee.name in body.later:
            unknown_name(body, callee)
            return
        help_, edit = instead(callee, close)
    else:
        help_, edit = f"write `{written}`", None
    body.reports.error(
        "unknown-function", callee, f"there is no function `{callee.name}`", help_, edit
    )


CALLS: dict[type, Rule] = {Call: _call}
