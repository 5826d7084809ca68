"""Describes the kernel's table as protobuf sees it: messages, enums and services (no protobuf yet).

| in the table                       | in a `.proto`                                              |
|------------------------------------|------------------------------------------------------------|
| a Struct                           | a message                                                  |
| text, number, truth, StrEnum       | `optional`: absent is the default, `None` or `UNSET`       |
| a union of tagged Structs          | a `oneof`                                                  |
| a tuple or list; a dict            | `repeated`; a `map`, with keys as JSON spells them         |
| `tuple \\| None`                    | a message with `items`: none is not the same as no items   |
| any JSON, an object of JSON        | `google.protobuf.Value`, `google.protobuf.Struct`          |

Every single value is `optional`, so that what is absent here is what is absent in JSON, and both
doors refuse it alike. `tools/make_protos.py` prints this; `server.protobuf` converts by it.
"""

import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec import NODEFAULT, inspect

from vegakit.control import KERNEL_OPERATIONS, Operation, ReplyShape
from vegakit.errors import BugError

PACKAGE: Final = "vega.kernel.v1"
DEFAULT_SERVICE: Final = "KernelService"
SERVICES: Final[dict[str, tuple[str, frozenset[str]]]] = {
    DEFAULT_SERVICE: ("Processes, questions to people, events, and services.", frozenset()),
    "EngineService": (
        "Envelopes, and pipelines that the server runs itself.",
        frozenset(
            """
            create_envelope get_envelope update_envelope clone_envelope check_bounds
            execute_pipeline execute_agent
            """.split()
        ),
    ),
    "OrchestrationService": (
        "Sessions: a worker asks what to run next, and reports what came of it.",
        frozenset(
            """
            initialize_session get_next_instruction report_agent_result renew_task
            get_session_state terminate_session
            """.split()
        ),
    ),
    "CommBusService": (
        "Messages between the agents of a tenant.",
        frozenset(
            """
            publish send query subscribe take_command renew_command answer_command get_command
            """.split()
        ),
    ),
}
"""Each service, what it is for, and its operations. One that nobody names is of the default."""


# Shapes: how a value of a type is written.


class ScalarShape(NamedTuple):
    """A text, number or truth, by protobuf's name for it."""

    proto: str


class EnumShape(NamedTuple):
    """One of a closed choice of words."""

    cls: type[Enum]


class MessageShape(NamedTuple):
    """A message, by its name in the schema."""

    name: str


class JsonShape(NamedTuple):
    """A value that only its owner understands."""

    is_object: bool


class ManyShape(NamedTuple):
    """Several in a row."""

    item: "Single"


class MapShape(NamedTuple):
    """Values by name."""

    value: "Single"


class ChoiceShape(NamedTuple):
    """One of several messages; each has a field of its own."""

    variants: tuple[tuple[str, str], ...]


Single: TypeAlias = ScalarShape | EnumShape | MessageShape | JsonShape
Shape: TypeAlias = Single | ManyShape | MapShape | ChoiceShape


class FieldShape(NamedTuple):
    """A field. `key` is its name in JSON, `attribute` in the Struct; `default` is NODEFAULT where
    JSON must have it, or where absence itself means something; `source` is the field of the
    Struct. JSON may have to say null where `is_none_if_absent` holds."""

    name: str
    key: str
    attribute: str
    shape: Shape
    is_required: bool
    default: Any
    source: inspect.Field | None = None
    is_none_if_absent: bool = False


class ProtoMessage(NamedTuple):
    """A message, of a Struct unless it is a box: that has one field, and stands for its value.
    `tag` is what JSON calls the field that tells variants apart, and the word for this one."""

    name: str
    fields: tuple[FieldShape, ...]
    cls: type | None = None
    tag: tuple[str, str] | None = None
    forbids_unknown: bool = False

    @property
    def is_box(self) -> bool:
        """Say whether it stands for its one field."""
        return self.cls is None


class ProtoMethod(NamedTuple):
    """A method of a service: a row of the table."""

    name: str
    row: Operation[Any, Any]
    request: str
    reply: str


class ProtoSchema(NamedTuple):
    """All that the `.proto` files say."""

    messages: dict[str, ProtoMessage]
    enums: dict[str, type[Enum]]
    services: dict[str, tuple[ProtoMethod, ...]]


def kernel_schema(table: Mapping[str, Operation[Any, Any]] = KERNEL_OPERATIONS) -> ProtoSchema:
    """Return the schema of a table of operations."""
    return _Reading().schema(table)


def camel(name: str) -> str:
    """Spell a name of an operation or field as protobuf spells methods and messages."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def snake(name: str) -> str:
    """Spell the name of a message as protobuf spells fields."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def enum_name(cls: type[Enum], member: str) -> str:
    """Return a value's name, which protobuf wants to be unique in the whole package."""
    return f"{snake(cls.__name__)}_{member}".upper()


def proto_type(shape: Shape) -> str:
    """Return how a `.proto` spells the type of a field."""
    match shape:
        case ScalarShape(proto):
            return proto
        case EnumShape(cls):
            return cls.__name__
        case MessageShape(name):
            return name
        case JsonShape(is_object):
            return "google.protobuf.Struct" if is_object else "google.protobuf.Value"
        case ManyShape(item):
            return f"repeated {proto_type(item)}"
        case MapShape(value):
            return f"map<string, {proto_type(value)}>"
        case ChoiceShape():
            raise BugError("a choice has a field for each variant, and no type of its own")


_SCALARS: Final[dict[type[inspect.Type], str]] = {
    inspect.StrType: "string",
    inspect.IntType: "int64",
    inspect.BoolType: "bool",
    inspect.FloatType: "double",
    inspect.BytesType: "bytes",
}


class _Reading:
    """Reads types as msgspec understands them, each Struct and enum once."""

    def __init__(self) -> None:
        self._messages: dict[str, ProtoMessage] = {}
        self._classes: dict[str, type] = {}
        self._enums: dict[str, type[Enum]] = {}

    def schema(self, table: Mapping[str, Operation[Any, Any]]) -> ProtoSchema:
        methods: dict[str, list[ProtoMethod]] = {name: [] for name in SERVICES}
        kinds = iter(
            inspect.multi_type_info(
                [kind for row in table.values() for kind in (row.request, row.reply)]
            )
        )
        for row in table.values():
            name = camel(row.name)
            request = self._root(next(kinds), f"{name}Request")
            method = ProtoMethod(name, row, request, self._root(next(kinds), f"{name}Reply"))
            if row.shape is ReplyShape.LIST:
                raise BugError(f"{row.name}: a list has no bound; reply with a page, or stream")
            methods[_service_of(row.name)].append(method)
        services = {name: tuple(found) for name, found in methods.items() if found}
        return ProtoSchema(self._messages, self._enums, services)

    def _root(self, kind: inspect.Type, name: str) -> str:
        if isinstance(kind, inspect.StructType):
            return self._message(kind)
        return self._box(name, "value", kind)

    def _message(self, kind: inspect.StructType) -> str:
        name = kind.cls.__name__
        known = self._classes.setdefault(name, kind.cls)
        if known is not kind.cls:
            raise BugError(f"two Structs are called {name}; messages share one package")
        if name not in self._messages:
            # It is there before its fields are read: a Struct may hold itself.
            tag = (kind.tag_field or "type", str(kind.tag)) if kind.tag is not None else None
            shell = ProtoMessage(name, (), kind.cls, tag, kind.forbid_unknown_fields)
            self._messages[name] = shell
            fields = tuple(self._field(name, one) for one in kind.fields)
            self._messages[name] = shell._replace(fields=fields)
        return name

    def _field(self, owner: str, field: inspect.Field) -> FieldShape:
        kind, is_nullable = without_none(field.type)
        name = snake(field.encode_name)
        shape = self._shape(kind, owner + camel(name))
        if is_nullable and isinstance(shape, ManyShape | MapShape):
            shape = MessageShape(self._box(_box_name(shape, owner + camel(name)), "items", kind))
        is_required, is_none = field.required and not is_nullable, field.required and is_nullable
        return FieldShape(
            name=name,
            key=field.encode_name,
            attribute=field.name,
            shape=shape,
            is_required=is_required,
            default=default_of(field),
            source=field,
            is_none_if_absent=is_none,
        )

    def _shape(self, kind: inspect.Type, context: str) -> Shape:
        match kind:
            case inspect.UnionType():
                return self._choice(kind, context)
            case inspect.VarTupleType() | inspect.ListType():
                return ManyShape(self._single(kind.item_type, f"{context}Item"))
            case inspect.DictType(value_type=inspect.AnyType()):
                return JsonShape(is_object=True)
            case inspect.DictType():
                return MapShape(self._single(kind.value_type, f"{context}Value"))
            case _:
                return self._single(kind, context)

    def _single(self, kind: inspect.Type, context: str) -> Single:
        match kind:
            case inspect.StructType():
                return MessageShape(self._message(kind))
            case inspect.EnumType(cls):
                self._enums[cls.__name__] = cls
                return EnumShape(cls)
            case inspect.AnyType():
                return JsonShape(is_object=False)
            case inspect.LiteralType():
                return ScalarShape("string")
            case _ if type(kind) in _SCALARS:
                return ScalarShape(_SCALARS[type(kind)])
            case inspect.DictType(value_type=inspect.AnyType()):
                return JsonShape(is_object=True)
            case (
                inspect.UnionType()
                | inspect.VarTupleType()
                | inspect.ListType()
                | inspect.DictType()
            ):
                return MessageShape(self._box(context, "value", kind))
            case _:
                raise BugError(f"{context}: the gRPC door has no shape for {kind}; add one here")

    def _choice(self, kind: inspect.UnionType, context: str) -> ChoiceShape:
        found: list[tuple[str, str]] = []
        for one in kind.types:
            if not isinstance(one, inspect.StructType) or one.tag is None:
                raise BugError(f"{context}: a union is of Structs with tags; got {one}")
            name = self._message(one)
            found.append((snake(name), name))
        return ChoiceShape(tuple(found))

    def _box(self, name: str, field: str, kind: inspect.Type) -> str:
        """Wrap what cannot stand alone: a list that may be missing, a choice inside of a list."""
        if name not in self._messages:
            if name in self._classes:
                raise BugError(f"{name} is a Struct, and what the door calls a message of its own")
            shape = self._shape(kind, name)
            one = FieldShape(field, field, field, shape, is_required=False, default=NODEFAULT)
            self._messages[name] = ProtoMessage(name, (one,))
        return name


def _service_of(operation: str) -> str:
    for name, (_, operations) in SERVICES.items():
        if operation in operations:
            return name
    return DEFAULT_SERVICE


def without_none(kind: inspect.Type) -> tuple[inspect.Type, bool]:
    """Return a type without None, and whether it allows None."""
    if not isinstance(kind, inspect.UnionType):
        return kind, False
    rest = tuple(one for one in kind.types if not isinstance(one, inspect.NoneType))
    is_nullable = len(rest) < len(kind.types)
    return (rest[0] if len(rest) == 1 else inspect.UnionType(rest)), is_nullable


def _box_name(shape: ManyShape | MapShape, otherwise: str) -> str:
    if isinstance(shape, ManyShape) and not isinstance(shape.item, JsonShape):
        return f"{camel(proto_type(shape.item))}List"
    return otherwise


def default_of(field: inspect.Field) -> Any:  # noqa: ANN401  (of any type)
    """Return the default of a field."""
    if field.default_factory is not NODEFAULT:
        return field.default_factory()
    return field.default
