"""Assignments: what may be assigned, and what is known afterwards."""

from vegakit.lang.checked import NameKind
from vegakit.lang.checking.context import Body, infer
from vegakit.lang.checking.declared import described
from vegakit.lang.checking.fitting import check, check_declared
from vegakit.lang.checking.relations import UNKNOWN, without_null
from vegakit.lang.checking.reports import instead, meant
from vegakit.lang.checking.variables import Variable
from vegakit.lang.library import LIBRARY
from vegakit.lang.tree import Assign, Expr, Index, Member, Name
from vegakit.lang.types import ANY, NULL, STR, OptionalOf, RecordOf, Type

__all__ = ["assign", "learn"]


def assign(body: Body, node: Assign) -> None:
    variable = _root(body, node.target)
    if variable is None:
        infer(body, node.value)
        return
    if isinstance(node.target, Name):
        kind, what = variable.type, f"`{variable.name}`"
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


def learn(body: Body, place: tuple[int, str] | None, kind: Type, given: Type) -> None:
    """After `x = "a"` the optional `x` is a str."""
    given = body.holes.seen(given)
    known = given not in (NULL, ANY, UNKNOWN) and not isinstance(given, OptionalOf)
    if place is not None and isinstance(body.holes.seen(kind), OptionalOf) and known:
        body.scopes.know({place: without_null(body.holes.seen(kind))})


def _root(body: Body, target: Expr) -> Variable | None:
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


def _no_variable(body: Body, node: Name) -> None:
    close = meant(node.name, body.scopes.names())
    help_, edit = instead(node, close)
    body.reports.error(
        "unknown-name",
        node,
        f"there is no variable `{node.name}` here",
        help_ or f"a new one begins with let: `let {node.name} = …;`",
        edit,
    )


def _outside(body: Body, target: Expr, variable: Variable) -> None:
    body.reports.error(
        "assigned-in-monitor",
        target,
        f"`{variable.name}` belongs to the code around this `monitor`, which runs at the same time",
        "use a variable of the monitor's own block",
    )


def _target(body: Body, target: Expr) -> Type:
    """The declared type of the place: what is known of it now does not bind what it gets."""
    kind = infer(body, target)
    if isinstance(target, Member):
        of = body.program.types.get(id(target.of), UNKNOWN)
        if isinstance(of, RecordOf):
            return dict(of.fields).get(target.name, UNKNOWN)
    if isinstance(target, Index) and body.program.types.get(id(target.of)) == STR:
        body.reports.error(
            "not-assignable", target, "a str has no items to assign", "build a new str"
        )
        return UNKNOWN
    return kind
