"""Operations: what a step computes, and what it asks of the world (pure).

| operation    | parameters                    | needs                      | fails with           |
|--------------|-------------------------------|----------------------------|----------------------|
| `read`       | `from key`                    | `database.read.TABLE`      | missing              |
| `write`      | `to key set`                  | `database.write.TABLE`     | missing              |
| `insert`     | `into key value`              | `database.write.TABLE`     | exists               |
| `transition` | `key change`                  | `database.write.TABLE`     | missing, wrong_state |
| `sql`        | `query values`                | `database.read`            | failed               |
| `call`       | `node inputs`                 | what that node needs       | failed               |
| `http`       | `method url body item secret` | `network.http_client.HOST` | failed               |
| `secret`     | `name`                        | `secrets.read.NAME`        |                      |
| `agent`      | `model prompt given`          | `agent.ask`                | failed               |

Hosts, queries, prompts and names of secrets stand in the file and are never computed, so that what
a node may reach is known before it runs. A secret is a reference, which only the host resolves.
"""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from vegakit.contracts.checker import NameScope, fit, name_fault
from vegakit.contracts.node_types import (
    BOOLEAN,
    SCALARS,
    TEXT,
    ArrayType,
    CollectionType,
    DecimalType,
    EnumType,
    IntegerType,
    MapType,
    NodeType,
    RecordType,
    TextType,
    TimestampType,
    show_type,
)
from vegakit.contracts.nodes import (
    NodeProblem,
    NodeProgram,
    NodeStep,
    StateRecords,
    StepEffect,
    WrittenLine,
    expression_of,
)
from vegakit.contracts.typed import (
    Expression,
    ItemLoop,
    ItemOf,
    LoopKind,
    RecordMade,
    item_type,
    most_items,
)
from vegakit.errors import UserError, did_you_mean

# Operations: what a step does, as an expression.

Parameters = Mapping[str, WrittenLine]


class StepContext(NamedTuple):
    """The parts of an operation. `wanted` is the type that the step is declared to have."""

    line: int
    parameters: Parameters
    scope: NameScope
    wanted: NodeType | None

    def value(
        self, key: str, scope: NameScope | None = None, wanted: NodeType | None = None
    ) -> Expression:
        """Return the expression of a parameter."""
        return expression_of(self.parameters[key], scope or self.scope, wanted, key)

    def over(self) -> tuple[Expression, str, NameScope]:
        """Return the collection of a loop, the name of its items, and the scope with it."""
        over, name = self.value("over"), self.name("as")
        if not isinstance(over.type, CollectionType):
            raise NodeProblem(
                self.parameters["over"].line,
                f"over is a {show_type(over.type)}; a collection is needed",
            )
        return over, name, self.scope.having(name, item_type(over.type))

    def name(self, key: str) -> str:
        written = self.parameters[key]
        if fault := name_fault(written.text, self.scope.names):
            raise NodeProblem(written.line, f"{key}: {fault}")
        return written.text


def _compute(step: StepContext) -> Expression:
    return step.value("value", wanted=step.wanted)


def _map(step: StepContext) -> Expression:
    over, name, scope = step.over()
    wanted = step.wanted.item if isinstance(step.wanted, ArrayType) else None
    body = step.value("value", scope, wanted)
    kind = ArrayType(body.type, most_items(over.type))
    return ItemLoop(kind, LoopKind.MAP, name, over, body)


def _sum(step: StepContext) -> Expression:
    over, name, scope = step.over()
    body = step.value("value", scope, step.wanted)
    if not isinstance(body.type, IntegerType | DecimalType):
        raise NodeProblem(step.parameters["value"].line, "only numbers are summed")
    return ItemLoop(body.type, LoopKind.SUM, name, over, body)


def _filter(step: StepContext) -> Expression:
    over, name, scope = step.over()
    kind = _items_of(over)
    return ItemLoop(kind, LoopKind.FILTER, name, over, step.value("where", scope, BOOLEAN))


def _items_of(over: Expression) -> ArrayType:
    assert isinstance(over.type, CollectionType)
    return ArrayType(item_type(over.type), over.type.max_items)


def _sort(step: StepContext) -> Expression:
    over, name, scope = step.over()
    body = step.value("by", scope)
    if not isinstance(body.type, IntegerType | DecimalType | TextType | EnumType | TimestampType):
        raise NodeProblem(step.parameters["by"].line, f"a {show_type(body.type)} has no order")
    order = step.parameters.get("descending", WrittenLine("false", step.line))
    if order.text not in ("true", "false"):
        raise NodeProblem(order.line, "descending is true or false")
    kind = LoopKind.SORT_DESCENDING if order.text == "true" else LoopKind.SORT
    return ItemLoop(_items_of(over), kind, name, over, body)


def _group(step: StepContext) -> Expression:
    over, name, scope = step.over()
    body = step.value("by", scope)
    if not isinstance(body.type, IntegerType | TextType | EnumType):
        raise NodeProblem(step.parameters["by"].line, "groups are by string, integer or enum")
    items = _items_of(over)
    return ItemLoop(MapType(body.type, items, items.max_items), LoopKind.GROUP, name, over, body)


def _reduce(step: StepContext) -> Expression:
    over, name, scope = step.over()
    start = step.value("start", wanted=step.wanted)
    total = step.name("total")
    if total == name:
        raise NodeProblem(step.parameters["total"].line, "as and total are two different names")
    body = step.value("value", scope.having(total, start.type), start.type)
    return ItemLoop(start.type, LoopKind.REDUCE, name, over, body, start, total)


def _lookup(step: StepContext) -> Expression:
    whole = step.value("in")
    match whole.type:
        case MapType(key=key, value=value):
            return ItemOf(value, whole, step.value("key", wanted=key))
        case ArrayType(item=item):
            return ItemOf(item, whole, step.value("key", wanted=IntegerType()))
        case other:
            raise NodeProblem(
                step.parameters["in"].line, f"in is a {show_type(other)}; a map or array is needed"
            )


class OperationRow(NamedTuple):
    """An operation: how its expression is made, the parameters it needs and those it may have."""

    made: Callable[[StepContext], Expression] | None
    needs: tuple[str, ...]
    takes: tuple[str, ...] = ()


OPERATIONS: dict[str, OperationRow] = {
    "compute": OperationRow(_compute, ("value",)),
    "check": OperationRow(None, ()),
    "map": OperationRow(_map, ("over", "as", "value")),
    "filter": OperationRow(_filter, ("over", "as", "where")),
    "reduce": OperationRow(_reduce, ("over", "as", "total", "start", "value")),
    "sort": OperationRow(_sort, ("over", "as", "by"), ("descending",)),
    "group": OperationRow(_group, ("over", "as", "by")),
    "sum": OperationRow(_sum, ("over", "as", "value")),
    "lookup": OperationRow(_lookup, ("in", "key")),
}


def step_expression(
    operation: WrittenLine, parameters: Parameters, scope: NameScope, wanted: NodeType | None
) -> Expression | None:
    """Return what a step computes, of the wanted type; None of one that only guards."""
    if operation.text not in OPERATIONS:
        raise NodeProblem(
            operation.line,
            f"there is no operation {operation.text[:40]!a}; "
            f"{did_you_mean(operation.text, [*OPERATIONS, *EFFECTS])}",
        )
    row = OPERATIONS[operation.text]
    _check_parameters(operation, parameters, row)
    if row.made is None:
        return None
    found = row.made(StepContext(operation.line, parameters, scope, wanted))
    fitted = found if wanted is None else fit(found, wanted)
    if fitted is None:
        raise NodeProblem(
            operation.line,
            f"this step gives a {show_type(found.type)}, and {show_type(wanted or found.type)} is "
            "needed; use ROUND(…) on decimals, or change the type",
        )
    return fitted


def _check_parameters(
    operation: WrittenLine, parameters: Parameters, row: "OperationRow | EffectOperation"
) -> None:
    for key, written in parameters.items():
        if key not in (*row.needs, *row.takes):
            known = did_you_mean(key, (*row.needs, *row.takes))
            raise NodeProblem(written.line, f"{operation.text} takes no {key[:40]!a}; {known}")
    if missing := [key for key in row.needs if key not in parameters]:
        raise NodeProblem(operation.line, f"{operation.text} needs {', '.join(missing)}; add it")


# Operations with effects.


class EffectContext(NamedTuple):
    """A step may ask of these: the records of its node, and other nodes by name."""

    states: Mapping[str, StateRecords]
    find: Callable[[str], NodeProgram]


_CHANGE = re.compile(r"([a-z][a-z0-9_]*)\.([a-z][a-z0-9_]*) +([a-z0-9_, ]+?) *-> *([a-z0-9_]+)")
_URL = re.compile(r"https?://([a-z0-9.-]+)(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?")
_SECRET_NAME = re.compile("[a-z][a-z0-9_]{0,62}")
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
SECRET_PREFIX = "secret:"  # noqa: S105  (what a reference begins with)


def _records(step: StepContext, world: EffectContext, key: str) -> StateRecords:
    written = step.parameters[key]
    if written.text not in world.states:
        raise NodeProblem(
            written.line,
            f"there is no state {written.text[:40]!a}; {did_you_mean(written.text, world.states)}",
        )
    return world.states[written.text]


def _of_records(
    step: StepContext,
    state: StateRecords,
    right: str,
    arguments: tuple[tuple[str, Expression], ...] = (),
    **fixed: str,
) -> StepEffect:
    key = ("key", step.value("key", wanted=state.key_type))
    needs = f"database.{right}.{state.table}"
    named = (("state", state.name), *fixed.items())
    return StepEffect((key, *arguments), state.record, needs, named, state.name)


def _read(step: StepContext, world: EffectContext) -> StepEffect:
    return _of_records(step, _records(step, world, "from"), "read")


def _some_fields(step: StepContext, state: StateRecords, parameter: str) -> RecordMade:
    """Return a record of some fields of the state, each as its type; never of the key, which a
    record keeps for good."""
    written, found = step.parameters[parameter], step.value(parameter)
    kinds = {name: kind for name, kind in state.record.fields if name != state.key}
    if not isinstance(found, RecordMade):
        raise NodeProblem(written.line, f"{parameter} is a record: {{{next(iter(kinds))}: …}}")
    fields = list[tuple[str, Expression]]()
    for name, part in found.fields:
        if name not in kinds:
            why = "is the key and stays" if name == state.key else did_you_mean(name, kinds)
            raise NodeProblem(written.line, f"{parameter} has the field {name[:40]!a}; {why}")
        fitted = fit(part, kinds[name])
        if fitted is None:
            raise NodeProblem(
                written.line,
                f"{name} is a {show_type(kinds[name])}, and this gives {show_type(part.type)}",
            )
        fields.append((name, fitted))
    made = RecordType(tuple((name, part.type) for name, part in fields))
    return RecordMade(made, (*fields,))


def _write(step: StepContext, world: EffectContext) -> StepEffect:
    state = _records(step, world, "to")
    return _of_records(step, state, "write", (("set", _some_fields(step, state, "set")),))


def _insert(step: StepContext, world: EffectContext) -> StepEffect:
    state = _records(step, world, "into")
    value = _some_fields(step, state, "value")
    given = {name for name, _ in value.fields} | {state.key}
    if missing := [name for name, _ in state.record.fields if name not in given]:
        raise NodeProblem(
            step.parameters["value"].line, f"value lacks {', '.join(missing)}; give every field"
        )
    return _of_records(step, state, "write", (("value", value),))


def _transition(step: StepContext, world: EffectContext) -> StepEffect:
    written = step.parameters["change"]
    found = _CHANGE.fullmatch(written.text)
    if found is None:
        raise NodeProblem(
            written.line, f"{written.text[:60]!a} is no change; write orders.status pending -> paid"
        )
    name, field, before, after = found.groups()
    renamed = StepContext(
        step.line, {**step.parameters, "of": WrittenLine(name, written.line)}, step.scope, None
    )
    state = _records(renamed, world, "of")
    kind = state.record.field(field)
    if not isinstance(kind, EnumType):
        raise NodeProblem(written.line, f"{name}.{field} is no enum; a transition is between names")
    befores = [each.strip() for each in before.split(",")]
    for choice in (*befores, after):
        if choice not in kind.choices:
            raise NodeProblem(
                written.line,
                f"{choice[:40]!a} is no {field}; {did_you_mean(choice, kind.choices)}",
            )
    return _of_records(step, state, "write", field=field, before=", ".join(befores), after=after)


def _declared(step: StepContext, why: str) -> NodeType:
    if step.wanted is None:
        raise NodeProblem(step.line, f"say what type {why}: type: decimal<2>, or a record")
    return step.wanted


def _sql(step: StepContext, world: EffectContext) -> StepEffect:
    """A query that reads. Its text is that of the file, and values are bound by name, so that
    nothing that is given can become a part of it."""
    query = step.parameters["query"]
    result = _declared(step, "the rows have")
    if not isinstance(result, ArrayType) or not isinstance(result.item, RecordType):
        raise NodeProblem(step.line, "a query gives rows: type: array<RECORD, 50>")
    values = step.value("values") if "values" in step.parameters else None
    if values is not None and not isinstance(values, RecordMade):
        raise NodeProblem(step.parameters["values"].line, "values is a record: {customer: id}")
    bound = {name for name, _ in values.fields} if values is not None else set[str]()
    names = {*re.findall(r"(?<![:\w]):([a-z][a-z0-9_]*)", query.text)}
    if "?" in query.text or "%" in query.text or ";" in query.text or names != bound:
        raise NodeProblem(
            query.line,
            "a query is one statement with its values as :name, each of them in values and no "
            "other; ? % and ; are not read",
        )
    for name, part in values.fields if values is not None else ():
        if not isinstance(part.type, SCALARS):
            raise NodeProblem(query.line, f"{name} is a {show_type(part.type)}; bind scalars")
    arguments = () if values is None else (("values", values),)
    return StepEffect(arguments, result, "database.read", (("query", query.text),))


def _call(step: StepContext, world: EffectContext) -> StepEffect:
    written, given = step.parameters["node"], step.parameters["inputs"]
    try:
        node = world.find(written.text)
    except UserError as problem:
        raise NodeProblem(written.line, str(problem)) from None
    inputs = _call_inputs(node, step.value("inputs"), given.line)
    return StepEffect(
        (("inputs", inputs),), RecordType(node.outputs), "", (("node", node.node_id),)
    )


def _call_inputs(node: NodeProgram, inputs: Expression, line: int) -> RecordMade:
    """Return the inputs of a call, each as the type that the other node declares."""
    if not isinstance(inputs, RecordMade):
        raise NodeProblem(line, "inputs is a record: {amount: total}")
    kinds = {each.name: each for each in node.inputs}
    parts = dict(inputs.fields)
    for name in parts:
        if name not in kinds:
            raise NodeProblem(
                line,
                f"{node.node_id} has no input {name[:40]!a}; {did_you_mean(name, kinds)}",
            )
    fields = list[tuple[str, Expression]]()
    for name, each in kinds.items():
        if name not in parts:
            if not each.has_default:
                raise NodeProblem(line, f"{node.node_id} needs {name}; give it")
            continue
        fitted = fit(parts[name], each.type)
        if fitted is None:
            raise NodeProblem(
                line,
                f"{name} of {node.node_id} is a {show_type(each.type)}, and this gives "
                f"{show_type(parts[name].type)}",
            )
        fields.append((name, fitted))
    return RecordMade(RecordType(tuple((name, part.type) for name, part in fields)), (*fields,))


def _http(step: StepContext, world: EffectContext) -> StepEffect:
    url, method = step.parameters["url"], step.parameters["method"]
    address = _URL.fullmatch(url.text)
    if address is None:
        raise NodeProblem(
            url.line,
            f"{url.text[:60]!a} is no address; write https://api.example.com/v1/charges, without a "
            "query; a last part that is computed is given as item",
        )
    if method.text not in _METHODS:
        raise NodeProblem(
            method.line, f"no method {method.text[:20]!a}; {did_you_mean(method.text, _METHODS)}"
        )
    arguments = list[tuple[str, Expression]]()
    if "item" in step.parameters:
        item = step.value("item")
        if not isinstance(item.type, TextType | IntegerType | EnumType):
            raise NodeProblem(step.parameters["item"].line, "item is a string or an integer")
        arguments.append(("item", item))
    if "body" in step.parameters:
        arguments.append(("body", step.value("body")))
    if "secret" in step.parameters:
        arguments.append(("secret", step.value("secret", wanted=TEXT)))
    return StepEffect(
        (*arguments,),
        _declared(step, "the answer has"),
        f"network.http_client.{address[1]}{address[2] or ''}",
        (("method", method.text), ("url", url.text)),
    )


def _secret(step: StepContext, world: EffectContext) -> StepEffect:
    written = step.parameters["name"]
    if not _SECRET_NAME.fullmatch(written.text):
        raise NodeProblem(written.line, f"{written.text[:40]!a} names no secret; write stripe_key")
    return StepEffect((), TEXT, f"secrets.read.{written.text}", (("name", written.text),))


def _agent(step: StepContext, world: EffectContext) -> StepEffect:
    fixed = tuple((key, step.parameters[key].text) for key in ("model", "prompt"))
    given = (("given", step.value("given")),) if "given" in step.parameters else ()
    return StepEffect(given, _declared(step, "the answer has"), "agent.ask", fixed)


class EffectOperation(NamedTuple):
    """An operation with an effect: how it is made, its parameters, and the ways it fails."""

    made: Callable[[StepContext, EffectContext], StepEffect]
    needs: tuple[str, ...]
    takes: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()


EFFECTS: dict[str, EffectOperation] = {
    "read": EffectOperation(_read, ("from", "key"), (), ("missing",)),
    "write": EffectOperation(_write, ("to", "key", "set"), (), ("missing",)),
    "insert": EffectOperation(_insert, ("into", "key", "value"), (), ("exists",)),
    "transition": EffectOperation(_transition, ("key", "change"), (), ("missing", "wrong_state")),
    "sql": EffectOperation(_sql, ("query",), ("values",), ("failed",)),
    "call": EffectOperation(_call, ("node", "inputs"), (), ("failed",)),
    "http": EffectOperation(_http, ("method", "url"), ("body", "item", "secret"), ("failed",)),
    "secret": EffectOperation(_secret, ("name",)),
    "agent": EffectOperation(_agent, ("model", "prompt"), ("given",), ("failed",)),
}
REMOTE = frozenset({"http", "agent"})
"""Operations that wait for others. They stand before all that touch records, since no record stays
locked while somebody else is waited for."""


def step_effect(
    operation: WrittenLine,
    parameters: Parameters,
    scope: NameScope,
    wanted: NodeType | None,
    world: EffectContext,
) -> StepEffect:
    """Return what a step asks of the world."""
    row = EFFECTS[operation.text]
    _check_parameters(operation, parameters, row)
    made = row.made(StepContext(operation.line, parameters, scope, wanted), world)
    if wanted is not None and made.result != wanted:
        raise NodeProblem(
            operation.line,
            f"this step gives a {show_type(made.result)}, and {show_type(wanted)} is needed; take "
            "the fields you need of it in a step of their own",
        )
    return made


# Capabilities: as nodes name them, and as the tree of the gate does.

CAPABILITIES: dict[str, str] = {
    "database": "sql",
    "database.read": "sql::read",
    "database.write": "sql::write",
    "network": "net",
    "network.http_client": "net",
    "network.http_server": "net::serve",
    "secrets": "secret",
    "secrets.read": "secret::read",
    "agent": "agent",
    "agent.ask": "agent::ask",
    "filesystem": "fs",
    "filesystem.read": "fs::read",
    "filesystem.write": "fs::write",
    "exec": "process::exec",
}
"""What follows such a name is its object: a table, a host, a secret, a kind of command."""


def covers_capability(declared: str, used: str) -> bool:
    """Return whether a name includes another: `database.write` has `database.write.orders`."""
    branch = declared.removesuffix(".*")
    return used == branch or used.startswith(f"{branch}.")


def tree_capability(name: str) -> tuple[str, str]:
    """Return what the gate calls a capability, and its object; raises `KeyError` for a name that
    means nothing, since a denial of it would protect nothing."""
    parts = name.removesuffix(".*").split(".")
    for size in range(len(parts), 0, -1):
        if (branch := ".".join(parts[:size])) in CAPABILITIES:
            rest = ".".join(parts[size:])
            if not rest or branch in ("database.read", "database.write", "secrets.read"):
                return "::".join([CAPABILITIES[branch], *parts[size:]]), ""
            if branch in ("network.http_client", "exec"):
                return CAPABILITIES[branch], rest
    raise KeyError(name)


def capabilities_of(node: NodeProgram) -> tuple[tuple[str, NodeStep], ...]:
    """Return what a node uses, with the step that does; also in the nodes that it calls."""
    own = [(step.effect.capability, step) for step in node.steps if step.effect is not None]
    return (
        *((name, step) for name, step in own if name),
        *(each for callee in node.callees for each in capabilities_of(callee)),
    )
