"""Protos and table agree, numbers are for ever, records pass through messages unchanged."""

import re
import subprocess
import sys
from enum import Enum, StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from hypothesis import HealthCheck, assume, given, settings, strategies as st
from msgspec import Meta, Struct, inspect, json as msgspec_json

from tests.kernel.examples import EXAMPLES
from tests.kernel.rpc import filled, message_class
from tools import make_protos  # pyright: ignore[reportAttributeAccessIssue]
from vegakit import server
from vegakit.control import (
    KERNEL_OPERATIONS,
    Operation,
    OperationError,
    RefusalCode,
    ReplyShape,
    Right,
)
from vegakit.errors import BugError
from vegakit.server.proto_shapes import ProtoSchema, kernel_schema
from vegakit.server.protobuf import KernelMessages, kernel_messages

AGAIN = "write them anew: python tools/make_protos.py"


# The files.


def test_protos_are_those_of_the_table_and_descriptors_those_of_the_protos() -> None:
    files = make_protos.committed()
    lock = make_protos.lock_of(files)
    assert make_protos.broken(kernel_schema(), lock) == []
    assert make_protos.made(kernel_schema(), lock) == files, AGAIN
    kept = (make_protos.HOME / make_protos.DESCRIPTORS).read_bytes()
    assert FileDescriptorSet.FromString(kept) == FileDescriptorSet.FromString(
        make_protos.compiled(files)
    ), AGAIN


RULES = {
    "package": r"package vega\.kernel\.v1;",
    "message": r"message [A-Z][A-Za-z0-9]* \{",
    "enum": r"enum [A-Z][A-Za-z0-9]* \{",
    "service": r"service [A-Z][A-Za-z]*Service \{",
    "rpc": r"rpc [A-Z][A-Za-z]*\([.\w]+\) returns \((stream )?[.\w]+\);",
    "oneof": r"oneof [a-z][a-z0-9_]* \{",
    "value": r"[A-Z][A-Z0-9_]* = \d+;",
    "field": r"(optional |repeated )?[\w.]+ [a-z][a-z0-9_]* = \d+;",
    "map": r"map<string, [\w.]+> [a-z][a-z0-9_]* = \d+;",
}
UNCOMMENTED = re.compile(r"(syntax|package|import|reserved) .*;|\}|")


def faults(text: str) -> list[str]:
    """What breaks the house rules of a proto: names, and a comment before everything."""
    found: list[str] = []
    before = ""
    for line in map(str.strip, text.splitlines()):
        is_plain = UNCOMMENTED.fullmatch(line) or line.startswith("//")
        if not is_plain and not any(re.fullmatch(rule, line) for rule in RULES.values()):
            found.append(f"is spelled otherwise: {line}")
        if not is_plain and not before.startswith("//"):
            found.append(f"has no comment: {line}")
        before = line
    if "package vega.kernel.v1;" not in text or 'syntax = "proto3";' not in text:
        found.append("is of no package, or of another syntax")
    return found


def test_protos_keep_the_house_rules() -> None:
    files = make_protos.committed()
    assert {name: found for name, text in files.items() if (found := faults(text))} == {}
    for text in files.values():
        for body in re.findall(r"^enum \w+ \{(.*?)^\}", text, re.DOTALL | re.MULTILINE):
            values = re.findall(r"(\w+) = (\d+);", body)
            assert values[0][0].endswith("_UNSPECIFIED")
            assert values[0][1] == "0"


@pytest.mark.parametrize(
    "wrong",
    [
        "message lower {",
        "  required string x = 1;",
        "  optional string camelCase = 1;",
        "service Things {",
        "  rpc get(A) returns (B);",
        "  optional string x = 1; // behind",
    ],
)
def test_a_planted_fault_is_found(wrong: str) -> None:
    text = 'syntax = "proto3";\npackage vega.kernel.v1;\n// A comment.\n'
    assert faults(text) == []
    assert faults(text + wrong) != []
    assert faults(text + "\nmessage Silent {") != []


# Numbers.


class Colour(StrEnum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


class Thing(Struct):
    """Something."""

    a: str
    b: int = 0
    colour: Colour = Colour.RED


def schema_of(kind: type[Struct]) -> ProtoSchema:
    row: Operation[Any, Any] = Operation("look", kind, kind, Right.READ, "Look.")
    return kernel_schema({"look": row})


def changed(*schemas: ProtoSchema) -> str:
    """The messages after one schema was written over the other."""
    files: dict[str, str] = {}
    for schema in schemas:
        files = make_protos.made(schema, make_protos.lock_of(files))
    return files["vega/kernel/v1/messages.proto"]


def thing(**fields: Any) -> ProtoSchema:
    spelled = [
        (name, *given) if isinstance(given, tuple) else (name, given)
        for name, given in fields.items()
    ]
    return schema_of(msgspec.defstruct("Thing", spelled, namespace={"__doc__": "Something."}))


def test_a_number_is_for_ever() -> None:
    """What is gone is reserved, what is new gets a number that was never used."""
    text = changed(thing(a=str, b=int, c=str), thing(a=str, c=str), thing(d=str, a=str, c=str))
    assert "  reserved 2;\n" in text
    assert '  reserved "b";\n' in text
    numbers = dict(re.findall(r"optional string (\w+) = (\d+);", text))
    assert numbers == {"a": "1", "c": "3", "d": "4"}
    enum = StrEnum("Colour", {"BLUE": "blue", "GREEN": "green"})
    enum.__doc__ = "A colour."
    text = changed(schema_of(Thing), thing(a=str, b=int, colour=enum))
    assert dict(re.findall(r"COLOUR_(\w+) = (\d+);", text)) == {
        "UNSPECIFIED": "0",
        "BLUE": "2",
        "GREEN": "3",
    }
    assert '  reserved "COLOUR_RED";\n' in text


def test_what_breaks_clients_is_refused() -> None:
    lock = make_protos.lock_of(make_protos.made(thing(a=str, b=int), make_protos.lock_of({})))
    assert make_protos.broken(thing(a=str, b=int), lock) == []
    assert make_protos.broken(thing(a=str), lock) == []
    assert make_protos.broken(thing(a=str, b=int, c=int), lock) == []
    [retyped] = make_protos.broken(thing(a=str, b=str), lock)
    assert "Thing.b was of type int64, and is now of type string" in retyped
    [listed] = make_protos.broken(thing(a=str, b=list[int]), lock)
    assert "repeated int64" in listed
    [renamed] = make_protos.broken(thing(a=str, c=int), lock)
    assert "is c the new name of b?" in renamed
    gone = make_protos.lock_of(make_protos.made(thing(a=str), lock))
    [back] = make_protos.broken(thing(a=str, b=int), gone)
    assert "its name is reserved" in back
    none = kernel_schema({})
    assert make_protos.broken(none, lock) == ["KernelService.Look was Thing -> Thing, and is gone"]


class Left(Struct, tag=True):
    """Left."""

    n: int


class Ahead(Struct, tag="ahead"):
    """Ahead."""

    items: list[Annotated[str, Meta(min_length=1)]] | None = None


class Odd(Struct):
    """Shapes that the table may have one day."""

    choices: tuple[Left | Ahead, ...]
    by_name: dict[str, Left] = {}
    ratio: float = 0.5
    blob: bytes = b""
    nested: dict[str, dict[Colour, Left]] = {}


def test_other_shapes_have_protos_too() -> None:
    """Choices inside of lists, and replies that are a choice, get a message of their own."""
    choice: Any = Left | Ahead
    row: Operation[Any, Any] = Operation(
        "odd", Odd, choice, Right.READ, "Be odd.", shape=ReplyShape.STREAM
    )
    schema = kernel_schema({"odd": row})
    files = make_protos.made(schema, make_protos.lock_of({}))
    text = files["vega/kernel/v1/messages.proto"]
    assert "repeated OddChoicesItem choices = 1;" in text
    assert "map<string, Left> by_name = 2;" in text
    assert "message OddReply {" in text
    assert "StringList items = 1;" in text
    assert faults(text) == []
    assert (
        "rpc Odd(.vega.kernel.v1.Odd) returns (stream OddReply);"
        in files["vega/kernel/v1/kernel_service.proto"]
    )
    messages = KernelMessages(schema, make_protos.compiled(files))
    codec = messages.paths()["/vega.kernel.v1.KernelService/Odd"]
    odd = Odd(
        (Left(1), Ahead([]), Ahead()),
        {"x": Left(0)},
        0.0,
        b"\xff",
        {"y": {Colour.RED: Left(2)}, "z": {}},
    )
    assert codec.request_from(messages.bytes_of("Odd")(odd)) == odd
    for reply in (Left(3), Ahead(["a"])):
        assert messages.record_from("OddReply", choice, "x")(codec.reply_bytes(reply)) == reply
    for unfit in (int | str, set[str]):
        with pytest.raises(BugError):
            thing(a=unfit)


def test_one_module_knows_protobuf_and_nobody_loads_it_unasked() -> None:
    home = Path(server.__file__).parent
    imports = {
        path.name for path in home.rglob("*.py") if "from google.protobuf" in path.read_text()
    }
    assert imports == {"protobuf.py"}
    look = (
        "import sys, vegakit, vegakit.server, vegakit.server.kernel_app as it; print(*sys.modules)"
    )
    seen = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert not {"grpc", "google.protobuf"} & {*seen.stdout.split()}


# There and back.

PRINTED = st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"])
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 53), 1 << 53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(PRINTED, max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(PRINTED), inner, max_size=3)
    ),
    max_leaves=5,
)


STRUCTS: dict[type, st.SearchStrategy[Any]] = {}


def strategy(kind: inspect.Type) -> st.SearchStrategy[Any]:  # noqa: C901  (a table of types)
    """Values of a type as JSON has them."""
    match kind:
        case inspect.StructType():
            if kind.cls not in STRUCTS:
                STRUCTS[kind.cls] = st.deferred(lambda: struct_strategy(kind))
            return STRUCTS[kind.cls]
        case inspect.UnionType():
            return st.one_of(*map(strategy, kind.types))
        case inspect.EnumType(cls):
            return st.sampled_from([member.value for member in cls])
        case inspect.VarTupleType() | inspect.ListType():
            return st.lists(strategy(kind.item_type), max_size=3)
        case inspect.DictType(key_type=key, value_type=value):
            return st.dictionaries(strategy(key), strategy(value), max_size=3)
        case inspect.StrType(min_length=least, max_length=most):
            return st.text(PRINTED, min_size=least or 0, max_size=min(most or 8, 8))
        case inspect.IntType(ge=least, le=most):
            return st.integers(least or 0, most if most is not None else (1 << 63) - 1)
        case inspect.BoolType():
            return st.booleans()
        case inspect.FloatType():
            return st.floats(allow_nan=False, allow_infinity=False)
        case inspect.NoneType():
            return st.none()
        case _:
            assert isinstance(kind, inspect.AnyType), kind
            return JSON


def struct_strategy(kind: inspect.StructType) -> st.SearchStrategy[Any]:
    required = {one.encode_name: strategy(one.type) for one in kind.fields if one.required}
    optional = {one.encode_name: strategy(one.type) for one in kind.fields if not one.required}
    if kind.tag is not None:
        required[kind.tag_field or "type"] = st.just(kind.tag)
    return st.fixed_dictionaries(required, optional=optional)


def record(kind: Any, plain: Any) -> Any:
    try:
        return msgspec.convert(plain, type=kind)
    except msgspec.ValidationError:
        assume(condition=False)


TYPES = sorted(
    {kind for row in KERNEL_OPERATIONS.values() for kind in (row.request, row.reply)},
    key=lambda kind: kind.__name__,
)


@pytest.mark.properties
@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_records_pass_through_messages_unchanged(kind: type[Any]) -> None:
    """Every request and reply, and the official reading of the same bytes is as long."""
    messages = kernel_messages()
    there, back = messages.bytes_of(kind.__name__), messages.record_from(kind.__name__, kind, "x")

    @settings(
        max_examples=25,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        deadline=None,
        database=None,
    )
    @given(strategy(inspect.type_info(kind)))
    def holds(plain: Any) -> None:
        value = record(kind, plain)
        body = there(value)
        assert back(body) == value
        assert len(message_class(kind.__name__).FromString(body).SerializeToString()) == len(body)

    holds()


# Both doors refuse the same, with the same words.


def bad_values(kind: inspect.Type) -> list[Any]:
    match kind:
        case inspect.UnionType():
            return [bad for one in kind.types for bad in bad_values(one)]
        case inspect.StrType(min_length=least, max_length=most, pattern=pattern):
            found = ["x" * (most + 1)] if most is not None else []
            return [*found, *([""] if least else []), *(["a\nb"] if pattern else [])]
        case inspect.IntType(ge=least, le=most):
            found = [least - 1] if least is not None else []
            return [*found, *([most + 1] if most is not None else [])]
        case inspect.EnumType():
            return ["99"]
        case inspect.VarTupleType() | inspect.ListType():
            return [[bad] for bad in bad_values(kind.item_type)]
        case inspect.StructType():
            # Of a list, none and no field are the same on the wire.
            needed = [one.type for one in kind.fields if one.required]
            many = (inspect.VarTupleType, inspect.ListType, inspect.DictType)
            return [{}] if any(not isinstance(one, many) for one in needed) else []
        case _:
            return []


def broken_requests(name: str) -> list[dict[str, Any]]:
    """The example without what it needs, and with each field out of its bounds."""
    kind = inspect.type_info(KERNEL_OPERATIONS[name].request)
    assert isinstance(kind, inspect.StructType)
    fields, found = EXAMPLES[name].fields, list[dict[str, Any]]()
    for field in kind.fields:
        rest = {key: value for key, value in fields.items() if key != field.encode_name}
        if field.required:
            found.append(rest)
        found.extend(
            rest | {field.encode_name: bad}
            for bad in bad_values(field.type)
            if not (isinstance(bad, dict) and isinstance(field.type, inspect.UnionType))
        )
    return found


def test_both_doors_refuse_the_same_with_the_same_words() -> None:
    messages, seen = kernel_messages(), 0
    for codec in messages.paths().values():
        row = codec.row
        for fields in broken_requests(row.name):
            with pytest.raises(msgspec.ValidationError) as over_http:
                msgspec_json.decode(msgspec_json.encode(fields), type=row.request)
            message = filled(message_class(row.request.__name__)(), fields)
            with pytest.raises(OperationError) as over_grpc:
                codec.request_from(message.SerializeToString())
            assert str(over_grpc.value) == f"{row.name}: {over_http.value}"
            assert over_grpc.value.code is RefusalCode.INVALID
            seen += 1
    assert seen > 2 * len(KERNEL_OPERATIONS)


def test_absent_unset_and_empty_are_kept_apart() -> None:
    messages = kernel_messages()
    row = KERNEL_OPERATIONS["transition_state"]
    read = messages.record_from("TransitionRequest", row.request, row.name)
    cls = message_class("TransitionRequest")
    given = {"pid": "p", "to": "waiting"}
    assert read(filled(cls(), given).SerializeToString()).stage is msgspec.UNSET
    assert not read(filled(cls(), given | {"stage": ""}).SerializeToString()).stage
    unspecified = filled(cls(), {"pid": "p"})
    unspecified.to = 0
    with pytest.raises(OperationError, match="missing required field `to`"):
        read(unspecified.SerializeToString())
    stage = kernel_messages().record_from("Stage", _struct("Stage"), "x")
    for tools in (None, (), ("a",)):
        plain = {"name": "n", "agent": "a", "tools": None if tools is None else [*tools]}
        body = filled(message_class("Stage")(), plain).SerializeToString()
        assert stage(body).tools == tools


def _struct(name: str) -> Any:
    return kernel_schema().messages[name].cls


def test_every_enum_keeps_its_words() -> None:
    for name, cls in kernel_schema().enums.items():
        assert issubclass(cls, Enum)
        described = getattr(message_class(name), "DESCRIPTOR")  # noqa: B009
        assert len(described.values) == len(cls) + 1
