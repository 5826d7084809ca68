"""Writes the `.proto` files of the kernel from its table of operations, and what protoc makes of
them.

    python tools/make_protos.py                    writes them; refuses what breaks clients
    python tools/make_protos.py --accept-changes   renamed, retyped and removed things are meant

The files that are there are the lock: a field keeps its number for ever, a new one gets the next
that was never used, and the number and name of one that is gone are reserved. After a merge take
either side's files and run this again.
"""

import re
import sys
import tempfile
import textwrap
from collections.abc import Collection, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorSet
from msgspec import NODEFAULT, Struct, inspect, json as msgspec_json

from vegakit.errors import BugError
from vegakit.server.proto_shapes import (
    PACKAGE,
    SERVICES,
    ChoiceShape,
    FieldShape,
    ProtoMessage,
    ProtoMethod,
    ProtoSchema,
    ReplyShape,
    default_of,
    enum_name,
    kernel_schema,
    proto_type,
    snake,
    without_none,
)

HOME = Path(__file__).parent.parent / "src" / "vegakit" / "server" / "proto"
FOLDER = PACKAGE.replace(".", "/")
DESCRIPTORS = "kernel.binpb"
WIDTH = 100
HEAD = f"""\
// Made by tools/make_protos.py from the table of operations: change that, not this.

syntax = "proto3";

package {PACKAGE};
"""
SCALARS = {
    FieldDescriptorProto.TYPE_STRING: "string",
    FieldDescriptorProto.TYPE_INT64: "int64",
    FieldDescriptorProto.TYPE_BOOL: "bool",
    FieldDescriptorProto.TYPE_DOUBLE: "double",
    FieldDescriptorProto.TYPE_BYTES: "bytes",
}


class Lock(NamedTuple):
    """What is out there: of each message and enum the names with number and type, and what is
    reserved; the methods of each service with what they take and return."""

    numbers: dict[str, dict[str, tuple[int, str]]]
    reserved: dict[str, dict[int, str]]
    methods: dict[str, dict[str, str]]


# Reading what is there.


def compiled(files: Mapping[str, str]) -> bytes:
    """Return what protoc makes of the files, with all that they import."""
    protoc: Any = import_module("grpc_tools.protoc")  # it has no types
    own = Path(protoc.__file__).parent / "_proto"
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        out = Path(folder) / DESCRIPTORS
        words = [f"-I{folder}", f"-I{own}", f"--descriptor_set_out={out}", "--include_imports"]
        if protoc.main(["protoc", *words, *sorted(files)]):
            raise SystemExit("protoc refused the files; after a merge, check one side's out first")
        return out.read_bytes()


def committed(home: Path = HOME) -> dict[str, str]:
    """Return the files that are there, by their names for protoc."""
    return {
        str(path.relative_to(home)): path.read_text(encoding="utf-8")
        for path in sorted(home.rglob("*.proto"))
    }


def lock_of(files: Mapping[str, str]) -> Lock:
    """Return what the files promise to clients."""
    lock = Lock({}, {}, {})
    if not files:
        return lock
    found = FileDescriptorSet.FromString(compiled(files))
    for file in found.file:
        if file.package != PACKAGE:
            continue
        for message in file.message_type:
            maps = {one.name: one for one in message.nested_type if one.options.map_entry}
            lock.numbers[message.name] = {
                field.name: (field.number, _type_of(field, maps)) for field in message.field
            }
            _keep_reserved(lock, message, of_messages=1)
        for enum in file.enum_type:
            lock.numbers[enum.name] = {one.name: (one.number, "") for one in enum.value}
            _keep_reserved(lock, enum, of_messages=0)
        for service in file.service:
            lock.methods[service.name] = {
                one.name: f"{_short(one.input_type)} -> {'stream ' * one.server_streaming}"
                f"{_short(one.output_type)}"
                for one in service.method
            }
    return lock


def _keep_reserved(lock: Lock, described: Any, of_messages: int) -> None:  # noqa: ANN401
    """Names and numbers are reserved in pairs; the ranges of messages exclude their end."""
    numbers = [
        number
        for span in described.reserved_range
        for number in range(span.start, span.end + 1 - of_messages)
    ]
    lock.reserved[described.name] = dict(zip(numbers, described.reserved_name, strict=True))


def _type_of(field: FieldDescriptorProto, maps: Mapping[str, DescriptorProto]) -> str:
    kind = SCALARS.get(field.type) or _short(field.type_name)
    if kind in maps:
        return f"map<string, {_type_of(maps[kind].field[1], {})}>"
    return f"repeated {kind}" if field.label == FieldDescriptorProto.LABEL_REPEATED else kind


def _short(name: str) -> str:
    own = name.removeprefix(f".{PACKAGE}.").lstrip(".")
    return own if own.startswith("google.") else own.rpartition(".")[2]


# Numbers.


def numbered(name: str, wanted: Mapping[str, str], lock: Lock, first: int) -> dict[str, int]:
    """Return a number for each name: the one that it has, or the next that was never used."""
    had, gone = lock.numbers.get(name, {}), lock.reserved.get(name, {})
    unused = max([first - 1, *gone, *(number for number, _ in had.values())]) + 1
    found: dict[str, int] = {}
    for one in wanted:
        if one in had:
            found[one] = had[one][0]
        else:
            found[one], unused = unused, unused + 1
    return found


def reserved(name: str, wanted: Mapping[str, str], lock: Lock) -> dict[int, str]:
    """Return the numbers and names that must never be used again."""
    had = {number: one for one, (number, _) in lock.numbers.get(name, {}).items()}
    gone = lock.reserved.get(name, {}) | had
    return {number: one for number, one in sorted(gone.items()) if one not in wanted}


def broken(schema: ProtoSchema, lock: Lock) -> list[str]:
    """Return what clients out there would not survive."""
    found: list[str] = []
    for name, wanted in names_of(schema).items():
        had = lock.numbers.get(name, {})
        found.extend(
            f"{name}.{one} was of type {had[one][1]}, and is now of type {kind}"
            for one, kind in wanted.items()
            if one in had and had[one][1] != kind
        )
        gone, new = [one for one in had if one not in wanted], [*wanted.keys() - had.keys()]
        if gone and new:
            found.append(f"{name}: is {', '.join(sorted(new))} the new name of {', '.join(gone)}?")
        back = sorted({*wanted} & {*lock.reserved.get(name, {}).values()})
        found.extend(f"{name}.{one} was removed before, and its name is reserved" for one in back)
    methods = {
        name: {one.name: _signature(one) for one in found}
        for name, found in schema.services.items()
    }
    for service, had_methods in lock.methods.items():
        found.extend(
            f"{service}.{one} was {had}, and is {methods.get(service, {}).get(one, 'gone')}"
            for one, had in had_methods.items()
            if methods.get(service, {}).get(one) != had
        )
    return found


def names_of(schema: ProtoSchema) -> dict[str, dict[str, str]]:
    """Return the names in each message and enum, with their types."""
    messages = {
        message.name: {name: kind for name, kind, _, _ in flat_fields(message)}
        for message in schema.messages.values()
    }
    enums = {
        name: {enum_name(cls, one): "" for one in ("UNSPECIFIED", *cls.__members__)}
        for name, cls in schema.enums.items()
    }
    return messages | enums


def flat_fields(message: ProtoMessage) -> list[tuple[str, str, str, FieldShape]]:
    """Return name, type, oneof and origin of each field that has a number."""
    fields: list[tuple[str, str, str, FieldShape]] = []
    for field in message.fields:
        if isinstance(field.shape, ChoiceShape):
            fields.extend((name, kind, field.name, field) for name, kind in field.shape.variants)
        else:
            fields.append((field.name, proto_type(field.shape), "", field))
    names = [name for name, *_ in fields]
    oneofs = {oneof for _, _, oneof, _ in fields if oneof}
    twice = sorted({name for name in names if names.count(name) > 1} | oneofs.intersection(names))
    if twice:
        raise BugError(f"{message.name} has two fields {twice[0]}: rename one, or a variant")
    return fields


def _signature(method: ProtoMethod) -> str:
    stream = "stream " if method.row.shape is ReplyShape.STREAM else ""
    return f"{method.request} -> {stream}{method.reply}"


# Writing.


def made(schema: ProtoSchema, lock: Lock) -> dict[str, str]:
    """Return the files of a schema, by their names for protoc."""
    files = {f"{FOLDER}/messages.proto": _messages_file(schema, lock)}
    for name, methods in schema.services.items():
        files[f"{FOLDER}/{snake(name)}.proto"] = _service_file(name, methods)
    return files


def _messages_file(schema: ProtoSchema, lock: Lock) -> str:
    names = names_of(schema)
    parts = [HEAD, 'import "google/protobuf/struct.proto";\n']
    parts.extend(_message(one, names[one.name], lock) for one in schema.messages.values())
    for name, cls in schema.enums.items():
        wanted = names[name]
        numbers = numbered(name, wanted, lock, first=0)
        lines = [*_comment(" ".join((cls.__doc__ or "").split())), f"enum {name} {{"]
        lines += _reserved_lines(reserved(name, wanted, lock))
        said = ["Not given.", *(f'"{member.value}" in JSON.' for member in cls)]
        for one, text in zip(wanted, said, strict=True):
            lines += [*_comment(text, "  "), f"  {one} = {numbers[one]};"]
        parts.append("\n".join([*lines, "}", ""]))
    return "\n".join(parts)


def _message(message: ProtoMessage, wanted: Mapping[str, str], lock: Lock) -> str:
    numbers = numbered(message.name, wanted, lock, first=1)
    lines = [*_comment(_words(message.cls)), f"message {message.name} {{"]
    lines += _reserved_lines(reserved(message.name, wanted, lock))
    inside = ""
    for name, kind, oneof, field in flat_fields(message):
        if inside and oneof != inside:
            lines.append("  }")
        if oneof and oneof != inside:
            lines += [*_comment(_comment_on(message, field), "  "), f"  oneof {oneof} {{"]
        inside = oneof
        if oneof:
            lines += [
                *_comment(f"If it is {kind}.", "    "),
                f"    {kind} {name} = {numbers[name]};",
            ]
        else:
            label = "optional " if _is_plain(kind) else ""
            lines += [
                *_comment(_comment_on(message, field), "  "),
                f"  {label}{kind} {name} = {numbers[name]};",
            ]
    if inside:
        lines.append("  }")
    return "\n".join([*lines, "}", ""])


def _is_plain(kind: str) -> bool:
    """Say whether presence must be asked for; messages always have it, lists and maps never."""
    return not kind.startswith(("repeated ", "map<", "google."))


def _reserved_lines(gone: Mapping[int, str]) -> list[str]:
    if not gone:
        return []
    names = ", ".join(f'"{name}"' for name in gone.values())
    return [f"  reserved {', '.join(map(str, gone))};", f"  reserved {names};"]


def _service_file(name: str, methods: Collection[ProtoMethod]) -> str:
    # Inside of a service the name of a method hides that of a message.
    hidden = {method.name: f".{PACKAGE}.{method.name}" for method in methods}
    lines = [*_comment(SERVICES[name][0]), f"service {name} {{"]
    for method in methods:
        row = method.row
        stream = "stream " if row.shape is ReplyShape.STREAM else ""
        again = "May be repeated." if row.idempotent else "Look before you repeat it."
        lines += _comment(f"{row.description} Needs the right to {row.right}. {again}", "  ")
        request, reply = (hidden.get(one, one) for one in (method.request, method.reply))
        lines.append(f"  rpc {method.name}({request}) returns ({stream}{reply});")
    imports = f'import "{FOLDER}/messages.proto";\n'
    return "\n".join([HEAD, imports, *lines, "}", ""])


# Comments: what a docstring says of a field, and what its type does.


def _words(cls: type | None) -> str:
    if cls is None:
        return "Stands for its one field, where that cannot stand by itself."
    return " ".join((cls.__doc__ or "").split())


def _comment_on(message: ProtoMessage, shape: FieldShape) -> str:
    if message.cls is None or (field := shape.source) is None:
        return "What it holds."
    kind, is_nullable = without_none(field.type)
    is_money = "Money" in repr(get_type_hints(message.cls, include_extras=True)[field.name])
    words = _words(message.cls)
    parts = re.split(r"(?<=[.;])\s+", words)
    said = [part.rstrip(".;") for part in parts if f"`{field.encode_name}`" in part]
    facts = [f"{one[:1].upper()}{one[1:]}." for one in said]
    if is_money:
        facts.append("In nano-dollars.")
    elif field.encode_name.endswith("_ms"):
        facts.append("In milliseconds.")
    facts.extend(_bounds(kind))
    facts.append(_when_absent(field, is_nullable))
    return " ".join(fact for fact in facts if fact)


def _bounds(kind: inspect.Type) -> list[str]:
    match kind:
        case inspect.StrType(min_length=least, max_length=most):
            return _between(least, most, " characters")
        case inspect.IntType(ge=least, le=most):
            return _between(least, most, "")
        case _:
            return []


def _between(least: int | None, most: int | None, unit: str) -> list[str]:
    if most is None:
        return [] if least is None else [f"At least {least}{unit}."]
    return [f"{least} to {most}{unit}." if least is not None else f"At most {most}{unit}."]


def _when_absent(field: inspect.Field, is_nullable: bool) -> str:
    if field.required:
        return "May be absent." if is_nullable else "Required."
    default = default_of(field)
    if default is NODEFAULT:
        return "Left as it is if absent."
    if default is None:
        return "Absent if there is none."
    if isinstance(default, Struct):
        return "May be absent."
    return f"By default {msgspec_json.encode(default).decode()}."


def _comment(text: str, indent: str = "") -> list[str]:
    lead = f"{indent}// "
    return textwrap.wrap(text, WIDTH, initial_indent=lead, subsequent_indent=lead)


def main(words: list[str]) -> int:
    """Write the files, unless they would break clients."""
    schema, old = kernel_schema(), committed()
    lock = lock_of(old)
    faults = broken(schema, lock)
    if faults and "--accept-changes" not in words:
        print("Clients out there would break:", *faults, sep="\n  ")
        print("If that is meant: python tools/make_protos.py --accept-changes")
        return 1
    files = made(schema, lock)
    for name in old.keys() - files.keys():
        (HOME / name).unlink()
    for name, text in files.items():
        (HOME / name).parent.mkdir(parents=True, exist_ok=True)
        (HOME / name).write_text(text, encoding="utf-8")
    (HOME / DESCRIPTORS).write_bytes(compiled(files))
    print(f"{len(files)} files, {len(schema.messages)} messages, {len(schema.enums)} enums")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
