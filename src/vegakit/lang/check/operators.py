"""Operators of expressions: arithmetic, comparison and logic, then casts (pure)."""

from vegakit.lang.check.comparisons import answer_compared
from vegakit.lang.check.context import (
    UNKNOWN,
    BodyCheck,
    Facts,
    Rule,
    infer,
    longest_text,
    merged,
    without_null,
)
from vegakit.lang.check.fitting import (
    check,
    constant_text,
    is_longer,
    refuse,
)
from vegakit.lang.check.foreign import number_beside_unit, text_operand
from vegakit.lang.check.resolution import written
from vegakit.lang.diagnostics import Edit
from vegakit.lang.syntax.tree import (
    Binary,
    Cast,
    Expr,
    ListLit,
    MapLit,
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
    StreamOf,
    Type,
    is_text,
    type_label,
)

_ORDERED = (INT, FLOAT, MONEY, DURATION, STR)
_NO_FACTS: tuple[Facts, Facts] = ({}, {})


def _table() -> dict[tuple[str, Type, Type], Type]:
    table: dict[tuple[str, Type, Type], Type] = {("+", STR, STR): STR}
    for op in "+-*/%":
        table |= {(op, INT, INT): INT, (op, FLOAT, FLOAT): FLOAT}
        table |= {(op, INT, FLOAT): FLOAT, (op, FLOAT, INT): FLOAT}
    for unit in (MONEY, DURATION):
        table |= {(op, unit, unit): unit for op in "+-%"} | {("/", unit, unit): FLOAT}
        for number in (INT, FLOAT):
            table |= {
                ("*", unit, number): unit,
                ("*", number, unit): unit,
                ("/", unit, number): unit,
            }
    return table


_ARITHMETIC = _table()


def _binary(body: BodyCheck, node: Binary, expected: Type | None) -> Type:
    spine = [node]
    while isinstance(spine[-1].left, Binary):
        spine.append(spine[-1].left)
    hint = expected if node.op in "+-*/%" else None
    kind = infer(body, spine[-1].left, hint)
    for one in reversed(spine):
        kind = body.type_variables.seen(_combined(body, one, kind, hint))
        body.program.types[id(one)] = kind
    return kind


def _combined(body: BodyCheck, node: Binary, left: Type, expected: Type | None) -> Type:
    if node.op in ("and", "or"):
        return _logic(body, node, left)
    if node.op == "??":
        return _default(body, node, left)
    if node.op in ("==", "!="):
        return _equality(body, node, left)
    if node.op == "in":
        return _within(body, node, left)
    hint = left if left == FLOAT or isinstance(left, ListOf | MapOf) else expected
    if isinstance(hint, ListOf | MapOf):
        hint = type(hint)(hint.inner, 0 if hint.most is not None else None)
    right = infer(body, node.right, hint)
    if UNKNOWN in (left, right):
        return BOOL if node.op in ("<", "<=", ">", ">=") else UNKNOWN
    left, right = _as_floats(body, node, left, right)
    if node.op in ("<", "<=", ">", ">="):
        return _order(body, node, left, right)
    return _arithmetic(body, node, left, right)


def _as_floats(body: BodyCheck, node: Binary, left: Type, right: Type) -> tuple[Type, Type]:
    """A whole number beside a float is one: `2 * x`. An exact one stays what it is, and the machine
    compares the two as numbers."""
    if body.program.exact:
        return left, right
    if left == INT and right == FLOAT and _is_whole(node.left):
        _retype(body, node.left)
        return FLOAT, FLOAT
    if left == FLOAT and right == INT and _is_whole(node.right):
        _retype(body, node.right)
        return FLOAT, FLOAT
    return left, right


def _is_whole(node: Expr) -> bool:
    return isinstance(node, Whole) or (
        isinstance(node, Unary) and node.op == "-" and isinstance(node.of, Whole)
    )


def _retype(body: BodyCheck, node: Expr) -> None:
    body.program.types[id(node)] = FLOAT
    if isinstance(node, Unary):
        body.program.types[id(node.of)] = FLOAT


def _as_text(kind: Type) -> Type:
    return STR if isinstance(kind, ChoiceOf) or is_text(kind) else kind


def _arithmetic(body: BodyCheck, node: Binary, left: Type, right: Type) -> Type:
    found = _ARITHMETIC.get((node.op, _as_text(left), _as_text(right)))
    if found == STR and any(is_text(kind) and kind != STR for kind in (left, right)):
        return Plain("str", _sum(longest_text(left), longest_text(right)))
    if found is not None:
        return found
    if node.op == "+" and isinstance(left, ListOf) and isinstance(right, ListOf):
        return _both_lists(body, node, left, right)
    if node.op == "+" and isinstance(left, MapOf) and isinstance(right, MapOf):
        inner = body.type_variables.joined(left.inner, right.inner)
        if inner is not None:
            return MapOf(inner, _sum(left.most, right.most))
    return _no_such(body, node, left, right)


def _both_lists(body: BodyCheck, node: Binary, left: ListOf, right: ListOf) -> Type:
    inner = body.type_variables.joined(left.inner, right.inner)
    if inner is None:
        return _no_such(body, node, left, right)
    return ListOf(inner, _sum(left.most, right.most))


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _no_such(body: BodyCheck, node: Binary, left: Type, right: Type) -> Type:
    for side, kind in ((node.left, left), (node.right, right)):
        if isinstance(kind, OptionalOf | FutureOf) or body.type_variables.is_open(kind):
            inner = kind.inner if isinstance(kind, OptionalOf | FutureOf) else ANY
            refuse(body, side, kind, inner, f"a side of `{node.op}`")
            return UNKNOWN
    advice, edit = _fixed(body, node, left, right)
    names = f"{_label(body, left)} and {_label(body, right)}"
    body.reports.error("wrong-operands", node, f"`{node.op}` does not take {names}", advice, edit)
    return UNKNOWN


def _fixed(body: BodyCheck, node: Binary, left: Type, right: Type) -> tuple[str, Edit | None]:
    if (send := body.sent.get(id(node))) is not None:
        return answer_compared(body, send)
    if node.op == "+" and isinstance(left, ListOf) and body.type_variables.fits(right, left.inner):
        text = body.source(node.right)
        return f"to add one item write `[{text}]`", Edit(node.right.at, node.right.end, f"[{text}]")
    texts = (_as_text(left) == STR, _as_text(right) == STR)
    numbers = {left, right} & {INT, FLOAT}
    if any(texts) and not all(texts) and numbers and node.op in "*%":
        return text_operand(body, node, left)
    if any(texts) and not all(texts) and numbers and node.op != "+":
        side, other = (node.left, node.right) if texts[0] else (node.right, node.left)
        to = type_label(right if texts[0] else left)
        text = constant_text(side)
        if text is not None and not text.strip(" +-").replace(".", "", 1).isdecimal():
            side, to = other, "str"  # no number is written there
        return f"write `{to}({body.source(side)})`", _wrapped(body, side, to)
    if numbers and {left, right} & {MONEY, DURATION}:
        return number_beside_unit(body, node, left, right)
    if node.op == "-" and isinstance(left, ListOf) and isinstance(right, ListOf):
        one, other = body.source(node.left), body.source(node.right)
        written = f"[for x in {one} if not (x in {other}) {{ x }}]"
        return f"write `{written}`", Edit(node.at, node.end, written)
    if node.op == "+" and any(texts):
        side = node.right if texts[0] else node.left
        text = body.source(side)
        advice = f'write `str({text})`, or put it inside the text: `"… {{{text}}}"`'
        return advice, _wrapped(body, side, "str")
    if ANY in (left, right):
        side = node.left if left == ANY else node.right
        kind = "[any]" if node.op == "in" else type_label(right if left == ANY else left)
        written = f"({body.source(side)} as {kind})"
        return f"say what it is: `{written}`", Edit(side.at, side.end, written)
    return "", None


def _wrapped(body: BodyCheck, side: Expr, function: str) -> Edit:
    return Edit(side.at, side.end, f"{function}({body.source(side)})")


def _order(body: BodyCheck, node: Binary, left: Type, right: Type) -> Type:
    alike = _as_text(left) == _as_text(right) or {left, right} == {INT, FLOAT}
    if not (alike and _as_text(left) in _ORDERED):
        _no_such(body, node, left, right)
    return BOOL


def _equality(body: BodyCheck, node: Binary, left: Type) -> Type:
    hint = without_null(left)
    right = infer(body, node.right, hint if hint == FLOAT or isinstance(hint, ChoiceOf) else None)
    if isinstance(without_null(right), ChoiceOf) and constant_text(node.left) is not None:
        left = infer(body, node.left, right)
    left, right = _as_floats(body, node, left, right)
    if not _comparable(body, left, right):
        names = f"{_label(body, left)} and {_label(body, right)}"
        body.reports.error(
            "never-equal", node, f"{names} are never equal", *_fixed(body, node, left, right)
        )
    _test_null(body, node, left, right)
    return BOOL


def _comparable(body: BodyCheck, left: Type, right: Type) -> bool:
    if UNKNOWN in (left, right):
        return True
    if NOTHING in (left, right) or any(
        isinstance(kind, FutureOf | StreamOf) for kind in (left, right)
    ):
        return False
    if NULL in (left, right) or ANY in (left, right) or {left, right} == {INT, FLOAT}:
        return True
    return body.type_variables.joined(left, right) is not None


def _test_null(body: BodyCheck, node: Binary, left: Type, right: Type) -> None:
    """`x != null`: where it is true, x is not null."""
    side = node.left if right == NULL else node.right if left == NULL else None
    if side is None or isinstance(side, Word):
        return
    kind = body.type_variables.seen(left if right == NULL else right)
    if not isinstance(kind, OptionalOf):
        if kind not in (ANY, UNKNOWN, NULL) and not body.type_variables.is_open(kind):
            body.reports.warn(
                "never-null", node, f"{type_label(body.type_variables.full(kind))} is never null"
            )
        return
    place = body.scopes.place(side)
    if place is not None:
        known: Facts = {place: kind.inner}
        body.tests[id(node)] = (known, {}) if node.op == "!=" else ({}, known)


def _within(body: BodyCheck, node: Binary, left: Type) -> Type:
    choice = without_null(left)
    right = infer(body, node.right, ListOf(choice) if isinstance(choice, ChoiceOf) else None)
    match right:
        case ListOf(inner=inner):
            fits = _comparable(body, left, inner)
        case MapOf():
            fits = body.type_variables.fits(left, STR)
        case Plain():
            fits = right == UNKNOWN or (right == STR and body.type_variables.fits(left, STR))
        case _:
            fits = False
    if not fits:
        _no_such(body, node, left, right)
    return BOOL


def _default(body: BodyCheck, node: Binary, left: Type) -> Type:
    if left == NULL:
        return infer(body, node.right)
    if not isinstance(left, OptionalOf):
        right = infer(body, node.right, left)
        warned = isinstance(node.left, Binary) and node.left.op == "??"
        if left not in (ANY, UNKNOWN) and not warned:
            body.reports.warn(
                "never-null",
                node,
                f"the left side is {_label(body, left)}, which is never null",
                f"write `{body.source(node.left)}`",
                Edit(node.at, node.end, body.source(node.left)),
            )
        return left if left != ANY else ANY if right != UNKNOWN else UNKNOWN
    right = infer(body, node.right, left.inner)
    joined = body.type_variables.joined(left.inner, right)
    if joined is None:
        refuse(body, node.right, right, left.inner, "the right side of `??`")
        return UNKNOWN
    return joined


def _logic(body: BodyCheck, node: Binary, left: Type) -> Type:
    _must_be_bool(body, node, node.left, left)
    one = body.tests.get(id(node.left), _NO_FACTS)
    before = body.scopes.facts
    body.scopes.know(one[0] if node.op == "and" else one[1])
    right = infer(body, node.right, BOOL)
    body.scopes.facts = before
    _must_be_bool(body, node, node.right, right)
    other = body.tests.get(id(node.right), _NO_FACTS)
    if one is not _NO_FACTS or other is not _NO_FACTS:
        both = ({**one[0], **other[0]}, {**one[1], **other[1]})
        either = (merged([one[0], other[0]]), merged([one[1], other[1]]))
        body.tests[id(node)] = (both[0], either[1]) if node.op == "and" else (either[0], both[1])
    return BOOL


def _must_be_bool(body: BodyCheck, node: Binary, side: Expr, kind: Type) -> None:
    if not body.type_variables.fits(kind, BOOL):
        send = body.sent.get(id(node)) if side is node.left else None
        advice = None if send is None else answer_compared(body, send)
        refuse(body, side, kind, BOOL, f"a side of `{node.op}`", advice)


def _unary(body: BodyCheck, node: Unary, expected: Type | None) -> Type:
    if node.op == "not":
        check(body, node.of, BOOL, "what stands after `not`")
        found = body.tests.get(id(node.of))
        if found is not None:
            body.tests[id(node)] = (found[1], found[0])
        return BOOL
    kind = infer(body, node.of, expected)
    if kind in (INT, FLOAT, MONEY, UNKNOWN):
        return kind
    refuse(body, node.of, kind, INT, "what stands after `-`")
    return UNKNOWN


def _label(body: BodyCheck, kind: Type) -> str:
    return type_label(body.type_variables.full(kind))


# Casts.


def _cast(body: BodyCheck, node: Cast, _want: Type | None) -> Type:
    to = written(body.program, body.names, node.to)
    is_known = isinstance(node.of, Text | ListLit | MapLit)
    kind = infer(body, node.of, to if is_known else None)
    if is_known and is_longer(kind, to):
        refuse(body, node.of, kind, to, "what is cast")
    elif not _may_be(body, kind, to):
        text, wanted = body.source(node.of), type_label(to)
        converts = wanted in ("int", "float", "str")
        body.reports.error(
            "never-fits",
            node,
            f"{type_label(body.type_variables.full(kind))} is never {wanted}; "
            "`as` checks, it does not convert",
            f"write `{wanted}({text})`" if converts else "",
            Edit(node.at, node.end, f"{wanted}({text})") if converts else None,
        )
    return to


def _may_be(body: BodyCheck, kind: Type, to: Type) -> bool:
    if kind == ANY or UNKNOWN in (kind, to):
        return True
    match kind, to:
        case OptionalOf(inner=inner), _:
            return to == NULL or _may_be(body, inner, to)
        case _, OptionalOf(inner=inner):
            return _may_be(body, kind, inner)
        case (ListOf(inner=one), ListOf(inner=other)) | (MapOf(inner=one), MapOf(inner=other)):
            return _may_be(body, one, other)
        case ChoiceOf(choices=one), ChoiceOf(choices=other):
            return bool(set(one) & set(other))
        case _:
            return body.type_variables.fits(to, kind) or body.type_variables.fits(kind, to)


OPERATORS: dict[type, Rule] = {
    Binary: _binary,
    Unary: _unary,
    Cast: _cast,
}
