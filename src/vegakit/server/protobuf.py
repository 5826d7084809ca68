"""Converts between the records of the kernel's table and messages of `vega.kernel.v1`.

    bytes ──▶ message ──▶ plain values, as JSON has them ──▶ record        a request
    record ──▶ message ──▶ bytes                                           a reply

This is the only module that knows protobuf. What is incoming passes msgspec like JSON does, so both
doors refuse the same with the same words. Converters are made once for each type, from the shapes
that the `.proto` files are printed from; the descriptors are what protoc made of those files.

Numbers inside of free JSON are doubles, as in JavaScript: whole ones are exact up to 2**53.
"""

import math
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, EncodeError
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet
from msgspec import NODEFAULT, UNSET, Struct, ValidationError, convert
from msgspec.structs import astuple

from vegakit.control import Operation, OperationError, RefusalCode
from vegakit.server.admission import MOST_VALUES
from vegakit.server.proto_shapes import (
    PACKAGE,
    ChoiceShape,
    EnumShape,
    FieldShape,
    JsonShape,
    ManyShape,
    MapShape,
    MessageShape,
    ProtoMessage,
    ProtoMethod,
    ProtoSchema,
    ScalarShape,
    Shape,
    Single,
    enum_name,
    kernel_schema,
)

_DESCRIPTORS = Path(__file__).parent / "proto" / "kernel.binpb"
_MOST_EXACT = 1 << 53
_MOST_UNKNOWN = 64 << 10

Message: TypeAlias = Any
"""protobuf makes the classes of messages while it runs, so no type checker knows them."""
Plain: TypeAlias = Any
"""A value as JSON has it."""


class MethodCodec(NamedTuple):
    """A method as the door serves it: bytes become its request, and a reply becomes bytes."""

    row: Operation[Any, Any]
    request_from: Callable[[bytes], Any]
    reply_bytes: Callable[[Any], bytes]


class KernelMessages:
    """The messages of the table. One is enough for a process: see `kernel_messages`."""

    def __init__(self, schema: ProtoSchema, descriptors: bytes) -> None:
        self.schema, self.pool = schema, DescriptorPool()
        for file in FileDescriptorSet.FromString(descriptors).file:
            self.pool.Add(file)
        self._readers: dict[str, _Reader] = {}
        self._writers: dict[str, _Writer] = {}

    def message_class(self, name: str, package: str = PACKAGE) -> Message:
        """Return protobuf's class of a message."""
        return GetMessageClass(self.pool.FindMessageTypeByName(f"{package}.{name}"))

    def paths(self) -> dict[str, MethodCodec]:
        """Return every method by the path that a client calls."""
        return {
            f"/{PACKAGE}.{service}/{method.name}": self.codec(method)
            for service, methods in self.schema.services.items()
            for method in methods
        }

    def codec(self, method: ProtoMethod) -> MethodCodec:
        """Return the two converters that serve a method."""
        return MethodCodec(
            method.row,
            self.record_from(method.request, method.row.request, method.row.name),
            self.bytes_of(method.reply),
        )

    def record_from(self, message: str, kind: type[Any], what: str) -> Callable[[bytes], Any]:
        """Return what makes a record of bytes, or refuses them in the words of the HTTP door."""
        parse, read = self.message_class(message).FromString, self._reader(message)

        def record(body: bytes) -> Any:  # noqa: ANN401  (of the type that was asked for)
            try:
                return convert(read(parse(body)), type=kind)
            except DecodeError as error:
                text = f"{what}: these bytes are no {PACKAGE}.{message}"
                raise OperationError(RefusalCode.INVALID, text) from error
            except (ValidationError, ValueError, RecursionError) as error:
                raise OperationError(RefusalCode.INVALID, f"{what}: {error}") from error

        return record

    def bytes_of(self, message: str) -> Callable[[Any], bytes]:
        """Return what makes bytes of a record."""
        make, write = self.message_class(message), self._writer(message)

        def body(value: Any) -> bytes:  # noqa: ANN401  (a record of the message's type)
            try:
                message = make()
                write(message, value)
                return message.SerializeToString()
            except (EncodeError, OverflowError, RecursionError) as error:
                text = (
                    "the reply holds JSON that gRPC cannot carry: nested deeper than about 25, or "
                    "a number beyond a double; read it over HTTP"
                )
                raise OperationError(RefusalCode.INVALID, text) from error

        return body

    def _reader(self, name: str) -> "_Reader":
        if name not in self._readers:
            # It is there before it is filled: a message may hold itself.
            reader = self._readers[name] = _Reader()
            reader.fill(self, self.schema.messages[name])
        return self._readers[name]

    def _writer(self, name: str) -> "_Writer":
        if name not in self._writers:
            writer = self._writers[name] = _Writer()
            writer.fill(self, self.schema.messages[name])
        return self._writers[name]

    # A converter of None leaves the value as it is.

    def reading(self, shape: Single) -> Callable[[Any], Plain] | None:
        """Return the converter of one value to plain values."""
        match shape:
            case ScalarShape():
                return None
            case EnumShape(cls):
                words = {number: member.value for number, member in self._members(cls)}
                return lambda number: words.get(number, str(number) if number else UNSET)
            case MessageShape(name):
                return self._reader(name)
            case JsonShape(is_object):
                return _object_from if is_object else _json_from

    def writing(self, shape: EnumShape | MessageShape | JsonShape) -> Callable[..., Any]:
        """Return the converter of a word to its number, or what fills a message from a value."""
        match shape:
            case EnumShape(cls):
                return {member.value: number for number, member in self._members(cls)}.__getitem__
            case MessageShape(name):
                return self._writer(name)
            case JsonShape(is_object):
                return _fill_object if is_object else _fill_json

    def _members(self, cls: type[Enum]) -> list[tuple[int, Enum]]:
        numbers = self.pool.FindEnumTypeByName(f"{PACKAGE}.{cls.__name__}").values_by_name
        return [(numbers[enum_name(cls, name)].number, member) for name, member in _named(cls)]


def _named(cls: type[Enum]) -> list[tuple[str, Enum]]:
    return [*cls.__members__.items()]


@cache
def kernel_messages() -> KernelMessages:
    """Return the messages of the kernel's table, made when they are first needed."""
    return KernelMessages(kernel_schema(), _DESCRIPTORS.read_bytes())


def _check_known(message: Message) -> None:
    """Refuse a message of which much is unknown: to name only the first unknown field, protobuf
    makes an object of each."""
    known = type(message)()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    if message.ByteSize() - known.ByteSize() > _MOST_UNKNOWN:
        raise ValueError(f"Object contains more than {_MOST_UNKNOWN} bytes of unknown fields")


class _Reader:
    """Makes plain values of a message: of the fields that are present."""

    __slots__ = ("_box", "_empty", "_fields", "_is_strict")

    def fill(self, messages: KernelMessages, shape: ProtoMessage) -> None:
        descriptor = messages.message_class(shape.name).DESCRIPTOR
        self._is_strict = shape.forbids_unknown
        self._empty: dict[str, Plain] = {} if shape.tag is None else dict([shape.tag])
        self._box = shape.fields[0].key if shape.is_box else None
        self._fields: dict[int, tuple[str, Callable[[Any], Plain] | None]] = {}
        for field in shape.fields:
            if field.is_none_if_absent:
                self._empty[field.key] = None
            if isinstance(field.shape, ChoiceShape):
                for name, message in field.shape.variants:
                    number = descriptor.fields_by_name[name].number
                    self._fields[number] = field.key, messages.reading(MessageShape(message))
                continue
            number = descriptor.fields_by_name[field.name].number
            self._fields[number] = field.key, _read_field(messages, field)
            # On the wire none and no field are the same.
            if field.is_required or shape.is_box:
                if isinstance(field.shape, ManyShape):
                    self._empty[field.key] = ()
                elif isinstance(field.shape, MapShape):
                    self._empty[field.key] = {}

    def __call__(self, message: Message) -> Plain:
        plain = self._empty.copy()
        fields = self._fields
        for field, value in message.ListFields():
            key, read = fields[field.number]
            if read is None or (value := read(value)) is not UNSET:
                plain[key] = value
        if self._is_strict:
            if message.ByteSize() > _MOST_UNKNOWN:
                _check_known(message)
            if len(unknown := UnknownFieldSet(message)):
                number = unknown[0].field_number
                raise ValueError(f"Object contains unknown field number {number}")
        return plain if self._box is None else plain.get(self._box)


def _read_field(messages: KernelMessages, field: FieldShape) -> Callable[[Any], Plain] | None:
    match field.shape:
        case ManyShape(item):
            read = messages.reading(item)
            return list if read is None else _listing(read)
        case MapShape(value):
            read = messages.reading(value)
            return dict if read is None else _mapping(read)
        case ChoiceShape():
            return None
        case single:
            return messages.reading(single)


def _listing(read: Callable[[Any], Plain]) -> Callable[[Any], Plain]:
    def one(value: Any) -> Plain:  # noqa: ANN401
        plain = read(value)
        return "" if plain is UNSET else plain  # an unspecified word is refused like a wrong one

    return lambda values: [one(value) for value in values]


def _mapping(read: Callable[[Any], Plain]) -> Callable[[Any], Plain]:
    return lambda values: {key: read(value) for key, value in values.items()}


class _Writer:
    """Fills a message from a record. What is None, unset, or both empty and the default is left
    out: a reader in any language reads the same of an absent field. Everything is filled where it
    stands: protobuf copies what it is given, once for each level that it is in."""

    __slots__ = ("_absent", "_is_box", "_puts")

    def fill(self, messages: KernelMessages, shape: ProtoMessage) -> None:
        self._is_box = shape.is_box
        self._puts = [_putting(messages, field.shape, field.name) for field in shape.fields]
        self._absent = [_absent(messages, field) for field in shape.fields]

    def __call__(self, message: Message, value: Any) -> None:  # noqa: ANN401
        if self._is_box:
            self._puts[0](message, value)
            return
        for one, absent, put in zip(astuple(value), self._absent, self._puts, strict=True):
            if one not in absent:
                put(message, one)


def _absent(messages: KernelMessages, field: FieldShape) -> tuple[Any, ...]:
    """Return the values of which nothing is written."""
    shape, default = field.shape, field.default
    if isinstance(shape, JsonShape) and not shape.is_object:
        return (None,) if default is None else ()  # null is a value of JSON
    if default is NODEFAULT or default is None:
        return (None, UNSET)
    is_empty = not default
    if isinstance(default, Struct) and isinstance(shape, MessageShape):
        is_empty = not messages.bytes_of(shape.name)(default)
    return (None, UNSET, default) if is_empty else (None, UNSET)


def _putting(messages: KernelMessages, shape: Shape, name: str) -> Callable[[Message, Any], None]:
    """Return what puts a value into the field of a message."""
    match shape:
        case ScalarShape():
            return lambda message, value: setattr(message, name, value)
        case EnumShape():
            number = messages.writing(shape)
            return lambda message, value: setattr(message, name, number(value))
        case ManyShape(item):
            return _putting_many(messages, item, name)
        case MapShape(item):
            return _putting_map(messages, item, name)
        case ChoiceShape(variants):
            puts = {
                messages.schema.messages[kind].cls: _putting(messages, MessageShape(kind), one)
                for one, kind in variants
            }
            return lambda message, value: puts[type(value)](message, value)
        case MessageShape() | JsonShape():
            return _putting_message(messages.writing(shape), name)


def _putting_message(
    write: Callable[[Message, Any], None], name: str
) -> Callable[[Message, Any], None]:
    def put(message: Message, value: Any) -> None:  # noqa: ANN401
        place = getattr(message, name)
        place.SetInParent()
        write(place, value)

    return put


def _putting_many(
    messages: KernelMessages, item: Single, name: str
) -> Callable[[Message, Any], None]:
    match item:
        case ScalarShape():
            return lambda message, values: getattr(message, name).extend(values)
        case EnumShape():
            number = messages.writing(item)
            return lambda message, values: getattr(message, name).extend(map(number, values))
        case _:
            write = messages.writing(item)

    def put(message: Message, values: Any) -> None:  # noqa: ANN401
        add = getattr(message, name).add
        for value in values:
            write(add(), value)

    return put


def _putting_map(
    messages: KernelMessages, item: Single, name: str
) -> Callable[[Message, Any], None]:
    """Keys are written as their words: some are of a StrEnum."""
    if isinstance(item, ScalarShape | EnumShape):
        spell = messages.writing(item) if isinstance(item, EnumShape) else _as_it_is

        def put_plain(message: Message, values: Any) -> None:  # noqa: ANN401
            place = getattr(message, name)
            for key, value in values.items():
                place[str(key)] = spell(value)

        return put_plain
    write = messages.writing(item)

    def put(message: Message, values: Any) -> None:  # noqa: ANN401
        place = getattr(message, name)
        for key, value in values.items():
            write(place[str(key)], value)

    return put


def _as_it_is(value: Any) -> Any:  # noqa: ANN401
    return value


# Free JSON.


_MOST_LEVELS = 80
"""Clients parse at most 100 levels of messages; the rest is for those around the JSON. An object of
JSON is three of them, a list two."""


def _fill_json(message: Message, plain: Plain, room: int = _MOST_LEVELS) -> None:
    match plain:
        case None:
            message.null_value = 0
        case bool():
            message.bool_value = plain
        case int() | float():
            message.number_value = float(plain)
        case str():
            message.string_value = plain
        case dict():
            message.struct_value.SetInParent()
            _fill_object(message.struct_value, cast("dict[str, Plain]", plain), room)
        case _:
            if room < 0:
                raise RecursionError
            message.list_value.SetInParent()
            add = message.list_value.values.add
            for item in plain:
                _fill_json(add(), item, room - 2)


def _fill_object(message: Message, plain: Mapping[str, Plain], room: int = _MOST_LEVELS) -> None:
    if room < 0:
        raise RecursionError
    fields = message.fields
    for key, value in plain.items():
        _fill_json(fields[key], value, room - 3)


def _json_from(value: Message) -> Plain:
    return _value_from(value, [MOST_VALUES])


def _object_from(value: Message) -> Plain:
    return _values_from(value, [MOST_VALUES])


def _value_from(value: Message, room: list[int]) -> Plain:
    """`room` is for how many more values there is room."""
    match value.WhichOneof("kind"):
        case "string_value":
            return value.string_value
        case "number_value":
            return _number(value.number_value)
        case "bool_value":
            return value.bool_value
        case "struct_value":
            return _values_from(value.struct_value, room)
        case "list_value":
            items = value.list_value.values
            _take_room(room, len(items))
            return [_value_from(item, room) for item in items]
        case _:
            return None


def _values_from(value: Message, room: list[int]) -> Plain:
    _take_room(room, len(value.fields))
    return {key: _value_from(item, room) for key, item in value.fields.items()}


def _take_room(room: list[int], count: int) -> None:
    room[0] -= count
    if room[0] < 0:
        raise ValueError(f"the JSON has more than {MOST_VALUES} values")


def _number(value: float) -> Plain:
    """Whole numbers come back as what they were; JSON has no others that are not finite."""
    if not math.isfinite(value):
        raise ValueError(f"JSON has no number {value}; send a finite one")
    return int(value) if value.is_integer() and abs(value) <= _MOST_EXACT else value
