"""The checker of expressions: names and types, before anything runs (pure).

| operation                  | result                                                              |
|----------------------------|---------------------------------------------------------------------|
| integer with integer       | integer; `/` truncates, `%` has the sign of the left side           |
| a decimal in it            | decimal; `+ -`: the places of the longer one, `*`: both added up,   |
|                            | at most 18; `/`: 18. Rounded half-even where that is not exact      |
| `ROUND(a * b, 2)`          | the exact product, rounded once; the same for `/`                   |
| fewer places than it has   | refused: say `ROUND(e, 2)`. More places are added by themselves     |
| text beside an enum        | has to be one of its names                                          |

`SUM(accounts.balance)` and `all(accounts.balance >= 0)` run over the one collection in them.
"""

import re
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from vegakit.contracts.expressions import KEYWORDS, ExpressionError, Term, parse_expression
from vegakit.contracts.node_types import (
    BOOLEAN,
    INTEGER,
    MAX_SCALE,
    TIMESTAMP,
    ArrayType,
    CollectionType,
    DecimalType,
    EnumType,
    IntegerType,
    MapType,
    NodeType,
    NodeValueError,
    RecordType,
    SetType,
    TextType,
    TimestampType,
    read_decimal,
    read_value,
    show_type,
)
from vegakit.contracts.typed import (
    MAX_COST,
    Arithmetic,
    ArrayMade,
    Conditional,
    Constant,
    Expression,
    FieldOf,
    FunctionCall,
    Inverted,
    ItemLoop,
    ItemOf,
    Logic,
    LoopKind,
    Membership,
    NamedValue,
    Negated,
    RecordMade,
    Relation,
    Rescaled,
    cost_of,
    item_type,
)
from vegakit.errors import did_you_mean

_NAME = re.compile(r"[a-z](?:[a-z0-9_]{0,62}[a-z0-9])?")
_NUMBERS = (IntegerType, DecimalType)
_ORDERED = (IntegerType, DecimalType, TextType, TimestampType)


class NameScope(NamedTuple):
    """The names that an expression may use. `old` are those of `old(…)`: of each the variable it
    stands for; None where there is no before."""

    names: Mapping[str, NodeType]
    old: Mapping[str, NamedValue] | None = None

    def having(self, name: str, kind: NodeType) -> "NameScope":
        """Return the scope with one more name."""
        return NameScope({**self.names, name: kind}, self.old)


def check_expression(
    text: str, scope: NameScope, wanted: NodeType | None = None, what: str = "this"
) -> Expression:
    """Return the typed tree of an expression, of the wanted type if there is one; or raise
    `ExpressionError` with the place and what to write."""
    checker = _Checker(text, scope)
    term = parse_expression(text)
    found = checker.check(term)
    if wanted is not None:
        found = checker.fitted(found, wanted, term.at, what)
    if (cost := cost_of(found)) > MAX_COST:
        raise ExpressionError(
            text,
            0,
            f"it may take {min(cost, 10**18):,} steps, and {MAX_COST:,} are allowed; bound the "
            "collections in their types, as in array<integer, 50>, or nest fewer loops",
        )
    return found


def name_fault(name: str, taken: Collection[str]) -> str:
    """Return why a name cannot be given to something, or nothing. Names that end with an underscore
    are made by us, so that they never meet one of these."""
    if not _NAME.fullmatch(name):
        return f"{name[:40]!a} is no name; write small letters, digits and _ between them"
    if name in KEYWORDS or name in taken:
        return f"{name!a} is a name already; choose another one"
    return ""


def fit(part: Expression, wanted: NodeType) -> Expression | None:
    """Return an expression as one of the wanted type, or None. Nothing is lost by it."""
    if part.type == wanted:
        return part
    match part, wanted:
        case _, DecimalType(scale=scale) if isinstance(part.type, _NUMBERS):
            has = part.type.scale if isinstance(part.type, DecimalType) else 0
            return Rescaled(wanted, part) if has <= scale else None
        case Constant(type=TextType(), value=value), EnumType(choices=choices):
            return Constant(wanted, value) if value in choices else None
        case ArrayMade(items=items), ArrayType(item=kind, max_items=most):
            made = [fit(item, kind) for item in items]
            fits = len(items) <= most and None not in made
            return ArrayMade(wanted, tuple(item for item in made if item)) if fits else None
        case RecordMade(fields=fields), RecordType():
            return _fit_record(dict(fields), wanted)
        case Conditional(), _:
            then, otherwise = fit(part.then, wanted), fit(part.otherwise, wanted)
            return Conditional(wanted, part.test, then, otherwise) if then and otherwise else None
        case _:
            # The same values in a wider type: nothing has to be done to them.
            return part if _is_within(part.type, wanted) else None


def _fit_record(fields: dict[str, Expression], wanted: RecordType) -> Expression | None:
    if {*fields} != {name for name, _ in wanted.fields}:
        return None
    made = [(name, fit(fields[name], kind)) for name, kind in wanted.fields]
    whole = tuple((name, part) for name, part in made if part)
    return RecordMade(wanted, whole) if len(whole) == len(made) else None


def _is_within(kind: NodeType, wanted: NodeType) -> bool:
    match kind, wanted:
        case TextType(max_length=has), TextType(max_length=most):
            return has <= most
        case EnumType(choices=choices), TextType(max_length=most):
            return max(map(len, choices)) <= most
        case EnumType(choices=choices), EnumType(choices=known):
            return {*choices} <= {*known}
        case (ArrayType(), ArrayType()) | (SetType(), SetType()):
            fits = kind.item == wanted.item or _is_within(kind.item, wanted.item)
            return kind.max_items <= wanted.max_items and fits
        case MapType(), MapType():
            pairs = ((kind.key, wanted.key), (kind.value, wanted.value))
            fits = all(has == wants or _is_within(has, wants) for has, wants in pairs)
            return kind.max_items <= wanted.max_items and fits
        case RecordType(fields=fields), RecordType(fields=known):
            return len(fields) == len(known) and all(
                name == other and (has == wants or _is_within(has, wants))
                for (name, has), (other, wants) in zip(fields, known, strict=True)
            )
        case _:
            return kind == wanted


def joined(left: NodeType, right: NodeType) -> NodeType | None:
    """Return the type that both sides fit, or None."""
    if left == right:
        return left
    match left, right:
        case ((DecimalType() | IntegerType()), (DecimalType() | IntegerType())):
            return DecimalType(max(_scale(left), _scale(right)))
        case TextType(max_length=one), TextType(max_length=other):
            return TextType(max(one, other))
        case _ if _is_within(left, right):
            return right
        case _:
            return left if _is_within(right, left) else None


def _scale(kind: NodeType) -> int:
    return kind.scale if isinstance(kind, DecimalType) else 0


class _Checker:
    def __init__(self, text: str, scope: NameScope) -> None:
        self._text, self._scope = text, scope
        self._in_old = False
        self._items: dict[str, NamedValue] = {}

    def error(self, at: int, reason: str) -> ExpressionError:
        return ExpressionError(self._text, at, reason)

    def check(self, term: Term) -> Expression:
        found = self._items.get(_path(term))
        return found or _CHECKS[term.kind](self, term)

    def fitted(self, part: Expression, wanted: NodeType, at: int, what: str) -> Expression:
        """Return an expression as one of the wanted type, or raise what to write instead."""
        if found := fit(part, wanted):
            return found
        fix = ""
        if isinstance(part.type, DecimalType) and isinstance(wanted, DecimalType):
            fix = f"; write ROUND(…, {wanted.scale})"
        elif isinstance(part, Constant) and isinstance(wanted, EnumType):
            fix = f"; {did_you_mean(str(part.value), wanted.choices)}"
        elif isinstance(part.type, DecimalType) and isinstance(wanted, IntegerType):
            fix = "; a decimal is never made an integer by itself"
        raise self.error(
            at, f"{what} is a {show_type(part.type)}, and {show_type(wanted)} is needed{fix}"
        )

    # Names and literals.

    def literal(self, term: Term) -> Expression:
        match term.kind:
            case "integer":
                return Constant(INTEGER, int(term.text))
            case "decimal":
                scale = len(term.text.partition(".")[2])
                return Constant(DecimalType(scale), read_decimal(term.text, scale))
            case "boolean":
                return Constant(BOOLEAN, term.text == "true")
            case _:
                return Constant(TextType(max(1, len(term.text))), term.text)

    def name(self, term: Term) -> Expression:
        name = term.text
        if self._in_old:
            old = self._scope.old or {}
            if name in old:
                return old[name]
            raise self.error(
                term.at, f"{name[:40]!a} is not known before the run; {did_you_mean(name, old)}"
            )
        if name not in self._scope.names:
            raise self.error(
                term.at,
                f"there is no {name[:40]!a} here; {did_you_mean(name, self._scope.names)}",
            )
        return NamedValue(self._scope.names[name], name)

    def old(self, term: Term) -> Expression:
        if self._scope.old is None:
            raise self.error(term.at, "old(…) stands in postconditions only; take it out")
        if self._in_old:
            raise self.error(term.at, "old(…) stands in old(…); one is enough")
        self._in_old = True
        found = self.check(term.parts[0])
        self._in_old = False
        return found

    def field(self, term: Term) -> Expression:
        record = self.check(term.parts[0])
        if isinstance(record.type, CollectionType):
            raise self.error(
                term.at,
                f"{_path(term.parts[0]) or 'this'} is a {show_type(record.type)} and has no "
                f"fields; write FORALL x IN …: x.{term.text}, SUM(…) or all(…)",
            )
        if not isinstance(record.type, RecordType):
            raise self.error(term.at, f"a {show_type(record.type)} has no fields")
        kind = record.type.field(term.text)
        if kind is None:
            known = [name for name, _ in record.type.fields]
            raise self.error(
                term.at,
                f"{show_type(record.type)} has no field {term.text[:40]!a}; "
                f"{did_you_mean(term.text, known)}",
            )
        return FieldOf(kind, record, term.text)

    def item(self, term: Term) -> Expression:
        collection, key = self.check(term.parts[0]), self.check(term.parts[1])
        match collection.type:
            case ArrayType(item=kind):
                return ItemOf(kind, collection, self.fitted(key, INTEGER, term.at, "the index"))
            case MapType(key=wanted, value=kind):
                return ItemOf(kind, collection, self.fitted(key, wanted, term.at, "the key"))
            case other:
                raise self.error(term.at, f"a {show_type(other)} has no items by number or key")

    def made_list(self, term: Term) -> Expression:
        if not term.parts:
            raise self.error(term.at, "a list has at least one item here; compare LENGTH(…) with 0")
        items = [self.check(part) for part in term.parts]
        kind: NodeType | None = items[0].type
        for item, part in zip(items[1:], term.parts[1:], strict=True):
            kind = joined(kind, item.type) if kind else None
            if kind is None:
                raise self.error(part.at, "the items of a list are of one type; this one is not")
        fitted = [self.fitted(item, kind, term.at, "an item") for item in items] if kind else []
        return ArrayMade(ArrayType(fitted[0].type, len(fitted)), (*fitted,))

    def made_record(self, term: Term) -> Expression:
        fields = tuple((entry.text, self.check(entry.parts[0])) for entry in term.parts)
        names = [name for name, _ in fields]
        if len({*names}) != len(names) or not names:
            raise self.error(term.at, "the fields of a record are named once each, at least one")
        return RecordMade(RecordType(tuple((name, part.type) for name, part in fields)), fields)

    # Operators.

    def negated(self, term: Term) -> Expression:
        part = self._number(term.parts[0])
        return Negated(part.type, part)

    def _number(self, term: Term) -> Expression:
        part = self.check(term)
        if not isinstance(part.type, _NUMBERS):
            raise self.error(term.at, f"a number is needed here, and this is {_a(part)}")
        return part

    def boolean(self, term: Term) -> Expression:
        part = self.check(term)
        if part.type != BOOLEAN:
            raise self.error(
                term.at, f"a condition is needed here, and this is {_a(part)}; compare it"
            )
        return part

    def inverted(self, term: Term) -> Expression:
        return Inverted(BOOLEAN, self.boolean(term.parts[0]))

    def binary(self, term: Term) -> Expression:
        operator, (left, right) = term.text, term.parts
        if operator in ("AND", "OR"):
            return Logic(BOOLEAN, operator, self.boolean(left), self.boolean(right))
        if operator == "IN":
            return self._member(term, left, right)
        if operator == "CONTAINS":
            return self._member(term, right, left)
        return self._arithmetic(term) if operator in "+-*/%" else self._relation(term)

    def _arithmetic(self, term: Term) -> Expression:
        operator = term.text
        left, right = (self._number(part) for part in term.parts)
        if isinstance(left.type, IntegerType) and isinstance(right.type, IntegerType):
            return Arithmetic(INTEGER, operator, left, right)
        if operator == "%":
            raise self.error(term.at, "% is for integers; compare with ROUND(…, 0) instead")
        scales = _scale(left.type), _scale(right.type)
        if operator in "+-":
            kind = DecimalType(max(scales))
            return Arithmetic(kind, operator, _as(left, kind), _as(right, kind))
        kind = DecimalType(MAX_SCALE if operator == "/" else min(sum(scales), MAX_SCALE))
        sides = [_as(side, DecimalType(_scale(side.type))) for side in (left, right)]
        return Arithmetic(kind, operator, *sides)

    def _relation(self, term: Term) -> Expression:
        left, right = (self.check(part) for part in term.parts)
        if isinstance(left.type, _NUMBERS) and isinstance(right.type, _NUMBERS):
            return Relation(BOOLEAN, term.text, left, right)
        left, right = self._alike(term, left, right)
        is_ordered = isinstance(left.type, _ORDERED)
        if term.text not in ("==", "!=") and not is_ordered:
            raise self.error(term.at, f"{show_type(left.type)} has no order; compare with == or !=")
        return Relation(BOOLEAN, term.text, left, right)

    def _alike(
        self, term: Term, left: Expression, right: Expression
    ) -> tuple[Expression, Expression]:
        """Return both sides as ones that can be compared."""
        for one, other in ((left, right), (right, left)):
            if isinstance(one, Constant) and isinstance(other.type, EnumType):
                fitted = self.fitted(one, other.type, term.at, f"{str(one.value)[:40]!a}")
                return (fitted, other) if one is left else (other, fitted)
        kind = joined(left.type, right.type)
        sides = (fit(left, kind), fit(right, kind)) if kind else (fit(left, right.type), right)
        if sides[0] is None or sides[1] is None:
            raise self.error(
                term.at, f"{_a(left)} and {_a(right)} are never equal; compare like with like"
            )
        return sides[0], sides[1]

    def _member(self, term: Term, item_term: Term, whole_term: Term) -> Expression:
        item, whole = self.check(item_term), self.check(whole_term)
        if isinstance(whole, ArrayMade):
            return self._listed(term, item, whole)
        match whole.type:
            case ArrayType(item=kind) | SetType(item=kind) | MapType(key=kind):
                return Membership(BOOLEAN, self.fitted(item, kind, item_term.at, "this"), whole)
            case TextType() if isinstance(item.type, TextType):
                return Membership(BOOLEAN, item, whole)
            case other:
                raise self.error(
                    term.at, f"nothing is in a {show_type(other)}; a collection is needed"
                )

    def _listed(self, term: Term, item: Expression, whole: ArrayMade) -> Expression:
        pairs = [self._alike(term, item, part) for part in whole.items]
        kind: NodeType = item.type
        for _, part in pairs:
            kind = joined(kind, part.type) or kind
        items = tuple(self.fitted(part, kind, term.at, "an item") for _, part in pairs)
        array = ArrayMade(ArrayType(kind, len(items)), items)
        return Membership(BOOLEAN, self.fitted(item, kind, term.at, "this"), array)

    def conditional(self, term: Term) -> Expression:
        test = self.boolean(term.parts[0])
        then, otherwise = (self.check(part) for part in term.parts[1:])
        kind = joined(then.type, otherwise.type)
        sides = [fit(side, kind) for side in (then, otherwise)] if kind else [None]
        if kind is None or None in sides:
            raise self.error(
                term.at, f"THEN gives {_a(then)} and ELSE {_a(otherwise)}; make them alike"
            )
        return Conditional(kind, test, *(side for side in sides if side))

    # Functions and loops.

    def call(self, term: Term) -> Expression:
        return _FUNCTION_CHECKS[term.text](self, term)

    def absolute(self, term: Term) -> Expression:
        part = self._number(term.parts[0])
        return FunctionCall(part.type, "ABS", (part,))

    def length(self, term: Term) -> Expression:
        part = self.check(term.parts[0])
        if not isinstance(part.type, CollectionType | TextType):
            raise self.error(term.at, f"{_a(part)} has no length")
        return FunctionCall(INTEGER, "LENGTH", (part,))

    def extreme(self, term: Term) -> Expression:
        left, right = (self._number(part) for part in term.parts)
        kind = joined(left.type, right.type) or left.type
        return FunctionCall(kind, term.text, (_as(left, kind), _as(right, kind)))

    def rounded(self, term: Term) -> Expression:
        places = term.parts[1]
        if places.kind != "integer" or not 0 <= int(places.text) <= MAX_SCALE:
            raise self.error(places.at, f"the places are a number from 0 to {MAX_SCALE}")
        kind, part = DecimalType(int(places.text)), self._number(term.parts[0])
        # Rounded once only, unless it says twice: ROUND(ROUND(a * b, 0), 2) has no cents.
        can_be_exact = isinstance(part.type, DecimalType) and term.parts[0].text != "ROUND"
        if isinstance(part, Arithmetic) and part.operator in "*/" and can_be_exact:
            return Arithmetic(kind, part.operator, part.left, part.right)
        return part if part.type == kind else Rescaled(kind, part)

    def seconds(self, term: Term) -> Expression:
        sides = [self.check(part) for part in term.parts]
        for side, part in zip(sides, term.parts, strict=True):
            if side.type != TIMESTAMP:
                raise self.error(part.at, f"a timestamp is needed here, and this is {_a(side)}")
        return FunctionCall(INTEGER, "SECONDS", (*sides,))

    def timestamp(self, term: Term) -> Expression:
        if term.parts[0].kind != "text":
            raise self.error(term.at, "write an instant: TIMESTAMP('2026-01-31T12:00:00Z')")
        try:
            return Constant(TIMESTAMP, read_value(TIMESTAMP, term.parts[0].text, "TIMESTAMP"))
        except NodeValueError as error:
            raise self.error(term.parts[0].at, str(error)) from None

    def loop(self, term: Term) -> Expression:
        """Check a loop. One without a name of its own runs over the only collection in it."""
        kind = LoopKind.FORALL if term.kind == "all" else LoopKind(term.kind)
        if term.text:
            return self._named_loop(term, kind)
        paths = {_path(found): found for found in self._collections(term.parts[0])}
        if len(paths) != 1:
            fix = "write FORALL x IN …: …" if term.kind == "all" else "write SUM(x IN …: …)"
            raise self.error(
                term.at,
                f"{term.kind}(…) runs over the one collection in it, and there "
                f"{'is none' if not paths else 'are ' + ' and '.join(paths)}; {fix}",
            )
        [(path, found)] = paths.items()
        over = self.check(found)
        assert isinstance(over.type, CollectionType)
        variable = NamedValue(item_type(over.type), self._fresh())
        self._items[path] = variable
        body = self._body(term.parts[0], kind)
        del self._items[path]
        return self._looped(kind, variable.name, over, body)

    def _named_loop(self, term: Term, kind: LoopKind) -> Expression:
        over = self.check(term.parts[0])
        if not isinstance(over.type, CollectionType):
            raise self.error(
                term.parts[0].at, f"{term.kind} runs over a collection, and this is {_a(over)}"
            )
        if fault := name_fault(term.text, self._scope.names):
            raise self.error(term.at, fault)
        before = self._scope
        self._scope = before.having(term.text, item_type(over.type))
        body = self._body(term.parts[1], kind)
        self._scope = before
        return self._looped(kind, term.text, over, body)

    def _body(self, term: Term, kind: LoopKind) -> Expression:
        return self._number(term) if kind is LoopKind.SUM else self.boolean(term)

    def _looped(self, kind: LoopKind, name: str, over: Expression, body: Expression) -> Expression:
        return ItemLoop(body.type if kind is LoopKind.SUM else BOOLEAN, kind, name, over, body)

    def _fresh(self) -> str:
        taken = {*self._scope.names, *(each.name for each in self._items.values())}
        number = 1
        while (name := f"each{number if number > 1 else ''}") in taken:
            number += 1
        return name

    def _collections(self, term: Term) -> list[Term]:
        """Return the outermost paths in a term that are collections."""
        if term.kind in ("FORALL", "EXISTS", "SUM", "all"):
            return []
        if term.kind not in ("name", "field"):
            return [found for part in term.parts for found in self._collections(part)]
        inner = self._collections(term.parts[0]) if term.kind == "field" else []
        if inner:
            return inner
        return [term] if isinstance(self.check(term).type, CollectionType) else []


def _a(part: Expression) -> str:
    return f"a {show_type(part.type)}"


def _as(part: Expression, kind: NodeType) -> Expression:
    return part if part.type == kind else Rescaled(kind, part)


def _path(term: Term) -> str:
    """Return `order.items` of a name with fields, and nothing of other terms."""
    if term.kind == "name":
        return term.text
    inner = _path(term.parts[0]) if term.kind == "field" else ""
    return f"{inner}.{term.text}" if inner else ""


_CHECKS: dict[str, Callable[[_Checker, Term], Expression]] = {
    **dict.fromkeys(("integer", "decimal", "text", "boolean"), _Checker.literal),
    "name": _Checker.name,
    "field": _Checker.field,
    "item": _Checker.item,
    "negate": _Checker.negated,
    "NOT": _Checker.inverted,
    "binary": _Checker.binary,
    **dict.fromkeys(("FORALL", "EXISTS", "SUM", "all"), _Checker.loop),
    "old": _Checker.old,
    "IF": _Checker.conditional,
    "list": _Checker.made_list,
    "record": _Checker.made_record,
    "call": _Checker.call,
}
_FUNCTION_CHECKS: dict[str, Callable[[_Checker, Term], Expression]] = {
    "ABS": _Checker.absolute,
    "LENGTH": _Checker.length,
    "MAX": _Checker.extreme,
    "MIN": _Checker.extreme,
    "ROUND": _Checker.rounded,
    "SECONDS": _Checker.seconds,
    "TIMESTAMP": _Checker.timestamp,
}
