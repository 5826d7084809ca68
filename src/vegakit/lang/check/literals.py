"""Check an expression against the type expected there, say how to fix what does not fit, and infer
the types of literals (pure).
"""

from vegakit.lang.check.context import UNKNOWN, BodyCheck, Rule, infer, is_json, without_null
from vegakit.lang.check.symbols import closest_name
from vegakit.lang.diagnostics import Edit
from vegakit.lang.syntax.tree import (
    Ask,
    Binary,
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
    Plain,
    RecordOf,
    StreamOf,
    Type,
    type_label,
)

# Holding an expression to the type wanted there, and suggesting a fix for what does not fit.


_NO_RESULT = "a function with a result is declared with `-> T`"
_ARTICLES = {"int": "an int", "any": "any", "money": "money", "nothing": "nothing", "null": "null"}


def check(body: BodyCheck, node: Expr, expected: Type, what: str) -> Type:
    """`what` is the thing that has this type: "the timeout", "`path`"."""
    kind = infer(body, node, expected)
    if body.type_variables.fits(kind, expected):
        return kind
    refuse(body, node, kind, expected, what)
    return UNKNOWN


def check_declared(body: BodyCheck, node: Expr, expected: Type, what: str) -> Type:
    """Check a value against a type that is written in the program: a send then asks for an
    answer of that type."""
    if isinstance(node, Ask) and node.answer is None and not (node.stream or node.later):
        body.answers[id(node)] = expected
    return check(body, node, expected, what)


def condition(body: BodyCheck, node: Expr, what: str) -> None:
    """Check a condition, which is a bool."""
    kind = infer(body, node, BOOL)
    if not body.type_variables.fits(kind, BOOL):
        refuse(body, node, kind, BOOL, what)


def refuse(body: BodyCheck, node: Expr, kind: Type, expected: Type, what: str) -> None:
    """Report that a value does not fit, and how to change it."""
    kind, expected = body.type_variables.full(kind), body.type_variables.full(expected)
    if is_open(body, node, kind):
        return
    if kind == NOTHING:
        body.reports.error("no-value", node, "this gives no value", _NO_RESULT)
        return
    advice, edit = _advice(body, node, kind, expected)
    expected = body.type_variables.described(expected)
    optional = isinstance(kind, OptionalOf) and body.type_variables.fits(kind.inner, expected)
    body.reports.error(
        "may-be-null" if optional else "wrong-type",
        node,
        f"{what} must be {_article(expected)}, this is {_article(kind)}",
        advice,
        edit,
    )


def is_open(body: BodyCheck, node: Expr, kind: Type) -> bool:
    """Reports a type that nothing has decided yet."""
    if not body.type_variables.is_open(kind):
        return False
    body.reports.error(
        "unknown-type",
        node,
        "the type of this is not known yet",
        "write the type at its `let`, such as `let items: [str] = [];`",
    )
    return True


def _article(kind: Type) -> str:
    if isinstance(kind, Plain):
        return _ARTICLES.get(kind.name, f"a {kind.name}")
    return type_label(kind)


def _advice(body: BodyCheck, node: Expr, kind: Type, expected: Type) -> tuple[str, Edit | None]:
    text, target = body.source(node), without_null(expected)
    if isinstance(node, Whole | Decimal) and target in (MONEY, DURATION):
        return _unit(body, node, target)
    if isinstance(kind, OptionalOf) and body.type_variables.fits(kind.inner, expected):
        return null_advice(body, node), None
    if kind == NULL and expected != NOTHING:
        return f"what may be null is declared as `{type_label(OptionalOf(expected))}`", None
    if isinstance(kind, FutureOf) and body.type_variables.fits(kind.inner, expected):
        advice, _ = _replaced(node, f"await {text}")
        return advice, Edit(node.at, node.end, f"(await {text})")
    if isinstance(node, Ask) and kind == STR and is_json(expected) and expected != NOTHING:
        return _answered(node, expected)
    return _converted(node, kind, target, text)


def null_advice(body: BodyCheck, node: Expr) -> str:
    """Only a variable or a field of one can be tested: the next call may give something else."""
    if body.scopes.place(node) is None:
        return "keep it, `let x = …;`, and test that: `if x != null { … }`; or write `… ?? other`"
    text = _short(body.source(node))
    return f"test it before, `if {text} != null {{ … }}`, or write `{text} ?? other`"


def _unit(body: BodyCheck, node: Expr, expected: Type) -> tuple[str, Edit | None]:
    text = body.source(node)
    written = f"${text}" if expected == MONEY else f"{text}s"
    return f"write {written}", Edit(node.at, node.end, written)


def _answered(node: Ask, expected: Type) -> tuple[str, Edit | None]:
    written = f" as {type_label(expected)}"
    return f"an answer is a str unless asked for: add `{written.strip()}`", Edit(
        node.end, node.end, written
    )


def _converted(node: Expr, kind: Type, expected: Type, text: str) -> tuple[str, Edit | None]:
    """Return what turns one type into the other, if something does."""
    if isinstance(node, Text | ListLit | MapLit):
        return _literal(node, expected)
    if isinstance(node, Whole | Decimal) and expected == STR:
        return _replaced(node, f'"{text}"')
    casts = kind == ANY or (kind == STR and isinstance(expected, ChoiceOf))
    if casts or (
        isinstance(kind, ListOf) and isinstance(expected, ListOf) and kind.inner == expected.inner
    ):
        bare = f"({text})" if isinstance(node, Binary) else text
        return _replaced(node, f"{bare} as {type_label(expected)}", "which is checked when it runs")
    match kind, expected:
        case Plain(name="int" | "str" | "money" | "duration"), Plain(name="float"):
            return _replaced(node, f"float({text})")
        case Plain(name="float" | "str"), Plain(name="int"):
            return _replaced(node, f"int({text})")
        case Plain(name="int" | "float" | "bool" | "money" | "duration"), Plain(name="str"):
            return _replaced(node, f"str({text})")
        case ListOf() | Plain(name="str"), Plain(name="bool"):
            return f"write `len({_short(text)}) > 0`", None
        case Plain(name="int"), Plain(name="bool"):
            return f"write `{_short(text)} != 0`", None
        case _:
            return "", None


def _literal(node: Text | ListLit | MapLit, expected: Type) -> tuple[str, Edit | None]:
    """What was written itself has to change."""
    if isinstance(node, ListLit) and isinstance(expected, ListOf):
        return f"it has {len(node.items)} items, {expected.most} fit", None
    word = node.parts[0] if isinstance(node, Text) and len(node.parts) == 1 else ""
    if isinstance(word, str) and word.isdecimal() and word.isascii() and expected in (INT, FLOAT):
        return _replaced(node, word)
    return "", None


def _replaced(node: Expr, written: str, why: str = "") -> tuple[str, Edit | None]:
    after = f", {why}" if why else ""
    return f"write `{_short(written)}`{after}", Edit(node.at, node.end, written)


def _short(text: str) -> str:
    line = text.split("\n", 1)[0]
    return line if len(line) <= 60 and line == text else f"{line[:57]}…"


# Types of literals: numbers, text, lists and maps, and lists that are built.


_LARGEST = 2**63 - 1


def constant_text(node: Expr) -> str | None:
    """The text of a string without expressions in it."""
    if isinstance(node, Text) and all(isinstance(part, str) for part in node.parts):
        return "".join(str(part) for part in node.parts)
    return None


def _whole(body: BodyCheck, node: Whole, expected: Type | None) -> Type:
    if node.value > _LARGEST + 1:
        body.reports.error(
            "number-too-large", node, "an int has 64 bits", f"the largest is {_LARGEST}"
        )
        return UNKNOWN
    return (
        FLOAT
        if expected is not None and without_null(body.type_variables.seen(expected)) == FLOAT
        else INT
    )


def _money(body: BodyCheck, node: MoneyLit, _want: Type | None) -> Type:
    if node.period:
        body.reports.error(
            "period-outside-budget",
            node,
            "only the `budget` of an agent has a period",
            "leave it out here",
            Edit(node.at, node.end, body.source(node).partition("/")[0].rstrip()),
        )
    return MONEY


def _word(_body: BodyCheck, node: Word, _want: Type | None) -> Type:
    return NULL if node.value is None else BOOL


def _text(body: BodyCheck, node: Text, expected: Type | None) -> Type:
    for part in node.parts:
        if not isinstance(part, str):
            usable(body, part, infer(body, part))
    wanted = None if expected is None else without_null(body.type_variables.seen(expected))
    literal = constant_text(node)
    if not isinstance(wanted, ChoiceOf) or literal is None:
        return STR
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
    for item in node.items:
        kind = _joined(body, item, kind, "items of one list")
    return ListOf(kind)


def _joined(body: BodyCheck, item: Expr, kind: Type, what: str) -> Type:
    new = infer(body, item, kind)
    if new == NOTHING:
        refuse(body, item, new, kind, what)
        return UNKNOWN
    joined = body.type_variables.joined(kind, new)
    if joined is not None:
        return joined
    body.reports.error(
        "mixed-items",
        item,
        f"{what} have one type: {type_label(body.type_variables.full(kind))} before, "
        f"this is {type_label(body.type_variables.full(new))}",
        "declare a `type` with a field for each",
    )
    return UNKNOWN


def _map(body: BodyCheck, node: MapLit, expected: Type | None) -> Type:
    wanted = None if expected is None else without_null(body.type_variables.seen(expected))
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
    kind = body.type_variables.fresh()
    for pair in node.pairs:
        kind = _joined(body, pair.value, kind, "values of one map")
    return MapOf(kind)


def _want_record(body: BodyCheck, node: MapLit, wanted: RecordOf) -> None:
    fields = ", ".join(f"{name}: …" for name, _ in wanted.fields)
    for pair in node.pairs:
        infer(body, pair.value)
    body.reports.error(
        "map-for-record",
        node,
        f"this is a map, and a {wanted.name} is wanted",
        f"write `{wanted.name}({fields})`",
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
    elif kind == STR:
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
    Word: _word,
    Text: _text,
    ListLit: _list,
    MapLit: _map,
    Build: _build,
}
