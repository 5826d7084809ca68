"""Files of nodes, `.vsp`: strict YAML with line numbers, checked and made into a program.

What is wrong is told as `FILE:LINE: what, why, what to write`. Tags, anchors, aliases, ambiguous
scalars and what is too large or too deep are refused by the reader that files of tools have, too.
Decimals are written in quotes: a number with a point is a float to YAML, and none is taken here.

Operations have no effects in this version, so a node that claims capabilities is refused: it would
be given rights that nothing in it uses.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from vegakit.contracts import (
    HANDLED,
    OPERATIONS,
    Clause,
    EnumType,
    NamedValue,
    NameScope,
    NodeInput,
    NodeProblem,
    NodeProgram,
    NodeStep,
    NodeType,
    RecordType,
    WrittenLine,
    check_bounds,
    clause_of,
    name_fault,
    parse_type,
    read_value,
    record_clauses,
    show_type,
    step_expression,
)
from vegakit.errors import UserError, did_you_mean
from vegakit.tools import ToolFileProblem, YamlNode, convert_node, read_yaml

T = TypeVar("T")
NODE_SUFFIX = ".vsp"
_RECORD_NAME = re.compile("[A-Z][A-Za-z0-9]{0,62}")

TypeText: TypeAlias = Annotated[str, Meta(min_length=1, max_length=500, examples=["decimal<2>"])]
ExpressionText: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=4_000, examples=["amount > 0"])
]
Expressions: TypeAlias = Annotated[tuple[ExpressionText, ...], Meta(max_length=64)]
Names: TypeAlias = Annotated[tuple[str, ...], Meta(max_length=64)]


class _NodeTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    pass


class MetadataTable(_NodeTable, frozen=True, kw_only=True):
    """The author of a node, its date, the nodes it depends on, and words to find it by."""

    author: str = ""
    created: Annotated[str, Meta(examples=["2026-01-31"])] = ""
    dependencies: Annotated[Names, Meta(examples=[["rate_card_v1"]])] = ()
    tags: Names = ()


class RecordTable(_NodeTable, frozen=True, kw_only=True):
    """A record: its fields, and what holds of them. Constraints name the fields."""

    fields: Annotated[dict[str, TypeText], Meta(min_length=1, max_length=64)]
    constraints: Expressions = ()


class InputTable(_NodeTable, frozen=True, kw_only=True):
    """An input, and what holds of it. With a default it may be left out."""

    type: TypeText
    constraints: Expressions = ()
    required: bool = True
    default: str | int | bool | list[Any] | dict[str, Any] | UnsetType = UNSET


class ErrorTable(_NodeTable, frozen=True, kw_only=True):
    """The codes of the errors that a node ends with."""

    error_code: Annotated[str, Meta(examples=["enum[insufficient_funds]"])]
    message: TypeText = "string"


class OutputsTable(_NodeTable, frozen=True, kw_only=True):
    """The results of a node: outputs by name and type, or an error."""

    success: Annotated[dict[str, TypeText], Meta(min_length=1, max_length=64)]
    error: ErrorTable | UnsetType = UNSET


class ContractsTable(_NodeTable, frozen=True, kw_only=True):
    """Preconditions hold of inputs, postconditions of inputs and outputs, invariants of inputs
    before and after."""

    preconditions: Expressions = ()
    postconditions: Expressions = ()
    invariants: Expressions = ()


class StepTable(_NodeTable, frozen=True, kw_only=True):
    """A step. Its guards are checked first; `error_handling` gives codes for what goes wrong."""

    step: Annotated[str, Meta(examples=["subtotal"])]
    operation: Annotated[str, Meta(examples=["compute"])]
    type: TypeText | UnsetType = UNSET
    parameters: Annotated[dict[str, str | int | bool], Meta(max_length=8)] = {}
    guards: Expressions = ()
    error_handling: Annotated[dict[str, str], Meta(max_length=8)] = {}


class SecurityTable(_NodeTable, frozen=True, kw_only=True):
    """The capabilities that a node needs and those that it must never have."""

    capabilities_required: Names = ()
    denied_capabilities: Names = ()


class NodeTable(_NodeTable, frozen=True, kw_only=True):
    """A node."""

    node_id: Annotated[
        str, Meta(pattern=r"^[a-z][a-z0-9_]{0,80}_v[1-9][0-9]{0,5}$(?!\n)", examples=["pay_v1"])
    ]
    type: Annotated[str, Meta(min_length=1, max_length=100, examples=["business_rule"])]
    intent: Annotated[str, Meta(min_length=1, max_length=2_000, examples=["What it is for."])]
    metadata: MetadataTable = MetadataTable()
    types: Annotated[dict[str, RecordTable], Meta(max_length=64)] = {}
    inputs: Annotated[dict[str, InputTable], Meta(max_length=64)]
    outputs: OutputsTable
    contracts: ContractsTable = ContractsTable()
    flow: Annotated[tuple[StepTable, ...], Meta(min_length=1, max_length=200)]
    security: SecurityTable = SecurityTable()


class NodeFile(Struct, frozen=True):
    """A node that was read, with the file it came from."""

    path: str
    table: NodeTable
    program: NodeProgram


def node_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a node, for editors and for other programs."""
    made = msgspec.json.schema(NodeTable)
    step = made["$defs"]["StepTable"]["properties"]
    step["operation"] = {**step["operation"], "enum": [*OPERATIONS]}
    step["error_handling"] = {**step["error_handling"], "propertyNames": {"enum": [*HANDLED]}}
    named = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "node.vsp"}
    return msgspec.json.decode(msgspec.json.encode(named | made))


def load_node(path: Path) -> NodeFile:
    """Read a node, or raise a `UserError` with its file and line."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(
            f"{path} cannot be read: {error.strerror}; name a {NODE_SUFFIX} file"
        ) from error
    return parse_node(content, str(path))


def parse_node(content: bytes, path: str) -> NodeFile:
    """Return the node in the content of a file."""
    if not content.strip():
        raise UserError(f"{path}:1: the file is empty; begin with node_id:")
    try:
        written = read_yaml(content)
        table = convert_node(NodeTable, written)
        return NodeFile(path, table, _NodeCompiler(table, written).program())
    except (NodeProblem, ToolFileProblem) as problem:
        raise UserError(f"{path}:{problem.line}: {problem}") from None


def find_nodes(places: list[Path]) -> list[Path]:
    """Return the files that are named, and those in folders that are named, in order."""
    found = list[Path]()
    for place in places:
        found += sorted(place.rglob(f"*{NODE_SUFFIX}")) if place.is_dir() else [place]
    if not found:
        raise UserError(
            f"there is no {NODE_SUFFIX} file in {', '.join(map(str, places))}; name one"
        )
    return found


class _NodeCompiler:
    """Makes a program of the tables, with the lines of the file in what it says."""

    def __init__(self, table: NodeTable, written: YamlNode) -> None:
        self._table, self._written = table, written
        self._records: dict[str, RecordType] = {}
        self._constraints: dict[str, list[Clause]] = {}

    def program(self) -> NodeProgram:
        table = self._table
        self._check_security()
        for name, record in table.types.items():
            self._add_record(name, record)
        inputs = [self._input(name, each) for name, each in table.inputs.items()]
        outputs = {
            name: self._type(text, self._line("outputs", "success", name))
            for name, text in table.outputs.success.items()
        }
        codes = self._codes()
        names = {each.name: each.type for each in inputs}
        changed = self._changed(names, outputs)
        before = [*self._before(inputs, NameScope(names))]
        steps = self._steps(names, outputs, changed, codes)
        old = {
            name: NamedValue(kind, f"old({name})" if name in changed else name)
            for name, kind in names.items()
        }
        after = [*self._after(outputs, NameScope({**names, **outputs}, old))]
        made = NodeProgram(
            table.node_id,
            table.type,
            table.intent,
            (*inputs,),
            (*outputs.items(),),
            codes,
            (*before,),
            (*steps,),
            (*after,),
            (*self._records.values(),),
        )
        return check_bounds(made, self._line("flow"))

    def _line(self, *keys: str) -> int:
        node = self._written
        for key in keys:
            node = node.child(key)
        return node.line

    def _type(self, text: str, line: int) -> NodeType:
        return _told(line, lambda: parse_type(text, self._records))

    def _check_security(self) -> None:
        if needed := self._table.security.capabilities_required:
            raise NodeProblem(
                self._line("security", "capabilities_required"),
                f"this node needs no {needed[0][:60]!a}: none of its operations has effects; "
                "take capabilities_required out",
            )

    def _add_record(self, name: str, record: RecordTable) -> None:
        line = self._line("types", name)
        if not _RECORD_NAME.fullmatch(name):
            raise NodeProblem(line, f"{name[:40]!a} is no name of a record; write it as LineItem")
        fields = list[tuple[str, NodeType]]()
        for field, text in record.fields.items():
            at = self._line("types", name, "fields", field)
            self._check_name(field, [], at)
            # A record only knows those above it, so none contains itself.
            fields.append((field, self._type(text, at)))
        self._records[name] = RecordType((*fields,), name)
        place = self._written.child("types").child(name).child("constraints")
        self._constraints[name] = [
            clause_of(f"constraint of {name}", written, NameScope(dict(fields)))
            for written in _lines(place, record.constraints)
        ]

    def _check_name(self, name: str, taken: list[str], line: int) -> None:
        if fault := name_fault(name, taken):
            raise NodeProblem(line, fault)

    def _input(self, name: str, table: InputTable) -> NodeInput:
        line = self._line("inputs", name)
        self._check_name(name, [], line)
        kind = self._type(table.type, self._line("inputs", name, "type"))
        if table.default is UNSET:
            if not table.required:
                raise NodeProblem(line, f"{name} is not required and has no default; give one")
            return NodeInput(name, kind)
        at = self._line("inputs", name, "default")
        default = _told(at, lambda: read_value(kind, table.default, "the default"))
        return NodeInput(name, kind, default, has_default=True)

    def _codes(self) -> tuple[str, ...]:
        error = self._table.outputs.error
        if error is UNSET:
            return ()
        line = self._line("outputs", "error", "error_code")
        kind = self._type(error.error_code, line)
        if not isinstance(kind, EnumType):
            raise NodeProblem(line, "error_code is an enum of codes: enum[insufficient_funds]")
        return kind.choices

    def _changed(self, inputs: Mapping[str, NodeType], outputs: Mapping[str, NodeType]) -> set[str]:
        changed = {*inputs} & {*outputs}
        for name in sorted(changed):
            if inputs[name] != outputs[name]:
                raise NodeProblem(
                    self._line("outputs", "success", name),
                    f"{name} is an input of type {show_type(inputs[name])}, and a changed input "
                    "keeps its type; give the output another name, or the same type",
                )
        return changed

    def _before(self, inputs: list[NodeInput], scope: NameScope) -> Iterator[Clause]:
        for each in inputs:
            yield from record_clauses(NamedValue(each.type, each.name), self._constraints)
        for each in inputs:
            place = self._written.child("inputs").child(each.name).child("constraints")
            for written in _lines(place, self._table.inputs[each.name].constraints):
                yield clause_of(f"constraint of {each.name}", written, scope)
        yield from self._clauses("preconditions", "precondition", scope)
        yield from self._clauses("invariants", "invariant", scope)

    def _after(self, outputs: Mapping[str, NodeType], scope: NameScope) -> Iterator[Clause]:
        for name, kind in outputs.items():
            yield from record_clauses(NamedValue(kind, name), self._constraints)
        inputs = {name: scope.names[name] for name in self._table.inputs}
        yield from self._clauses("invariants", "invariant", NameScope(inputs))
        yield from self._clauses("postconditions", "postcondition", scope)

    def _clauses(self, key: str, kind: str, scope: NameScope) -> Iterator[Clause]:
        place = self._written.child("contracts").child(key)
        for written in _lines(place, getattr(self._table.contracts, key)):
            yield clause_of(kind, written, scope)

    def _steps(
        self,
        inputs: Mapping[str, NodeType],
        outputs: Mapping[str, NodeType],
        changed: set[str],
        codes: tuple[str, ...],
    ) -> list[NodeStep]:
        scope, steps = NameScope(inputs), list[NodeStep]()
        places = self._written.child("flow").value
        assert isinstance(places, list)
        for place, table in zip(places, self._table.flow, strict=True):
            taken = [step.name for step in steps] + [each for each in inputs if each not in changed]
            self._check_name(table.step, taken, place.child("step").line)
            steps.append(self._step(place, table, scope, outputs, codes))
            if (made := steps[-1].expression) is not None:
                # Under its declared type: a narrower one would surprise whoever reads the file.
                scope = scope.having(table.step, outputs.get(table.step, made.type))
        values = {step.name for step in steps if step.expression is not None}
        for name in outputs:
            if name not in values:
                raise NodeProblem(
                    self._line("outputs", "success", name),
                    f"no step gives {name}; {did_you_mean(name, values)}",
                )
        return steps

    def _step(
        self,
        place: YamlNode,
        table: StepTable,
        scope: NameScope,
        outputs: Mapping[str, NodeType],
        codes: tuple[str, ...],
    ) -> NodeStep:
        wanted = outputs.get(table.step)
        if table.type is not UNSET:
            declared = self._type(table.type, place.child("type").line)
            if wanted not in (None, declared):
                raise NodeProblem(
                    place.child("type").line, f"the output {table.step} has another type"
                )
            wanted = declared
        parameters = {
            key: WrittenLine(_spelled(value), place.child("parameters").child(key).line)
            for key, value in table.parameters.items()
        }
        operation = WrittenLine(table.operation, place.child("operation").line)
        guards = [
            clause_of("guard", written, scope)
            for written in _lines(place.child("guards"), table.guards)
        ]
        self._check_errors(place, table, codes)
        made = step_expression(operation, parameters, scope, wanted)
        return NodeStep(
            table.step, table.operation, place.line, made, (*guards,), table.error_handling
        )

    def _check_errors(self, place: YamlNode, table: StepTable, codes: tuple[str, ...]) -> None:
        handling = place.child("error_handling")
        for cause, code in table.error_handling.items():
            line = handling.child(cause).line
            if cause not in HANDLED:
                raise NodeProblem(
                    line, f"{cause[:40]!a} does not happen; {did_you_mean(cause, HANDLED)}"
                )
            if code not in codes:
                raise NodeProblem(
                    line,
                    f"{code[:40]!a} is no error code of this node; {did_you_mean(code, codes)}",
                )
        if table.guards and "guard" not in table.error_handling:
            raise NodeProblem(
                place.child("guards").line,
                "say which error a guard gives: error_handling: {guard: CODE}",
            )
        if table.operation == "check" and not table.guards:
            raise NodeProblem(place.line, "check without guards checks nothing; add guards")


def _spelled(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _lines(place: YamlNode, texts: tuple[str, ...]) -> Iterator[WrittenLine]:
    """Yield texts with their lines."""
    if isinstance(place.value, list) and len(place.value) == len(texts):
        for part, text in zip(place.value, texts, strict=True):
            yield WrittenLine(text, part.line)


def _told(line: int, made: Callable[[], T]) -> T:
    """Return what a function gives, and what it refuses with a line."""
    try:
        return made()
    except UserError as error:
        raise NodeProblem(line, str(error)) from None
