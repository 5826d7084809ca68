"""Names, fields and items: reading them, assigning to them, and what is known afterwards (pure)."""

from vegakit.lang.check.context import UNKNOWN, BodyCheck, Rule, Variable, infer, without_null
from vegakit.lang.check.fitting import check, check_declared, is_open, null_advice
from vegakit.lang.check.foreign import foreign_value
from vegakit.lang.check.symbols import (
    AgentSymbol,
    NameKind,
    RoutineSymbol,
    SupervisorSymbol,
    Symbol,
    closest_name,
    described,
    replacement,
)
from vegakit.lang.diagnostics import Edit
from vegakit.lang.library import LIBRARY
from vegakit.lang.syntax.tree import Assign, Expr, Index, Member, Name, Node, Unary, Whole
from vegakit.lang.types import (
    ANY,
    INT,
    NULL,
    STR,
    ListOf,
    MapOf,
    OptionalOf,
    ProcessOf,
    RecordOf,
    Type,
    is_text,
    type_label,
)

# Names, fields and items, where they are read.


def _name(body: BodyCheck, node: Name, _want: Type | None) -> Type:
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


def _not_a_value(body: BodyCheck, node: Name, declared: Symbol) -> None:
    advice, edit = "", None
    if isinstance(declared, RoutineSymbol):
        advice = f"to call it write `{node.name}(…)`"
    elif body.names.unit.text[node.end : node.end + 1] == ".":
        advice = "its settings stand where it is declared, and cannot be read"
    elif isinstance(declared, AgentSymbol | SupervisorSymbol):
        advice = f"to have a process of it write `spawn {node.name}`"
        edit = Edit(node.at, node.end, f"spawn {node.name}")
    body.reports.error(
        "not-a-value", node, f"`{node.name}` is {described(declared)}, not a value", advice, edit
    )


def process_name(body: BodyCheck, node: Name, declared: AgentSymbol | SupervisorSymbol) -> Type:
    """The name of an agent or supervisor where one may stand: in a send, a spawn, a list of
    children."""
    is_agent = isinstance(declared, AgentSymbol)
    body.program.names[id(node)] = NameKind.AGENT if is_agent else NameKind.SUPERVISOR
    body.program.full_names[id(node)] = declared.full
    body.program.types[id(node)] = ProcessOf(declared.full)
    return ProcessOf(declared.full)


def process_of(body: BodyCheck, node: Expr) -> Type:
    """Return the type of an expression that may also be the bare name of an agent or supervisor."""
    if isinstance(node, Name) and body.scopes.find(node.name) is None:
        declared = body.names.find(node.name)
        if isinstance(declared, AgentSymbol | SupervisorSymbol):
            return process_name(body, node, declared)
    return infer(body, node)


def unknown_name(body: BodyCheck, node: Name, extra: tuple[str, ...] = ()) -> None:
    """Report a name that nobody declared, with the closest one."""
    if node.name in LIBRARY:
        body.reports.error(
            "not-a-value",
            node,
            f"`{node.name}` is a function of the library, not a value",
            f"to call it write `{LIBRARY[node.name].signature.partition(' -> ')[0]}`",
        )
    elif node.name in body.later:
        _too_early(body, node)
    elif (advice := foreign_value(node)) is not None:
        message = f"nothing is called `{node.name}` here"
        body.reports.error("unknown-name", node, message, *advice)
    else:
        known = {*body.scopes.names(), *body.names.own, *extra}
        body.reports.error(
            "unknown-name",
            node,
            f"nothing is called `{node.name}` here",
            *_help_with_name(body, node, known),
        )


def _help_with_name(body: BodyCheck, node: Name, known: set[str]):  # noqa: ANN202
    close = closest_name(node.name, known)
    if close:
        return replacement(node, close)
    if body.owner is not None and node.name in body.names.top_level:
        return "a function sees its parameters only: pass it in", None
    return "", None


def _too_early(body: BodyCheck, node: Name) -> None:
    line = body.names.unit.text.count("\n", 0, body.later[node.name].at) + 1
    body.reports.error(
        "used-before-let",
        node,
        f"`{node.name}` is not known here: its `let`, on line {line}, comes later or is in a block",
        "move the `let` up, before the block",
    )


def _member(body: BodyCheck, node: Member, _want: Type | None) -> Type:
    of = infer(body, node.of)
    kind = _field(body, node, of)
    if isinstance(kind, OptionalOf) and body.scopes.facts:
        place = body.scopes.place(node)
        return kind if place is None else body.scopes.facts.get(place, kind)
    return kind


def _field(body: BodyCheck, node: Member, of: Type) -> Type:
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
            written = f'{body.source(node.of)}["{node.name}"]'
            body.reports.error(
                "no-field",
                node,
                f"{type_label(body.type_variables.full(of))} has keys, not fields",
                f"write `{written}`",
                Edit(node.at, node.end, written),
            )
        case _ if is_open(body, node.of, of):
            pass
        case _:
            counted = node.name in ("length", "len", "size", "count") and (
                of == STR or isinstance(of, ListOf)
            )
            is_answer = of == STR and node.name in _ANSWERS
            source = body.source(node.of)
            written = f"len({source})" if counted else source if is_answer else ""
            why = ", which is the text itself" if is_answer else ""
            body.reports.error(
                "no-field",
                node,
                f"{type_label(body.type_variables.full(of))} has no field `{node.name}`",
                f"write `{written}`{why}" if written else "",
                Edit(node.at, node.end, written) if written else None,
            )
    return UNKNOWN


_ANSWERS = frozenset("output text content data response message answer result value body".split())
"""What other libraries call the text of an answer."""
_OF_RESPONSE = {"text": "body", "content": "body", "data": "body", "status_code": "status"}


def _no_field(body: BodyCheck, node: Member, record: str, fields: list[str]) -> None:
    tail = Node(node.end - len(node.name), node.end)
    close = _OF_RESPONSE.get(node.name, "") if record == "Response" else ""
    help_, edit = replacement(tail, close or closest_name(node.name, fields))
    body.reports.error(
        "no-field",
        tail,
        f"a {record} has no field `{node.name}`",
        help_ or f"its fields are: {', '.join(fields)}",
        edit,
    )


def _may_be_null(body: BodyCheck, node: Expr) -> None:
    kind = without_null(body.type_variables.full(body.program.types.get(id(node), UNKNOWN)))
    help_, edit = null_advice(body, node, kind)
    body.reports.error("may-be-null", node, "this may be null here", help_, edit)


def _index(body: BodyCheck, node: Index, _want: Type | None) -> Type:
    of = infer(body, node.of)
    match of:
        case ListOf(inner=inner):
            check(body, node.index, INT, "the index of a list")
            _not_from_the_end(body, node, "list")
            return body.type_variables.seen(inner)
        case MapOf(inner=inner):
            check(body, node.index, STR, "the key of a map")
            return body.type_variables.seen(inner)
        case _ if of == STR:
            check(body, node.index, INT, "the index of a str")
            _not_from_the_end(body, node, "str")
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
                body.reports.error("no-items", node, f"{type_label(of)} has no items")
    return UNKNOWN


def _not_from_the_end(body: BodyCheck, node: Index, module: str) -> None:
    """Refuse `xs[-1]`, which is no item: brackets do not count from the end."""
    if isinstance(node.index, Unary) and isinstance(node.index.of, Whole) and node.index.of.value:
        written = f"{module}::at({body.source(node.of)}, {body.source(node.index)})"
        body.reports.error(
            "negative-index",
            node.index,
            "an index in brackets counts from 0, and not from the end",
            f"write `{written}`",
            Edit(node.at, node.end, written),
        )


def _say_what(body: BodyCheck, node: Expr, of: Expr, shape: str) -> None:
    """Of `any` nothing is known: what it is has to be said, and is checked when it runs."""
    body.reports.error(
        "any-used",
        of,
        "this is `any`: what is in it is not known",
        f"say what it is, with a type of your own or as `{shape}`",
        Edit(node.at, node.end, shape.replace("…", body.source(of))),
    )


PLACES: dict[type, Rule] = {Name: _name, Member: _member, Index: _index}


# Assignments: what may be assigned, and what is known afterwards.


def assign(body: BodyCheck, node: Assign) -> None:
    """Check an assignment to a variable, a field or an item."""
    variable = _root(body, node.target)
    if variable is None:
        infer(body, node.value)
        return
    if isinstance(node.target, Name):
        kind, what = variable.type, f"`{variable.name}`"
        body.targets[id(node.value)] = variable.name
        body.program.names[id(node.target)] = NameKind.VARIABLE
        body.program.types[id(node.target)] = kind
    else:
        read_before = variable.read
        kind, what = _target(body, node.target), "what is assigned here"
        variable.read = read_before
    given = (check_declared if variable.declared else check)(body, node.value, kind, what)
    place = body.scopes.place(node.target)
    body.scopes.assign(variable, node.target)
    learn(body, place, kind, given)


def learn(body: BodyCheck, place: tuple[int, str] | None, kind: Type, given: Type) -> None:
    """Narrow a variable by what is assigned: after `x = "a"` the optional `x` is a str."""
    given = body.type_variables.seen(given)
    known = given not in (NULL, ANY, UNKNOWN) and not isinstance(given, OptionalOf)
    if place is not None and isinstance(body.type_variables.seen(kind), OptionalOf) and known:
        body.scopes.know({place: without_null(body.type_variables.seen(kind))})


def _root(body: BodyCheck, target: Expr) -> Variable | None:
    root = target
    while isinstance(root, Member | Index):
        root = root.of
    if not isinstance(root, Name):
        body.reports.error("not-assignable", target, "only a variable can be assigned")
        return None
    variable = body.scopes.find(root.name)
    if variable is None:
        declared = body.names.find(root.name)
        if declared is None and root.name in LIBRARY:
            body.reports.error(
                "not-assignable", target, f"`{root.name}` is a function of the library"
            )
        elif declared is None:
            _no_variable(body, root)
        else:
            body.reports.error(
                "not-assignable", target, f"`{root.name}` is {described(declared)}, not a variable"
            )
    elif variable.number < body.fence:
        _outside(body, target, variable)
        return None
    return variable


def _no_variable(body: BodyCheck, node: Name) -> None:
    close = closest_name(node.name, body.scopes.names())
    help_, edit = replacement(node, close)
    body.reports.error(
        "unknown-name",
        node,
        f"there is no variable `{node.name}` here",
        help_ or f"a new one begins with let: `let {node.name} = …;`",
        edit,
    )


def _outside(body: BodyCheck, target: Expr, variable: Variable) -> None:
    body.reports.error(
        "assigned-in-monitor",
        target,
        f"`{variable.name}` belongs to the code around this `monitor`, which runs at the same time",
        "use a variable of the monitor's own block",
    )


def _target(body: BodyCheck, target: Expr) -> Type:
    """The declared type of the place: what is known of it now does not bind what it gets."""
    infer(body, target)
    kind = body.program.types[id(target)]  # with the length that a text may have there
    if isinstance(target, Member):
        of = body.program.types.get(id(target.of), UNKNOWN)
        if isinstance(of, RecordOf):
            return dict(of.fields).get(target.name, UNKNOWN)
    if isinstance(target, Index) and is_text(body.program.types.get(id(target.of), UNKNOWN)):
        body.reports.error(
            "not-assignable", target, "a str has no items to assign", "build a new str"
        )
        return UNKNOWN
    return kind
