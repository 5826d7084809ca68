"""Files of nodes, `.vsp`: strict YAML with line numbers, checked and made into a program.

What is wrong is told as `FILE:LINE: what, why, what to write`. Tags, anchors, aliases, ambiguous
scalars and what is too large or too deep are refused by the reader that files of tools have, too.
Decimals are written in quotes: a number with a point is a float to YAML, and none is taken here.

What a step asks of the world needs a capability that the node declares; one that nothing uses is
refused as well, since the node would be given a right for nothing.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias, TypeVar

from msgspec import UNSET, Struct

from vegakit.contracts import (
    CAPABILITIES,
    EFFECTS,
    HANDLED,
    REMOTE,
    ArrayType,
    Clause,
    EffectContext,
    EnumType,
    IntegerType,
    NamedValue,
    NameScope,
    NodeInput,
    NodeProblem,
    NodeProgram,
    NodeRules,
    NodeStep,
    NodeType,
    RecordType,
    StateRecords,
    TextType,
    WrittenLine,
    capabilities_of,
    check_bounds,
    clause_of,
    covers_capability,
    name_fault,
    parse_type,
    read_value,
    record_clauses,
    show_type,
    step_effect,
    step_expression,
    substituted,
    tree_capability,
    walk,
)
from vegakit.errors import UserError, did_you_mean
from vegakit.tools import ToolFileProblem, YamlNode, convert_node, read_yaml
from vegakit.vesper.node_tables import InputTable, NodeTable, RecordTable, StateTable, StepTable

T = TypeVar("T")
NODE_SUFFIX = ".vsp"
_RECORD_NAME = re.compile("[A-Z][A-Za-z0-9]{0,62}")


class NodeFile(Struct, frozen=True):
    """A node that was read, with the file it came from."""

    path: str
    table: NodeTable
    program: NodeProgram


FindNode: TypeAlias = Callable[[str], NodeProgram]
"""Returns the node of an id, for steps that call it; raises `UserError` if there is none."""


def load_node(path: Path, find: FindNode | None = None) -> NodeFile:
    """Read a node, or raise a `UserError` with its file and line. The nodes that it calls are those
    of the same folder, unless `find` says where."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(
            f"{path} cannot be read: {error.strerror}; name a {NODE_SUFFIX} file"
        ) from error
    return parse_node(content, str(path), find or _FolderNodes(path.parent, (path,)).find)


class _FolderNodes:
    """The nodes beside a file, by id. `above` are the files that are being read: a node that is
    among them calls itself."""

    def __init__(self, folder: Path, above: tuple[Path, ...]) -> None:
        self._folder, self._above = folder, above

    def find(self, node_id: str) -> NodeProgram:
        declared = re.compile(
            rf"^node_id:\s*['\"]?{re.escape(node_id)}['\"]?\s*$".encode(), re.MULTILINE
        )
        for path in sorted(filter(Path.is_file, self._folder.glob(f"*{NODE_SUFFIX}"))):
            content = path.read_bytes()
            if not declared.search(content):
                continue
            if path in self._above:
                raise UserError(f"{node_id} is called while it runs; take one of the calls out")
            inner = _FolderNodes(self._folder, (*self._above, path))
            return parse_node(content, str(path), inner.find).program
        raise UserError(f"there is no node {node_id[:80]!a} in {self._folder}; put its file there")


def _find_nothing(node_id: str) -> NodeProgram:
    raise UserError(
        f"{node_id[:80]!a} cannot be called from here: the file of this node is unknown"
    )


def parse_node(content: bytes, path: str, find: FindNode = _find_nothing) -> NodeFile:
    """Return the node in the content of a file."""
    if not content.strip():
        raise UserError(f"{path}:1: the file is empty; begin with node_id:")
    try:
        written = read_yaml(content)
        table = convert_node(NodeTable, written)
        return NodeFile(path, table, _NodeCompiler(table, written, find).program())
    except (NodeProblem, ToolFileProblem) as problem:
        raise UserError(f"{path}:{problem.line}: {problem}") from None


def find_nodes(places: list[Path]) -> list[Path]:
    """Return the files that are named, and those in folders that are named, in order."""
    found = list[Path]()
    for place in places:
        found += (
            sorted(filter(Path.is_file, place.rglob(f"*{NODE_SUFFIX}")))
            if place.is_dir()
            else [place]
        )
    if not found:
        raise UserError(
            f"there is no {NODE_SUFFIX} file in {', '.join(map(str, places))}; name one"
        )
    return found


class _NodeCompiler:
    """Makes a program of the tables, with the lines of the file in what it says."""

    def __init__(self, table: NodeTable, written: YamlNode, find: FindNode) -> None:
        self._table, self._written, self._find = table, written, find
        self._states: dict[str, StateRecords] = {}
        self._callees: dict[str, NodeProgram] = {}
        self._records: dict[str, RecordType] = {}
        self._constraints: dict[str, list[Clause]] = {}

    def program(self) -> NodeProgram:
        table = self._table
        for name, record in table.types.items():
            self._add_record("types", name, name, record)
        for name, state in table.state.items():
            self._add_state(name, state)
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
        touched = self._touched(steps)
        old |= {name: NamedValue(kind, f"old({name})") for name, kind in touched.items()}
        after = [*self._after(outputs, touched, NameScope({**names, **outputs, **touched}, old))]
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
            (*self._states.values(),),
            self._rules(inputs, outputs),
            (*self._callees.values(),),
        )
        self._check_rights(made)
        return check_bounds(made, self._line("flow"))

    def _line(self, *keys: str) -> int:
        node = self._written
        for key in keys:
            node = node.child(key)
        return node.line

    def _type(self, text: str, line: int) -> NodeType:
        return _told(line, lambda: parse_type(text, self._records))

    def _rules(self, inputs: list[NodeInput], outputs: Mapping[str, NodeType]) -> NodeRules:
        security, names = self._table.security, [each.name for each in inputs]
        fields = [
            f"{name}.{field}"
            for name, each in self._states.items()
            for field, _ in each.record.fields
        ]
        known = [*dict.fromkeys([*names, *outputs]), *fields]
        sensitive = security.sensitive_data
        if isinstance(sensitive, bool):
            sensitive = (*known,) if sensitive else ()
        for name in sensitive:
            if name not in known:
                raise NodeProblem(
                    self._line("security", "sensitive_data"),
                    f"{name[:40]!a} is no input, output or field of state; "
                    f"{did_you_mean(name, known)}",
                )
        timeout = self._table.performance.timeout_seconds
        return NodeRules(
            security.capabilities_required,
            security.denied_capabilities,
            sensitive,
            security.audit_level,
            self._idempotency(inputs),
            0 if timeout is UNSET else timeout,
        )

    def _idempotency(self, inputs: list[NodeInput]) -> str:
        if self._table.idempotent is UNSET:
            return ""
        key, line = self._table.idempotent.key, self._line("idempotent", "key")
        kind = next((each.type for each in inputs if each.name == key), None)
        if not isinstance(kind, TextType):
            raise NodeProblem(line, f"{key[:40]!a} is no input of type string; name one")
        if not self._states:
            raise NodeProblem(line, "a node without state changes nothing twice; take this out")
        return key

    def _check_rights(self, node: NodeProgram) -> None:
        """Check that a node declares what it uses, uses what it declares, and denies none of it."""
        security, place = self._table.security, self._written.child("security")
        for key in ("capabilities_required", "denied_capabilities"):
            for written in _lines(place.child(key), getattr(security, key)):
                try:
                    tree_capability(written.text)
                except KeyError:
                    near = did_you_mean(written.text, CAPABILITIES)
                    raise NodeProblem(
                        written.line, f"there is no capability {written.text[:60]!a}; {near}"
                    ) from None
        used = capabilities_of(node)
        for name, step in used:
            if not any(covers_capability(each, name) for each in security.capabilities_required):
                raise NodeProblem(
                    step.line if step in node.steps else self._line("flow"),
                    f"step {step.name} needs {name}; declare it: "
                    f"security: {{capabilities_required: [{name}]}}",
                )
            if any(covers_capability(each, name) for each in security.denied_capabilities):
                raise NodeProblem(
                    self._line("security", "denied_capabilities"),
                    f"step {step.name} needs {name}, which is denied; take out one of both",
                )
        for each in security.capabilities_required:
            if not any(covers_capability(each, name) for name, _ in used):
                raise NodeProblem(
                    self._line("security", "capabilities_required"),
                    f"this node needs no {each[:60]!a}: none of its steps uses it; take it out",
                )

    def _add_state(self, name: str, state: StateTable) -> None:
        line = self._line("state", name)
        self._check_name(name, [*self._table.inputs, *self._table.outputs.success], line)
        kind = "".join(part.capitalize() for part in name.split("_"))
        if kind in self._records:
            raise NodeProblem(line, f"{kind} is a record of types, too; name the state otherwise")
        self._add_record("state", name, kind, state)
        key = self._records[kind].field(state.key)
        if not isinstance(key, TextType | IntegerType):
            raise NodeProblem(
                self._line("state", name, "key"),
                f"{state.key[:40]!a} is no field of type string or integer; name one",
            )
        table = name if state.table is UNSET else state.table
        if any(each.table == table for each in self._states.values()):
            raise NodeProblem(line, f"the table {table} is that of another state; name it once")
        self._states[name] = StateRecords(name, table, state.key, self._records[kind])

    def _touched(self, steps: list[NodeStep]) -> dict[str, NodeType]:
        """Return the names under which clauses see the records that a run touched."""
        counts = Counter(step.effect.state for step in steps if step.effect is not None)
        return {
            name: ArrayType(state.record, max(1, counts[name]))
            for name, state in self._states.items()
        }

    def _add_record(
        self, section: str, key: str, name: str, record: RecordTable | StateTable
    ) -> None:
        line = self._line(section, key)
        if not _RECORD_NAME.fullmatch(name):
            raise NodeProblem(line, f"{name[:40]!a} is no name of a record; write it as LineItem")
        fields = list[tuple[str, NodeType]]()
        for field, text in record.fields.items():
            at = self._line(section, key, "fields", field)
            self._check_name(field, [], at)
            # A record only knows those above it, so none contains itself.
            fields.append((field, self._type(text, at)))
        self._records[name] = RecordType((*fields,), name)
        place = self._written.child(section).child(key).child("constraints")
        self._constraints[name] = [
            clause_of(f"constraint of {key}", written, NameScope(dict(fields)))
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
        yield from self._invariants(scope, about_state=False)

    def _after(
        self, outputs: Mapping[str, NodeType], touched: Mapping[str, NodeType], scope: NameScope
    ) -> Iterator[Clause]:
        for name, kind in (*outputs.items(), *touched.items()):
            yield from record_clauses(NamedValue(kind, name), self._constraints)
        inputs = {name: scope.names[name] for name in self._table.inputs}
        yield from self._invariants(NameScope(inputs), about_state=False)
        for clause in self._invariants(
            NameScope({**inputs, **touched}, scope.old), about_state=True
        ):
            # It held before, too: of the same records, as they were read.
            names = {name: NamedValue(kind, f"old({name})") for name, kind in touched.items()}
            if not any(
                isinstance(part, NamedValue) and part.name.startswith("old(")
                for part in walk(clause.expression)
            ):
                yield Clause(
                    f"{clause.kind} before",
                    clause.text,
                    clause.line,
                    substituted(clause.expression, names),
                )
            yield clause
        yield from self._clauses("postconditions", "postcondition", scope)

    def _invariants(self, scope: NameScope, *, about_state: bool) -> Iterator[Clause]:
        """Yield the invariants about the records of the state, or the others."""
        place = self._written.child("contracts").child("invariants")
        words = re.compile(rf"\b({'|'.join(map(re.escape, self._states))})\b")
        for written in _lines(place, self._table.contracts.invariants):
            if bool(self._states and words.search(written.text)) is about_state:
                yield clause_of("invariant", written, scope)

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
            taken += self._states
            self._check_name(table.step, taken, place.child("step").line)
            steps.append(self._step(place, table, scope, outputs, codes))
            if (made := steps[-1].result) is not None:
                # Under its declared type: a narrower one would surprise whoever reads the file.
                scope = scope.having(table.step, outputs.get(table.step, made))
        self._check_order(steps)
        values = {step.name for step in steps if step.result is not None}
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
        effect = made = None
        if table.operation in EFFECTS:
            world = EffectContext(self._states, self._found)
            effect = step_effect(operation, parameters, scope, wanted, world)
        else:
            made = step_expression(operation, parameters, scope, wanted)
        return NodeStep(
            table.step, table.operation, place.line, made, (*guards,), table.error_handling, effect
        )

    def _found(self, node_id: str) -> NodeProgram:
        """Return a node that a step calls."""
        node = self._find(node_id)
        if any(step.operation in REMOTE for step in node.steps):
            raise UserError(
                f"{node_id} waits for others (http, agent) and cannot be called inside of a "
                "transaction; call it first, and give this node what it says"
            )
        self._callees[node_id] = node
        return node

    def _check_order(self, steps: list[NodeStep]) -> None:
        """No record stays locked while others are waited for."""
        local = ""
        for step in steps:
            if step.effect is not None and step.operation in REMOTE and local:
                raise NodeProblem(
                    step.line,
                    f"{step.operation} waits for others, and step {local} has locked records by "
                    "then; put it before, or into another node",
                )
            if step.effect is not None and (step.effect.state or step.operation in ("sql", "call")):
                local = local or step.name

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
