"""Arguments and parameters: which goes where, by name or by place."""

from vegakit.lang.checking.context import Body, infer
from vegakit.lang.checking.fitting import check, check_declared
from vegakit.lang.checking.relations import shown
from vegakit.lang.checking.reports import instead, meant
from vegakit.lang.diagnostics import Edit
from vegakit.lang.signatures import Parameter
from vegakit.lang.tree import Call, Expr, Node
from vegakit.lang.types import OptionalOf, Type

__all__ = ["bind"]


def bind(
    body: Body,
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
            places[place] = at
            whole = f"`{params[place].name}` of {what}"
            (check_declared if declared else check)(body, arg, _open(params[place]), whole)
    if right:
        _missing(body, node, what, params, places)
    body.program.arguments[id(node)] = tuple(places)


def _open(param: Parameter) -> Type:
    if param.optional and not isinstance(param.type, OptionalOf):
        return OptionalOf(param.type)
    return param.type


def _misplaced(
    body: Body,
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
        help_, edit = instead(where, meant(name, names))
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
        body.reports.error(
            "too-many-arguments",
            arg,
            f"{what} takes {count}, {len(node.args)} are given",
            _takes(body, params),
        )


def _name_of(body: Body, arg: Expr, name: str) -> Node:
    """Where the name of a named argument stands."""
    at = body.names.unit.text.rfind(name, 0, arg.at) if name else -1
    return Node(at, at + len(name)) if at >= 0 else arg


def _takes(body: Body, params: tuple[Parameter, ...]) -> str:
    listed = [f"{param.name}: {shown(body.holes.full(param.type))}" for param in params]
    return f"it takes ({', '.join(listed)})" if listed else "it takes nothing"


def _with_names(body: Body, node: Call, names: list[str]) -> Edit | None:
    if any(node.names):
        return None
    inside = ", ".join(
        f"{name}: {body.source(arg)}" for name, arg in zip(names, node.args, strict=False)
    )
    return Edit(node.at, node.end, f"{body.source(node.callee)}({inside})")


def _missing(
    body: Body, node: Call, what: str, params: tuple[Parameter, ...], places: list[int | None]
) -> None:
    lacking = [
        param
        for param, place in zip(params, places, strict=True)
        if place is None and not param.optional
    ]
    if lacking:
        names = ", ".join(f"`{param.name}`" for param in lacking)
        body.reports.error(
            "missing-argument", node, f"{what} also needs {names}", _takes(body, params)
        )
