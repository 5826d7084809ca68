"""Functions that stay Python, as a program sees them: what they take and give, by annotations."""

import ast

from vegakit.lang.python.annotations import is_none, type_of
from vegakit.lang.python.context import File
from vegakit.lang.signatures import PLAIN_TYPES, Parameter, Signature
from vegakit.lang.tree import (
    ChoiceType,
    ListType,
    MapType,
    NamedType,
    OptionalType,
    TypeExpr,
)
from vegakit.lang.types import (
    ANY,
    NOTHING,
    ChoiceOf,
    ListOf,
    MapOf,
    OptionalOf,
    RecordOf,
    Type,
)

__all__ = ["signature_of"]


def signature_of(file: File, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Signature | None:
    """None where an annotation says more than a program knows: then anything may be passed."""
    params: list[Parameter] = []
    optional = {arg.arg for arg in node.args.args[len(node.args.args) - len(node.args.defaults) :]}
    for arg in [*node.args.args, *node.args.kwonlyargs]:
        if _is_context(arg):
            continue
        if arg.annotation is None:
            file.refuse(
                "python-parameter",
                arg,
                f"`{arg.arg}` has no type",
                f"write it like `{arg.arg}: str`: a model has to know what to give",
            )
        kind = _type(file, type_of(file, arg.annotation))
        is_optional = arg.arg in optional
        if is_optional and not isinstance(kind, OptionalOf):
            kind = OptionalOf(kind)
        params.append(Parameter(arg.arg, kind, is_optional))
    result = NOTHING
    if node.returns is not None and not is_none(node.returns):
        result = _type(file, type_of(file, node.returns))
    return Signature(node.name, tuple(params), result)


def _is_context(arg: ast.arg) -> bool:
    """`ctx: ToolContext` is given by the host."""
    kind = arg.annotation
    name = kind.attr if isinstance(kind, ast.Attribute) else getattr(kind, "id", "")
    return name == "ToolContext"


def _type(file: File, written: TypeExpr) -> Type:
    match written:
        case NamedType(name=name) if name in file.records:
            fields = file.records[name].fields.items()
            return RecordOf(name, tuple((field, _type(file, kind)) for field, kind in fields))
        case NamedType(name=name) if name in file.aliases:
            return _type(file, file.aliases[name])
        case NamedType(name=name):
            return PLAIN_TYPES.get(name, ANY)
        case OptionalType(inner=inner):
            return OptionalOf(_type(file, inner))
        case ListType(inner=inner, most=most):
            return ListOf(_type(file, inner), most)
        case MapType(inner=inner):
            return MapOf(_type(file, inner))
        case ChoiceType(choices=choices):
            return ChoiceOf(choices)
