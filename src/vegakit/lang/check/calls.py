"""Calls: which function is meant, which argument goes to which parameter, and whether the body has
the capability it needs (pure).
"""

from vegakit.lang.check.context import UNKNOWN, BodyCheck, Rule, infer, is_json
from vegakit.lang.check.fitting import check, check_declared, refuse
from vegakit.lang.check.foreign import (
    asked_agent,
    foreign_function,
    foreign_member,
    method_written,
    printed_together,
    sent,
)
from vegakit.lang.check.literals import usable
from vegakit.lang.check.names import unknown_name
from vegakit.lang.check.rights import check_command, check_inside, need
from vegakit.lang.check.symbols import (
    AgentSymbol,
    Callee,
    CalleeKind,
    NodeSymbol,
    RecordSymbol,
    RoutineSymbol,
    ServerSymbol,
    Symbol,
    closest_name,
    described,
    replacement,
)
from vegakit.lang.diagnostics import Edit
from vegakit.lang.library import LIBRARY, NAMESPACES, LibraryFunction
from vegakit.lang.syntax.tree import (
    Call,
    Expr,
    Member,
    Name,
    Node,
    Text,
)
from vegakit.lang.types import (
    ANY,
    DURATION,
    FLOAT,
    INT,
    STR,
    TYPE_PARAMETERS,
    ChoiceOf,
    FutureOf,
    ListOf,
    MapOf,
    OptionalOf,
    Parameter,
    Plain,
    RecordOf,
    StreamOf,
    Type,
    type_label,
    unbounded,
)

# Arguments and parameters: which goes where, by name or by place.


def bind(
    body: BodyCheck,
    node: Call,
    what: str,
    params: tuple[Parameter, ...],
    *,
    named: bool = False,
    declared: bool = True,
) -> None:
    """Each argument to its parameter, by name or by place; with `named` by name only."""
    places: list[int | None] = [None] * len(params)
    index = {param.name: at for at, param in enumerate(params)}
    right = True
    for at, (arg, name) in enumerate(zip(node.args, node.names, strict=True)):
        place = index.get(name) if name else (at if at < len(params) else None)
        if place is None or places[place] is not None or (named and not name):
            if right or name:
                _misplaced(body, node, arg, name, what, params, place)
            right = False
            infer(body, arg)
        else:
            whole, kind = f"`{params[place].name}` of {what}", _open(params[place])
            if declared:
                check_declared(body, arg, kind, whole)
            else:
                check(body, arg, kind, whole, _decided_by(body, node, places, params, kind))
            places[place] = at
    if right:
        _missing(body, node, what, params, places)
    body.program.arguments[id(node)] = tuple(places)


def _decided_by(
    body: BodyCheck,
    node: Call,
    places: list[int | None],
    params: tuple[Parameter, ...],
    kind: Type,
) -> tuple[Expr, ...]:
    """Return the arguments looked at before that decided what type this parameter has, as in
    `math::max(1, 2.5)`."""
    if kind == body.type_variables.seen(kind):
        return ()
    given = zip(params, places, strict=True)
    return tuple(node.args[at] for param, at in given if at is not None and param.type == kind)


def _open(param: Parameter) -> Type:
    if param.optional and not isinstance(param.type, OptionalOf):
        return OptionalOf(param.type)
    return param.type


def _misplaced(
    body: BodyCheck,
    node: Call,
    arg: Expr,
    name: str,
    what: str,
    params: tuple[Parameter, ...],
    place: int | None,
) -> None:
    names, where = [param.name for param in params], _name_of(body, arg, name)
    if name and place is not None:
        body.reports.error("duplicate-argument", where, f"`{name}` is given twice")
    elif name:
        help_, edit = replacement(where, closest_name(name, names))
        body.reports.error(
            "unknown-argument",
            where,
            f"{what} has no `{name}`",
            help_ or _takes(body, params),
            edit,
        )
    elif place is not None and len(node.args) <= len(params):
        fields = ", ".join(f"{name}: …" for name in names)
        body.reports.error(
            "unnamed-field",
            arg,
            f"the fields of a {what} are named",
            f"write `{what}({fields})`",
            _with_names(body, node, names),
        )
    else:
        count = f"{len(params)} argument{'' if len(params) == 1 else 's'}"
        is_print = what == "`print`"
        advice = printed_together(body, node) if is_print else (_takes(body, params), None)
        message = f"{what} takes {count}, {len(node.args)} are given"
        body.reports.error("too-many-arguments", arg, message, *advice)


def _name_of(body: BodyCheck, arg: Expr, name: str) -> Node:
    """Return where the name of a named argument stands."""
    at = body.names.unit.text.rfind(name, 0, arg.at) if name else -1
    return Node(at, at + len(name)) if at >= 0 else arg


def _takes(body: BodyCheck, params: tuple[Parameter, ...]) -> str:
    listed = [
        f"{param.name}: {type_label(body.type_variables.full(param.type))}" for param in params
    ]
    return f"it takes ({', '.join(listed)})" if listed else "it takes nothing"


def _with_names(body: BodyCheck, node: Call, names: list[str]) -> Edit | None:
    if any(node.names):
        return None
    inside = ", ".join(
        f"{name}: {body.source(arg)}" for name, arg in zip(names, node.args, strict=False)
    )
    return Edit(node.at, node.end, f"{body.source(node.callee)}({inside})")


def _missing(
    body: BodyCheck, node: Call, what: str, params: tuple[Parameter, ...], places: list[int | None]
) -> None:
    lacking = [
        param
        for param, place in zip(params, places, strict=True)
        if place is None and not param.optional
    ]
    if lacking:
        names = ", ".join(f"`{param.name}`" for param in lacking)
        help_, edit = _takes(body, params), None
        if lacking == [params[-1]] and lacking[0].type == DURATION and not any(node.names):
            help_ = "write how long, such as `, 1h`, behind the others"
            edit = Edit(node.end - 1, node.end - 1, ", 1h")
        message = f"{what} also needs {names}"
        body.reports.error("missing-argument", node, message, help_, edit)


# Calls: whom they reach.


def _call(body: BodyCheck, node: Call, _want: Type | None) -> Type:
    callee = node.callee
    if isinstance(callee, Name):
        return _by_name(body, node, callee)
    if isinstance(callee, Member):
        return _by_member(body, node, callee)
    infer(body, callee)
    return _not_callable(body, node, "this is a value, it cannot be called")


def _by_name(body: BodyCheck, node: Call, callee: Name) -> Type:
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
    declared = body.names.nested.get(body.agent, {}).get(callee.name) or body.names.find(
        callee.name
    )
    if declared is not None:
        return _declared(body, node, callee, declared)
    if callee.name in LIBRARY:
        return _library(body, node, LIBRARY[callee.name])
    if callee.name in body.program.tools:
        return _python(body, node, callee.name)
    _unknown(body, node, callee)
    return _arguments_only(body, node)


def _declared(body: BodyCheck, node: Call, callee: Name, declared: Symbol) -> Type:
    if isinstance(declared, RoutineSymbol):
        body.program.callees[id(node)] = Callee(declared.kind, declared.full)
        bind(body, node, f"`{callee.name}`", declared.params)
        return declared.result
    if isinstance(declared, RecordSymbol) and isinstance(declared.type, RecordOf):
        return _record(body, node, declared.type)
    if isinstance(declared, NodeSymbol) and declared.id not in body.program.tools:
        return _arguments_only(body, node)  # it was reported where it is declared
    if isinstance(declared, NodeSymbol):
        return _python(body, node, declared.id, callee.name)
    advice = ""
    if isinstance(declared, AgentSymbol) and len(node.args) == 1:
        asked = sent(body, node, callee, node.args[0])
        return _not_callable(body, node, "an agent is asked by `<-`", *asked)
    if isinstance(declared, AgentSymbol):
        advice = f'write `{callee.name} <- "…"` to ask it, `spawn {callee.name}` to start one'
    return _not_callable(
        body, node, f"`{callee.name}` is {described(declared)}, it cannot be called", advice
    )


def _record(body: BodyCheck, node: Call, kind: RecordOf) -> Type:
    body.program.callees[id(node)] = Callee(CalleeKind.RECORD, kind.name)
    params = tuple(
        Parameter(name, field, isinstance(field, OptionalOf)) for name, field in kind.fields
    )
    bind(body, node, kind.name, params, named=True)
    return kind


def _library(body: BodyCheck, node: Call, function: LibraryFunction) -> Type:
    body.program.callees[id(node)] = Callee(CalleeKind.LIBRARY, function.name)
    if function.capability:
        need(body, node, function.capability, f"`{function.name}`")
    type_parameters: dict[str, Type] = {}
    params = tuple(
        Parameter(
            param.name, _with_type_variables(body, param.type, type_parameters), param.optional
        )
        for param in function.params
    )
    bind(body, node, f"`{function.name}`", params, declared=False)
    _particular(body, node, function.name)
    _check_items(body, node, function.name)
    check_inside(body, node, function.name)
    check_command(body, node, function.name)
    return _with_type_variables(body, function.result, type_parameters)


def _with_type_variables(body: BodyCheck, kind: Type, type_parameters: dict[str, Type]) -> Type:
    """Put a type variable in place of each letter of a signature."""
    match kind:
        case Plain(name=name) if name in TYPE_PARAMETERS:
            if name not in type_parameters:
                type_parameters[name] = body.type_variables.fresh(TYPE_PARAMETERS[name])
            return type_parameters[name]
        case ListOf(inner=inner):
            return ListOf(_with_type_variables(body, inner, type_parameters))
        case MapOf(inner=inner):
            return MapOf(_with_type_variables(body, inner, type_parameters))
        case OptionalOf(inner=inner):
            return OptionalOf(_with_type_variables(body, inner, type_parameters))
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


def _check_items(body: BodyCheck, node: Call, name: str) -> None:
    """Check a call that takes records or maps, and the field that it sorts them by."""
    places = body.program.arguments.get(id(node), ())
    if name not in _OF_RECORDS or not places or places[0] is None:
        return
    items = node.args[places[0]]
    kind = body.type_variables.full(body.program.types.get(id(items), UNKNOWN), UNKNOWN)
    item = kind.inner if isinstance(kind, ListOf) else UNKNOWN
    by = places[1] if len(places) > 1 else None
    field = None if by is None else node.args[by]
    match item:
        case RecordOf() if field is not None:
            _sorted_by(body, item, field)
        case MapOf(inner=inner) if field is not None and not _has_order(inner):
            body.reports.error("wrong-type", items, f"{type_label(inner)} has no order to sort by")
        case RecordOf() | MapOf():
            pass
        case _ if item != UNKNOWN:
            body.reports.error(
                "wrong-type",
                items,
                f"`{name}` takes a list of records or maps, this is {type_label(kind)}",
                "write `list::sort(items)`" if field is not None and _has_order(item) else "",
            )
        case _:
            pass


_OF_RECORDS = frozenset({"list::sort_by", "csv::text"})


def _sorted_by(body: BodyCheck, item: RecordOf, field: Expr) -> None:
    fields = dict(item.fields)
    match field:
        case Text(parts=(str() as name,)) if name in fields:
            if not _has_order(fields[name]):
                kind = type_label(fields[name])
                body.reports.error("wrong-type", field, f"`{name}` is {kind}, which has no order")
        case Text(parts=(str() as name,)):
            close = closest_name(name, [*fields])
            body.reports.error(
                "no-field",
                field,
                f"{item.name} has no field `{name}`",
                f'did you mean `"{close}"`?' if close else f"there are: {', '.join(fields)}",
                Edit(field.at, field.end, f'"{close}"') if close else None,
            )
        case _:
            body.reports.error(
                "not-plain",
                field,
                f"which field of {item.name} this is must be known",
                f'write its name: `"{next(iter(fields), "name")}"`',
            )


def _has_order(kind: Type) -> bool:
    inner = unbounded(kind.inner if isinstance(kind, OptionalOf) else kind)
    return inner in (*TYPE_PARAMETERS["O"], UNKNOWN) or isinstance(inner, ChoiceOf)


def _particular(body: BodyCheck, node: Call, name: str) -> None:
    """Check what the signature, which says `any`, leaves open."""
    for arg in node.args:
        kind = unbounded(body.type_variables.seen(body.program.types.get(id(arg), UNKNOWN)))
        if name in _TAKES:
            kinds, plain, words = _TAKES[name]
            if isinstance(kind, OptionalOf):
                refuse(body, arg, kind, kind.inner, f"what `{name}` takes")
            elif not (isinstance(kind, kinds) or kind in plain):
                body.reports.error(
                    "wrong-type", arg, f"`{name}` takes {words}, this is {type_label(kind)}"
                )
        elif isinstance(kind, FutureOf | StreamOf) and LIBRARY[name].params:
            usable(body, arg, kind)


def _by_member(body: BodyCheck, node: Call, callee: Member) -> Type:
    if isinstance(callee.of, Name) and body.scopes.find(callee.of.name) is None:
        declared = body.names.find(callee.of.name)
        if isinstance(declared, ServerSymbol):
            return _outside(body, node, CalleeKind.MCP, f"{declared.server}.{callee.name}")
        if isinstance(declared, AgentSymbol):
            asked = asked_agent(body, node, callee, None)
            if asked is not None:
                return _not_callable(body, node, "an agent is asked by `<-`", *asked)
            return _not_callable(
                body,
                node,
                f"the tools of `{callee.of.name}` are its own",
                "a tool that code calls too stands at top level",
            )
    meant = foreign_member(body, callee)
    if meant is not None:
        message = f"there is no function `{body.source(callee)}`"
        body.reports.error("unknown-function", callee, message, *meant)
        return _arguments_only(body, node)
    return _method(body, node, callee, infer(body, callee.of))


def _method(body: BodyCheck, node: Call, callee: Member, of: Type) -> Type:
    if of == UNKNOWN:
        return _arguments_only(body, node)
    if (asked := asked_agent(body, node, callee, of)) is not None:
        return _not_callable(body, node, "a process is asked by `<-`", *asked)
    advice = method_written(body, node, callee, of)
    return _not_callable(body, node, "values have no functions of their own", *advice)


def _python(body: BodyCheck, node: Call, name: str, alias: str = "") -> Type:
    signature = body.program.tools.get(name)
    if signature is None:
        return _outside(body, node, CalleeKind.PYTHON, name)
    kind = CalleeKind.NODE if signature.is_pure else CalleeKind.PYTHON
    body.program.callees[id(node)] = Callee(kind, name)
    bind(body, node, f"`{alias or name}`", signature.params)
    return signature.result


def _outside(body: BodyCheck, node: Call, kind: CalleeKind, name: str) -> Type:
    """Check a call whose signature is known only when it runs; whatever comes back is `any`."""
    body.program.callees[id(node)] = Callee(kind, name)
    for arg in node.args:
        given = infer(body, arg)
        if not is_json(given):
            body.reports.error(
                "not-sendable", arg, f"{type_label(given)} cannot be given to a tool"
            )
    return ANY


def _not_callable(
    body: BodyCheck,
    node: Call,
    message: str,
    advice: str = "",
    edit: Edit | None = None,
) -> Type:
    body.reports.error("not-callable", node.callee, message, advice, edit)
    return _arguments_only(body, node)


def _arguments_only(body: BodyCheck, node: Call) -> Type:
    for arg in node.args:
        infer(body, arg)
    return UNKNOWN


def _unknown(body: BodyCheck, node: Call, callee: Name) -> None:
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
        _unknown_function(body, node, callee)
        return
    help_, edit = replacement(callee, closest_name(callee.name, known))
    listed = "" if len(known) > 30 else f"there are: {', '.join(known)}"
    body.reports.error(
        "unknown-function", callee, f"there is no `{callee.name}` in {what}", help_ or listed, edit
    )


def _unknown_function(body: BodyCheck, node: Call, callee: Name) -> None:
    advice = foreign_function(body, node, callee)
    if advice is None:
        plain = [name for name in LIBRARY if "::" not in name]
        ends = [name for name in LIBRARY if name.endswith(f"::{callee.name}")]
        known = [*plain, *body.names.own, *body.names.nested.get(body.agent, {})]
        close = ends[0] if len(ends) == 1 else closest_name(callee.name, known)
        if not close and callee.name in body.later:
            unknown_name(body, callee)
            return
        advice = replacement(callee, close)
    message = f"there is no function `{callee.name}`"
    body.reports.error("unknown-function", callee, message, *advice)


CALLS: dict[type, Rule] = {Call: _call}
