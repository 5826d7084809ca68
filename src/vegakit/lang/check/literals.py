"""Infer the types of literals (pure)."""

from vegakit.lang.check.context import (
    UNKNOWN,
    BodyCheck,
    Rule,
    infer,
    longest_text,
    wants_length,
    without_null,
)
from vegakit.lang.check.fitting import (
    as_floats,
    candidates,
    check,
    condition,
    constant_text,
    in_short,
    is_open,
    refuse,
)
from vegakit.lang.check.symbols import closest_name
from vegakit.lang.diagnostics import Edit
from vegakit.lang.syntax.tree import (
    Ask,
    Build,
    Decimal,
    Duration,
    Expr,
    ListLit,
    MapLit,
    MoneyLit,
    Name,
    Race,
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
    Plain,
    RecordOf,
    StreamOf,
    Type,
    is_text,
    type_label,
)

# Types of literals: numbers, text, lists and maps, and lists that are built.


_LARGEST = 2**63 - 1


def _whole(body: BodyCheck, node: Whole, expected: Type | None) -> Type:
    if node.value > _LARGEST + 1:
        body.reports.error(
            "number-too-large", node, "an int has 64 bits", f"the largest is {_LARGEST}"
        )
        return UNKNOWN
    if expected is None or body.program.exact:
        return INT
    return FLOAT if without_null(body.type_variables.seen(expected)) == FLOAT else INT


def _money(body: BodyCheck, node: MoneyLit, _want: Type | None) -> Type:
    if node.period:
        body.reports.error(
            "period-outside-budget",
            node,
            "a period is for what outlives a run, and this ends with it",
            f"leave it out here, or write it for an agent: `budget {body.source(node)}` holds for "
            "all runs together",
            Edit(node.at, node.end, body.source(node).partition("/")[0].rstrip()),
        )
    return MONEY


def _text(body: BodyCheck, node: Text, expected: Type | None) -> Type:
    before = ""
    for part in node.parts:
        if not isinstance(part, str):
            kind = infer(body, part)
            usable(body, part, kind)
            if before.endswith("$") and kind == STR and not body.program.exact:
                # Of `${name}` the `$` is text, wanted before an amount, hardly before a text.
                written = f"{{{body.source(part)}}}"
                at = body.names.unit.text.rfind("$", 0, part.at)
                message = f"the `$` before `{written}` is part of the text"
                body.reports.warn(
                    "dollar-in-text", part, message, f"write `{written}`", Edit(at, at + 1, "")
                )
        before = part if isinstance(part, str) else ""
    wanted = None if expected is None else without_null(body.type_variables.seen(expected))
    literal = constant_text(node)
    if not isinstance(wanted, ChoiceOf) or literal is None:
        return Plain("str", _length(body, node)) if wants_length(body, expected) else STR
    if literal in wanted.choices:
        return wanted
    close = closest_name(literal, wanted.choices)
    body.reports.error(
        "not-a-choice",
        node,
        f'"{literal}" is none of {type_label(wanted)}',
        f'did you mean "{close}"?' if close else "",
        Edit(node.at, node.end, f'"{close}"') if close else None,
    )
    return UNKNOWN


def _length(body: BodyCheck, node: Text) -> int | None:
    """Return how many characters a text has at most; None if one of its parts has no bound."""
    total = 0
    for part in node.parts:
        more = len(part) if isinstance(part, str) else longest_text(body.program.types[id(part)])
        if more is None:
            return None
        total += more
    return total


def usable(body: BodyCheck, node: Expr, kind: Type) -> None:
    """Check what is used as text or in a message: futures and streams have to be taken first."""
    if kind == NOTHING:
        refuse(body, node, kind, ANY, "")
    elif isinstance(kind, FutureOf):
        written = f"await {body.source(node)}"
        body.reports.error(
            "not-awaited",
            node,
            f"this is {type_label(kind)}, not yet its value",
            f"write `{written}`",
            Edit(node.at, node.end, f"({written})"),
        )
    elif isinstance(kind, StreamOf):
        body.reports.error(
            "stream-as-value", node, "a stream is not text", "walk it: `for chunk in … { … }`"
        )


def _list(body: BodyCheck, node: ListLit, expected: Type | None) -> Type:
    wanted = None if expected is None else without_null(body.type_variables.seen(expected))
    if isinstance(wanted, ListOf):
        for item in node.items:
            check(body, item, wanted.inner, "an item of this list")
        return ListOf(wanted.inner, None if wanted.most is None else len(node.items))
    kind = body.type_variables.fresh()
    if wanted == ANY and node.items:
        for item in node.items:
            usable(body, item, infer(body, item))
        return ListOf(ANY)
    for at in range(len(node.items)):
        kind = _joined(body, node.items, at, kind, "items of one list")
    return ListOf(kind)


def _joined(body: BodyCheck, items: tuple[Expr, ...], at: int, kind: Type, what: str) -> Type:
    item = items[at]
    new = infer(body, item, kind)
    if new == NOTHING:
        refuse(body, item, new, kind, what)
        return UNKNOWN
    joined = body.type_variables.joined(kind, new)
    if joined is not None:
        return joined
    is_float = body.type_variables.seen(kind) == FLOAT and new == INT
    advice = as_floats(body, (item,) if is_float else items[:at], INT, FLOAT if is_float else new)
    body.reports.error(
        "mixed-items",
        item,
        f"{what} have one type: {type_label(body.type_variables.full(kind))} before, "
        f"this is {type_label(body.type_variables.full(new))}",
        *(advice or ("declare a `type` with a field for each", None)),
    )
    return UNKNOWN


def _map(body: BodyCheck, node: MapLit, expected: Type | None) -> Type:
    wanted = None if expected is None else without_null(body.type_variables.seen(expected))
    seen: set[str] = set()
    if isinstance(wanted, RecordOf):
        _want_record(body, node, wanted)
        return UNKNOWN
    for pair in node.pairs:
        if isinstance(pair.key, Name) and _is_bare(body, pair.key):
            _bare_key(body, pair.key)
            continue
        check(body, pair.key, STR, "a key")
        literal = constant_text(pair.key)
        if literal is not None and literal in seen:
            body.reports.error("duplicate-key", pair.key, f'the key "{literal}" is there already')
        seen.add(literal or "")
    if isinstance(wanted, MapOf):
        for pair in node.pairs:
            check(body, pair.value, wanted.inner, "a value of this map")
        return MapOf(wanted.inner, None if wanted.most is None else len(node.pairs))
    if wanted == ANY and node.pairs:
        for pair in node.pairs:
            usable(body, pair.value, infer(body, pair.value, ANY))
        return MapOf(ANY)
    kind = body.type_variables.fresh()
    values = tuple(pair.value for pair in node.pairs)
    for at in range(len(values)):
        kind = _joined(body, values, at, kind, "values of one map")
    return MapOf(kind)


def _is_bare(body: BodyCheck, key: Name) -> bool:
    """Whether nothing of this name is known here. A `let` that stands in a block before it may well
    be meant, one that ends behind it hardly."""
    later = body.later.get(key.name)
    return body.scopes.find(key.name) is None and (later is None or later.end > key.end)


def _bare_key(body: BodyCheck, key: Name) -> None:
    written = f'"{key.name}"'
    body.reports.error(
        "unknown-name",
        key,
        f"the keys of a map are texts, and nothing is called `{key.name}` here",
        f"write `{written}`",
        Edit(key.at, key.end, written),
    )


def _want_record(body: BodyCheck, node: MapLit, wanted: RecordOf) -> None:
    given: dict[str, str] = {}
    for pair in node.pairs:
        infer(body, pair.value)
        key = pair.key.name if isinstance(pair.key, Name) else constant_text(pair.key)
        given[key or ""] = body.source(pair.value)
    fields = ", ".join(f"{name}: {given.get(name, '…')}" for name, _ in wanted.fields)
    needed = {name for name, kind in wanted.fields if not isinstance(kind, OptionalOf)}
    is_whole = needed <= given.keys() <= {name for name, _ in wanted.fields}
    whole = ", ".join(f"{name}: {value}" for name, value in given.items())
    written = f"{wanted.name}({whole if is_whole else fields})"
    body.reports.error(
        "map-for-record",
        node,
        f"this is a map, and a {wanted.name} is wanted",
        f"write `{in_short(written)}`",
        Edit(node.at, node.end, written) if is_whole else None,
    )


def _build(body: BodyCheck, node: Build, expected: Type | None) -> Type:
    over = infer(body, node.over)
    item = items_of(body, node.over, over)
    wanted = None if expected is None else without_null(body.type_variables.seen(expected))
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


def _race(body: BodyCheck, node: Race, expected: Type | None) -> Type:
    """The value is one of the list's items; they are computed side by side, so what one says of a
    variable holds for no other."""
    before = body.scopes.facts
    if isinstance(node.of, ListLit) and not node.of.items:
        body.reports.error(
            "missing-argument", node, "nobody runs in this race", "write what runs: `race [a <- m]`"
        )
    # Where each says its own type, the first has that, though null may be stored where it goes.
    is_said = all(isinstance(one, Ask) and one.answer is not None for one in candidates(node))
    is_free = is_said or expected in (None, ANY)
    listed = infer(body, node.of, None if is_free or expected is None else ListOf(expected))
    item = listed.inner if isinstance(listed, ListOf) else UNKNOWN
    kind = body.type_variables.seen(item)
    if isinstance(kind, FutureOf | StreamOf):
        _refuse_candidate(body, node, kind)
        kind = UNKNOWN
    if node.where is not None:
        body.scopes.enter()
        body.scopes.declare(node.name, "loop", kind, node)
        condition(body, node.where, "what stands after `if`")
        body.scopes.leave()
    body.scopes.facts = before
    return kind


def _refuse_candidate(body: BodyCheck, node: Race, kind: Type) -> None:
    """`async` is what people write who know promises of other languages."""
    first = next(iter(candidates(node)), node.of)
    text, edit = body.source(first), None
    advice = "write the sends themselves: `race [a <- m, b <- m]`"
    if text.startswith("async "):
        plain = text.removeprefix("async ")
        advice, edit = f"write `{plain}`", Edit(first.at, first.end, plain)
    body.reports.error(
        "not-awaited",
        first,
        f"what runs in a race runs side by side already, this is {type_label(kind)}",
        advice,
        edit,
    )


def items_of(body: BodyCheck, node: Expr, kind: Type) -> Type:
    """Return what a loop with one name walks over."""
    kind = body.type_variables.seen(kind)
    match kind:
        case ListOf(inner=inner):
            return body.type_variables.seen(inner)
        case MapOf() | StreamOf():
            return STR
        case _ if kind == UNKNOWN or is_open(body, node, kind):
            return UNKNOWN
        case _:
            _refuse_loop(body, node, kind)
            return UNKNOWN


def _refuse_loop(body: BodyCheck, node: Expr, kind: Type) -> None:
    advice = ""
    if kind == ANY:
        advice = f"say what it is: `{body.source(node)} as [any]`"
    elif isinstance(kind, OptionalOf):
        advice = f"it may be null: write `{body.source(node)} ?? []`"
    elif kind == INT:
        advice = f"write `range({body.source(node)})`"
    elif is_text(kind):
        advice = (
            f'walk its lines, `str::lines({body.source(node)})`, or characters, `str::split(…, "")`'
        )
    elif isinstance(kind, FutureOf):
        advice = f"write `await {body.source(node)}`"
    body.reports.error(
        "not-a-list",
        node,
        f"a loop walks over a list, map or stream, this is {type_label(kind)}",
        advice,
    )


LITERALS: dict[type, Rule] = {
    Whole: _whole,
    Decimal: lambda _body, _node, _want: FLOAT,
    Duration: lambda _body, _node, _want: DURATION,
    MoneyLit: _money,
    Word: lambda _body, node, _want: NULL if node.value is None else BOOL,
    Text: _text,
    ListLit: _list,
    MapLit: _map,
    Build: _build,
    Race: _race,
}
