"""Types of literals: numbers, text, lists and maps, and lists that are built."""

from vegakit.lang.checking.context import Body, Rule, infer
from vegakit.lang.checking.fitting import check, condition, is_open, refuse
from vegakit.lang.checking.relations import UNKNOWN, shown, without_null
from vegakit.lang.checking.reports import meant
from vegakit.lang.diagnostics import Edit
from vegakit.lang.tree import (
    Build,
    Decimal,
    Duration,
    Expr,
    ListLit,
    MapLit,
    MoneyLit,
    Text,
    Whole,
    Word,
)
from vegakit.lang.types import (
    ANY,
    BOOL,
    DURATION,
    FLOAT,
    INT,
    MONEY,
    NOTHING,
    NULL,
    STR,
    ChoiceOf,
    FutureOf,
    ListOf,
    MapOf,
    OptionalOf,
    RecordOf,
    StreamOf,
    Type,
)

__all__ = ["LITERALS", "constant_text", "items_of", "usable"]

_LARGEST = 2**63 - 1


def constant_text(node: Expr) -> str | None:
    """The text of a string without expressions in it."""
    if isinstance(node, Text) and all(isinstance(part, str) for part in node.parts):
        return "".join(str(part) for part in node.parts)
    return None


def _whole(body: Body, node: Whole, want: Type | None) -> Type:
    if node.value > _LARGEST + 1:
        body.reports.error(
            "number-too-large", node, "an int has 64 bits", f"the largest is {_LARGEST}"
        )
        return UNKNOWN
    return FLOAT if want is not None and without_null(body.holes.seen(want)) == FLOAT else INT


def _money(body: Body, node: MoneyLit, _want: Type | None) -> Type:
    if node.period:
        body.reports.error(
            "period-outside-budget",
            node,
            "only the `budget` of an agent has a period",
            "leave it out here",
            Edit(node.at, node.end, body.source(node).partition("/")[0].rstrip()),
        )
    return MONEY


def _word(_body: Body, node: Word, _want: Type | None) -> Type:
    return NULL if node.value is None else BOOL


def _text(body: Body, node: Text, want: Type | None) -> Type:
    for part in node.parts:
        if not isinstance(part, str):
            usable(body, part, infer(body, part))
    wanted = None if want is None else without_null(body.holes.seen(want))
    literal = constant_text(node)
    if not isinstance(wanted, ChoiceOf) or literal is None:
        return STR
    if literal in wanted.choices:
        return wanted
    close = meant(literal, wanted.choices)
    body.reports.error(
        "not-a-choice",
        node,
        f'"{literal}" is none of {shown(wanted)}',
        f'did you mean "{close}"?' if close else "",
        Edit(node.at, node.end, f'"{close}"') if close else None,
    )
    return UNKNOWN


def usable(body: Body, node: Expr, kind: Type) -> None:
    """As text or in a message: futures and streams have to be taken first."""
    if kind == NOTHING:
        refuse(body, node, kind, ANY, "")
    elif isinstance(kind, FutureOf):
        written = f"await {body.source(node)}"
        body.reports.error(
            "not-awaited",
            node,
            f"this is {shown(kind)}, not yet its value",
            f"write `{written}`",
            Edit(node.at, node.end, f"({written})"),
        )
    elif isinstance(kind, StreamOf):
        body.reports.error(
            "stream-as-value", node, "a stream is not text", "walk it: `for chunk in … { … }`"
        )


def _list(body: Body, node: ListLit, want: Type | None) -> Type:
    wanted = None if want is None else without_null(body.holes.seen(want))
    if isinstance(wanted, ListOf):
        for item in node.items:
            check(body, item, wanted.inner, "an item of this list")
        return ListOf(wanted.inner, None if wanted.most is None else len(node.items))
    kind = body.holes.fresh()
    if wanted == ANY and node.items:
        for item in node.items:
            usable(body, item, infer(body, item))
        return ListOf(ANY)
    for item in node.items:
        kind = _joined(body, item, kind, "items of one list")
    return ListOf(kind)


def _joined(body: Body, item: Expr, kind: Type, what: str) -> Type:
    new = infer(body, item, kind)
    if new == NOTHING:
        refuse(body, item, new, kind, what)
        return UNKNOWN
    joined = body.holes.joined(kind, new)
    if joined is not None:
        return joined
    body.reports.error(
        "mixed-items",
        item,
        f"{what} have one type: {shown(body.holes.full(kind))} before, "
        f"this is {shown(body.holes.full(new))}",
        "declare a `type` with a field for each",
    )
    return UNKNOWN


def _map(body: Body, node: MapLit, want: Type | None) -> Type:
    wanted = None if want is None else without_null(body.holes.seen(want))
    seen: set[str] = set()
    for pair in node.pairs:
        check(body, pair.key, STR, "a key")
        literal = constant_text(pair.key)
        if literal is not None and literal in seen:
            body.reports.error("duplicate-key", pair.key, f'the key "{literal}" is there already')
        seen.add(literal or "")
    if isinstance(wanted, MapOf):
        for pair in node.pairs:
            check(body, pair.value, wanted.inner, "a value of this map")
        return MapOf(wanted.inner)
    if isinstance(wanted, RecordOf):
        _want_record(body, node, wanted)
        return UNKNOWN
    if wanted == ANY and node.pairs:
        for pair in node.pairs:
            usable(body, pair.value, infer(body, pair.value, ANY))
        return MapOf(ANY)
    kind = body.holes.fresh()
    for pair in node.pairs:
        kind = _joined(body, pair.value, kind, "values of one map")
    return MapOf(kind)


def _want_record(body: Body, node: MapLit, wanted: RecordOf) -> None:
    fields = ", ".join(f"{name}: …" for name, _ in wanted.fields)
    for pair in node.pairs:
        infer(body, pair.value)
    body.reports.error(
        "map-for-record",
        node,
        f"this is a map, and a {wanted.name} is wanted",
        f"write `{wanted.name}({fields})`",
    )


def _build(body: Body, node: Build, want: Type | None) -> Type:
    over = infer(body, node.over)
    item = items_of(body, node.over, over)
    wanted = None if want is None else without_null(body.holes.seen(want))
    before = body.scopes.facts
    body.scopes.enter()
    body.scopes.declare(node.name, "loop", item, node)
    if node.where is not None:
        condition(body, node.where, "what stands after `if`")
        body.scopes.know(body.tests.get(id(node.where), ({}, {}))[0])
    if isinstance(wanted, ListOf):
        check(body, node.item, wanted.inner, "an item of this list")
        made = wanted.inner
    else:
        made = infer(body, node.item)
        if made == NOTHING:
            refuse(body, node.item, made, ANY, "")
    body.scopes.leave()
    body.scopes.facts = before
    most = over.most if isinstance(over, ListOf) else None
    return ListOf(made, most if isinstance(wanted, ListOf) and wanted.most is not None else None)


def items_of(body: Body, node: Expr, kind: Type) -> Type:
    """What a loop with one name walks over."""
    kind = body.holes.seen(kind)
    match kind:
        case ListOf(inner=inner):
            return body.holes.seen(inner)
        case MapOf() | StreamOf():
            return STR
        case _ if kind == UNKNOWN or is_open(body, node, kind):
            return UNKNOWN
        case _:
            _refuse_loop(body, node, kind)
            return UNKNOWN


def _refuse_loop(body: Body, node: Expr, kind: Type) -> None:
    advice = ""
    if kind == ANY:
        advice = f"say what it is: `{body.source(node)} as [any]`"
    elif isinstance(kind, OptionalOf):
        advice = f"it may be null: write `{body.source(node)} ?? []`"
    elif kind == INT:
        advice = f"write `range({body.source(node)})`"
    elif kind == STR:
        advice = (
            f'walk its lines, `str::lines({body.source(node)})`, or characters, `str::split(…, "")`'
        )
    elif isinstance(kind, FutureOf):
        advice = f"write `await {body.source(node)}`"
    body.reports.error(
        "not-a-list",
        node,
        f"a loop walks over a list, map or stream, this is {shown(kind)}",
        advice,
    )


LITERALS: dict[type, Rule] = {
    Whole: _whole,
    Decimal: lambda _body, _node, _want: FLOAT,
    Duration: lambda _body, _node, _want: DURATION,
    MoneyLit: _money,
    Word: _word,
    Text: _text,
    ListLit: _list,
    MapLit: _map,
    Build: _build,
}
