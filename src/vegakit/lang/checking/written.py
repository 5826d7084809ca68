"""Types as they are written in the source, turned into types.

A record is spelled out in full, so one that contains itself is refused, and so is one that would
grow beyond all measure: `type A { x: B  y: B }`, thirty times over, is a billion fields.
"""

from collections import Counter

from vegakit.lang.checking.context import Program
from vegakit.lang.checking.declared import Agent, Names, Record, Supervisor, described
from vegakit.lang.checking.relations import UNKNOWN
from vegakit.lang.checking.reports import instead, meant
from vegakit.lang.signatures import PLAIN_TYPES
from vegakit.lang.tree import (
    ChoiceType,
    ListType,
    MapType,
    NamedType,
    Node,
    OptionalType,
    TypeDecl,
    TypeExpr,
)
from vegakit.lang.types import (
    ANY,
    NULL,
    ChoiceOf,
    ListOf,
    MapOf,
    OptionalOf,
    ProcessOf,
    RecordOf,
    Type,
)

__all__ = ["declared_type", "written"]

MOST_PARTS = 1_000
MOST_DEPTH = 30
_ELSEWHERE = {
    "string": "str",
    "String": "str",
    "text": "str",
    "integer": "int",
    "Int": "int",
    "number": "float",
    "double": "float",
    "boolean": "bool",
    "Bool": "bool",
    "list": "[T]",
    "array": "[T]",
    "List": "[T]",
    "map": "{str: T}",
    "dict": "{str: T}",
    "object": "{str: T}",
    "Money": "money",
    "Duration": "duration",
    "File": "file",
    "ProcessId": "process",
}


def written(program: Program, names: Names, node: TypeExpr) -> Type:
    kind = _written(program, names, node)
    program.types[id(node)] = kind
    return kind


def _written(program: Program, names: Names, node: TypeExpr) -> Type:
    match node:
        case NamedType():
            return _named(program, names, node)
        case OptionalType(inner=inner):
            return _optional(program, names, node, inner)
        case ListType(inner=inner, most=most):
            if most is not None and most < 1:
                program.reports.error(
                    "empty-list-type", node, "a list of at most 0 is always empty"
                )
            return ListOf(written(program, names, inner), most)
        case MapType(inner=inner):
            return MapOf(written(program, names, inner))
        case ChoiceType(choices=choices):
            return _choice(program, node, choices)


def _optional(program: Program, names: Names, node: OptionalType, inner: TypeExpr) -> Type:
    kind = written(program, names, inner)
    if isinstance(kind, OptionalOf) or kind in (NULL, ANY):
        program.reports.error("twice-optional", node, "this may be null already", "leave out `?`")
        return kind
    return kind if kind == UNKNOWN else OptionalOf(kind)


def _choice(program: Program, node: ChoiceType, choices: tuple[str, ...]) -> Type:
    kept = tuple(dict.fromkeys(choices))
    if len(kept) < len(choices):
        twice = Counter(choices).most_common(1)[0][0]
        program.reports.error("duplicate-choice", node, f'"{twice}" is there twice')
    if len(kept) > MOST_PARTS:
        program.reports.error(
            "type-too-large", node, f"there are more than {MOST_PARTS:,} choices", "use a str"
        )
        return UNKNOWN
    return ChoiceOf(kept)


def _named(program: Program, names: Names, node: NamedType) -> Type:
    found = names.find(node.name)
    if isinstance(found, Record):
        return found.type
    if isinstance(found, Agent | Supervisor):
        return ProcessOf(found.full)
    pending, owner = _pending(names, node.name)
    if pending is not None:
        return declared_type(program, owner, pending, node)
    if found is not None:
        program.reports.error(
            "not-a-type", node, f"`{node.name}` is {described(found)}, not a type"
        )
        return UNKNOWN
    if node.name in PLAIN_TYPES:
        return PLAIN_TYPES[node.name]
    _unknown(program, names, node)
    return UNKNOWN


def _pending(names: Names, name: str) -> tuple[TypeDecl | None, Names]:
    front, colons, last = name.rpartition("::")
    owner = names.others.get(front) if colons else names
    return (None, names) if owner is None else (owner.pending.get(last), owner)


def _unknown(program: Program, names: Names, node: NamedType) -> None:
    other = _ELSEWHERE.get(node.name, "")
    if node.name in ("void", "None", "nothing", "unit"):
        help_, edit = "a function that returns nothing has no `->`", None
    elif other:
        help_, edit = f"write `{other}`", instead(node, other)[1] if other.isalpha() else None
    else:
        types = [name for name, found in names.own.items() if isinstance(found, Record | Agent)]
        spaced = [f"{space}::{name}" for space, other in names.others.items() for name in other.own]
        known = [*types, *names.pending, *PLAIN_TYPES, *spaced]
        help_, edit = instead(node, meant(node.name, known))
        help_ = help_ or f"there are {', '.join(PLAIN_TYPES)}, and those you declare with `type`"
    program.reports.error("unknown-type", node, f"there is no type `{node.name}`", help_, edit)


def declared_type(program: Program, names: Names, decl: TypeDecl, asked: Node) -> Type:
    """Of a `type` declaration, whose fields may name others that are declared later."""
    if id(decl) in program.types:
        return program.types[id(decl)]
    if _is_forming(program, decl) or len(program.forming) >= MOST_DEPTH:
        _circle(program, decl, asked)
        return UNKNOWN
    program.forming.append(decl)
    before, program.reports.file = program.reports.file, names.unit.path
    kind = _formed(program, names, decl)
    program.reports.file = before
    program.forming.pop()
    program.types[id(decl)] = kind
    names.own.setdefault(decl.name, Record(kind, decl))
    return kind


def _formed(program: Program, names: Names, decl: TypeDecl) -> Type:
    if decl.alias is not None:
        return written(program, names, decl.alias)
    fields: dict[str, Type] = {}
    for field in decl.fields:
        if field.name in fields:
            program.reports.error("duplicate-field", field, f"`{field.name}` is there already")
        kind = written(program, names, field.type)
        fields[field.name] = kind
    parts = 1 + sum(_parts(program, kind) for kind in fields.values())
    if parts > MOST_PARTS:
        program.reports.error(
            "type-too-large",
            decl,
            f"`{decl.name}`, with all that is in it, has more than {MOST_PARTS:,} fields",
            "split it: a model cannot fill such a form",
        )
        return UNKNOWN
    record = RecordOf(names.full(decl.name), tuple(fields.items()))
    program.parts[record.name] = parts
    return record


def _parts(program: Program, kind: Type) -> int:
    while isinstance(kind, OptionalOf | ListOf | MapOf):
        kind = kind.inner
    return program.parts.get(kind.name, 1) if isinstance(kind, RecordOf) else 1


def _is_forming(program: Program, decl: TypeDecl) -> bool:
    return any(one is decl for one in program.forming)


def _circle(program: Program, decl: TypeDecl, asked: Node) -> None:
    names = [one.name for one in program.forming]
    if _is_forming(program, decl):
        circle = " -> ".join([*names[names.index(decl.name) :], decl.name])
        program.reports.error(
            "recursive-type",
            asked,
            f"a type cannot contain itself: {circle}",
            "keep the parts in one list, and let them refer to each other by number or name",
        )
    else:
        program.reports.error("type-too-large", asked, "these types lie too deep in each other")
