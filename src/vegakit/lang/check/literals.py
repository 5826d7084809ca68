"""Check an expression against the type expected there, say how to fix what does not fit, and infer
the types of literals (pure).
"""

from vegakit.lang.check.context import (
    UNKNOWN,
    BodyCheck,
    Rule,
    infer,
    is_json,
    longest_text,
    wants_length,
    without_null,
)
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
    Name,
    Race,
    Text,
    Unary,
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
    unbounded,
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


def check_amount(body: BodyCheck, node: Expr, what: str) -> None:
    """Check money that may be spent, which is not below zero."""
    check(body, node, MONEY, what)
    if isinstance(node, Unary) and isinstance(node.of, MoneyLit) and node.of.nanos:
        amount = body.source(node.of)
        body.reports.error(
            "bad-money",
            node,
            f"{what} is below zero: nothing could be spent",
            f"write `{amount}`",
            Edit(node.at, node.end, amount),
        )


def check_declared(body: BodyCheck, node: Expr, expected: Type, what: str) -> Type:
    """Check a value against a type that is written in the program: a send then asks for an
    answer of that type, and so do those that run in a race."""
    due = [node]
    while due:
        one = due.pop()
        if isinstance(one, Race):
            due += _candidates(one)
        elif isinstance(one, Ask) and one.answer is None and not (one.stream or one.later):
            body.answers[id(one)] = expected
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
        length = "" if kind.most is None else f" of at most {kind.most} characters"
        return _ARTICLES.get(kind.name, f"a {kind.name}{length}")
    return type_label(kind)


def _advice(body: BodyCheck, node: Expr, kind: Type, expected: Type) -> tuple[str, Edit | None]:
    text, target = body.source(node), without_null(expected)
    if isinstance(node, Whole | Decimal) and target in (MONEY, DURATION):
        return _unit(body, node, target)
    if isinstance(kind, OptionalOf) and body.type_variables.fits(kind.inner, expected):
        return null_advice(body, node, expected)
    if kind == NULL and expected != NOTHING:
        return f"what may be null is declared as `{type_label(OptionalOf(expected))}`", None
    if isinstance(kind, FutureOf) and body.type_variables.fits(kind.inner, expected):
        advice, _ = _replaced(node, f"await {text}")
        return advice, Edit(node.at, node.end, f"(await {text})")
    if isinstance(node, Ask) and is_text(kind) and is_json(expected) and expected != NOTHING:
        return _answered(node, expected)
    return _converted(node, kind, target, text)


def null_advice(body: BodyCheck, node: Expr, expected: Type) -> tuple[str, Edit | None]:
    """Only a variable or a field of one can be tested: the next call may give something else."""
    text, edit = body.source(node), _present(body, node, expected)
    name = _short(text) if body.scopes.place(node) is not None else ""
    test = f"test it before, `if {name} != null {{ … }}`" if name else "keep it, `let x = …;`, and "
    test = test if name else f"{test}test that: `if x != null {{ … }}`"
    if edit is None:
        return f"{test}, or write `{name or '…'} ?? other`", None
    if body.targets.get(id(node)) or expected == BOOL:
        return f"{test}, or write `{_short(edit.text)}`", edit
    shown = edit.text if _short(edit.text) == edit.text else f"(… as {_operand(expected)})"
    return f"{test}, or write `{name or '…'} ?? other`; `{shown}` fails where it is null", edit


def _present(body: BodyCheck, node: Expr, expected: Type) -> Edit | None:
    """Return what stands for a value that may be null: in an assignment the value that was there
    before, in a condition a comparison, and else a cast, which fails where it is null."""
    text = body.source(node)
    if before := body.targets.get(id(node)):
        return Edit(node.at, node.end, f"{text} ?? {before}")
    if expected == BOOL:
        return Edit(node.at, node.end, f"({text} == true)")
    if not is_json(expected) or expected == UNKNOWN or isinstance(node, Ask):
        return None
    bare = f"({text})" if isinstance(node, Binary) else text
    cast, around = f"{bare} as {_operand(expected)}", body.names.unit.text
    alone = around[node.at - 1 : node.at] in {"(", "["} and around[node.end] in {")", "]"}
    return Edit(node.at, node.end, cast if alone else f"({cast})")


def _unit(body: BodyCheck, node: Expr, expected: Type) -> tuple[str, Edit | None]:
    text = body.source(node)
    written = f"${text}" if expected == MONEY else f"{text}s"
    return f"write {written}", Edit(node.at, node.end, written)


def _answered(node: Ask, expected: Type) -> tuple[str, Edit | None]:
    written = f" as {_operand(expected)}"
    return f"an answer is a str unless asked for: add `{written.strip()}`", Edit(
        node.end, node.end, written
    )


def _converted(node: Expr, kind: Type, expected: Type, text: str) -> tuple[str, Edit | None]:
    """Return what turns one type into the other, if something does."""
    if isinstance(node, Text | ListLit | MapLit):
        return _literal(node, expected)
    if isinstance(node, Whole | Decimal) and is_text(expected):
        return _replaced(node, f'"{text}"')
    if kind == ANY or (is_text(kind) and isinstance(expected, ChoiceOf)) or _same(kind, expected):
        bare = f"({text})" if isinstance(node, Binary) else text
        shown = bare if _short(bare) == bare else "…"
        cast = f" as {_operand(expected)}"
        help_ = f"write `{shown}{cast}`, which is checked when it runs"
        return help_, Edit(node.at, node.end, f"{bare}{cast}")
    match kind, expected:
        case Plain(name="int" | "str" | "money" | "duration"), Plain(name="float"):
            return _replaced(node, f"float({text})")
        case Plain(name="float" | "str"), Plain(name="int"):
            return _replaced(node, f"int({text})")
        case Plain(name="int" | "float" | "bool" | "money" | "duration"), Plain(name="str"):
            return _replaced(node, f"str({text})")
        case _, Plain(name="bool"):
            return _tested(node, kind, text)
        case _:
            return "", None


def _tested(node: Expr, kind: Type, text: str) -> tuple[str, Edit | None]:
    """Return a comparison in place of a value that is no bool."""
    match kind:
        case ListOf() | MapOf():
            written = f"len({text}) > 0"
        case Plain(name="str"):
            written = f'{text} != ""'
        case Plain(name="int"):
            written = f"{text} != 0"
        case OptionalOf():
            written = f"{text} != null"
        case _:
            return "", None
    if isinstance(node, Binary | Ask):
        return f"compare it: `{_short(written)}`", None
    return _replaced(node, written)


def _same(kind: Type, expected: Type) -> bool:
    """Whether only lengths are different."""
    match kind, expected:
        case (ListOf(inner=one), ListOf(inner=other)) | (MapOf(inner=one), MapOf(inner=other)):
            return unbounded(one) == unbounded(other)
        case _:
            return is_text(kind) and is_text(expected)


def _operand(kind: Type) -> str:
    """The type behind `as`: in parentheses where the `;` of a size could be read as an end."""
    return f"({type_label(kind)})" if is_text(kind) and kind != STR else type_label(kind)


def _literal(node: Text | ListLit | MapLit, expected: Type) -> tuple[str, Edit | None]:
    """What was written itself has to change."""
    if isinstance(node, ListLit) and isinstance(expected, ListOf):
        return f"it has {len(node.items)} items, {expected.most} fit", None
    if isinstance(node, MapLit) and isinstance(expected, MapOf):
        return f"it has {len(node.pairs)} keys, {expected.most} fit", None
    if isinstance(node, Text) and isinstance(expected, Plain) and expected.most is not None:
        return _shortened(node, expected.most)
    word = node.parts[0] if isinstance(node, Text) and len(node.parts) == 1 else ""
    if isinstance(word, str) and word.isdecimal() and word.isascii() and expected in (INT, FLOAT):
        return _replaced(node, word)
    return "", None


def _shortened(node: Text, most: int) -> tuple[str, Edit | None]:
    literal = constant_text(node)
    if literal is not None:
        return f"it has {len(literal)} characters, {most} fit", None
    return f"cut it: `str::slice(…, 0, {most}) as (str; {most})`", None


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


def _word(_body: BodyCheck, node: Word, _want: Type | None) -> Type:
    return NULL if node.value is None else BOOL


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
    for pair in node.pairs:
        kind = _joined(body, pair.value, kind, "values of one map")
    return MapOf(kind)


def _is_bare(body: BodyCheck, key: Name) -> bool:
    return body.scopes.find(key.name) is None and key.name not in body.later


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
        f"write `{_short(written)}`",
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
    is_said = all(isinstance(one, Ask) and one.answer is not None for one in _candidates(node))
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


def _candidates(node: Race) -> tuple[Expr, ...]:
    """Return what is written in the list of a race."""
    return (node.of.item,) if isinstance(node.of, Build) else node.of.items


def _refuse_candidate(body: BodyCheck, node: Race, kind: Type) -> None:
    """`async` is what people write who know promises of other languages."""
    first = next(iter(_candidates(node)), node.of)
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
    Word: _word,
    Text: _text,
    ListLit: _list,
    MapLit: _map,
    Build: _build,
    Race: _race,
}
