"""Values of a node as terms: records, collections, and the inputs as variables (host).

Collections are unrolled into slots, each with the condition under which it holds an item. What is
filtered keeps its slots under a stricter condition, and what is sorted keeps them in another order,
so that sums, quantifiers and lengths of it are those of the same slots; only what asks for a place
(`reduce`, `array[n]`) pays for the order. A choice between two collections has the slots of both.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from vegakit.contracts import (
    DECIMAL_LIMIT,
    INTEGER_MAX,
    INTEGER_MIN,
    ArrayType,
    BooleanType,
    BytesType,
    Constant,
    DecimalType,
    EnumType,
    Expression,
    FunctionCall,
    IntegerType,
    MapType,
    Membership,
    NodeProgram,
    NodeType,
    NodeValueError,
    RecordType,
    SetType,
    TextType,
    TimestampType,
    Value,
    walk,
)
from vegakit.vesper.proof_terms import NotExpressible, Number, Term, Terms, Texts, known

Symbol: TypeAlias = Any
"""A value of a node as terms: a `Number`, a condition or text, a dict of fields, or `Items`."""
UNBOUNDED = 10**60
_INSTANTS = (-62_135_596_800_000_000, 253_402_300_799_999_999)


class Slot(NamedTuple):
    """A place of a collection: whether it holds something, and what. Of a map it is a pair."""

    present: Term
    value: Symbol


class Items:
    """A collection. `before(one, other)` says whether a slot stands before another; without it they
    stand as they are. Those of `is_prefix` are filled from the first one on."""

    def __init__(
        self,
        slots: list[Slot],
        before: Callable[[int, int], Term] | None = None,
        count: Number | None = None,
        *,
        is_prefix: bool = False,
    ) -> None:
        self.slots, self.before = slots, before
        self.count, self.is_prefix = count, is_prefix
        self.places: list[Number] | None = None
        self.on_sum: Callable[[list[Number], Number], None] | None = None

    def holding(self, values: Iterable[Symbol]) -> "Items":
        """Return a collection with other values in the same places."""
        slots = [Slot(slot.present, value) for slot, value in zip(self.slots, values, strict=True)]
        return Items(slots, self.before, self.count, is_prefix=self.is_prefix)

    def stands_before(self, one: int, other: int) -> Term:
        """Return whether a slot stands before another."""
        return one < other if self.before is None else self.before(one, other)


def range_of(kind: NodeType) -> tuple[int, int]:
    """Return the least and the greatest number of a type."""
    if isinstance(kind, DecimalType):
        return 1 - DECIMAL_LIMIT, DECIMAL_LIMIT - 1
    return INTEGER_MIN, INTEGER_MAX


def number_paths(kind: NodeType) -> list[tuple[tuple[str, ...], NodeType]]:
    """Return the fields in which a type has numbers, and which."""
    if isinstance(kind, RecordType):
        return [
            ((name, *path), number)
            for name, part in kind.fields
            for path, number in number_paths(part)
        ]
    return [((), kind)] if isinstance(kind, IntegerType | DecimalType) else []


def field_at(value: Symbol, path: tuple[str, ...]) -> Number:
    """Return a number in a value."""
    for name in path:
        value = value[name]
    return value


class Values:
    """Makes and compares values."""

    def __init__(self, terms: Terms, texts: Texts) -> None:
        self.terms, self.texts = terms, texts

    def constant(self, kind: NodeType, value: Value) -> Symbol:
        """Return a value that is written out."""
        match kind:
            case TextType() | EnumType():
                return self.texts.constant(value)
            case BooleanType():
                return value
            case IntegerType() | DecimalType() | TimestampType():
                return known(value)
            case ArrayType(item=item) | SetType(item=item):
                each = value if isinstance(kind, ArrayType) else sorted(value)
                return filled([self.constant(item, one) for one in each])
            case MapType(key=key, value=inner):
                pairs = (
                    (self.constant(key, k), self.constant(inner, value[k])) for k in sorted(value)
                )
                return filled([*pairs])
            case RecordType(fields=fields):
                return {name: self.constant(part, value[name]) for name, part in fields}
            case _:
                raise NotExpressible(f"a constant of {type(kind).__name__}")

    def anything(self, kind: NodeType) -> Symbol:
        """Return a value that is never looked at: what traps needs one, too."""
        return self.constant(kind, _ANYTHING[type(kind)](kind))

    def joined(self, kind: NodeType, test: Term, then: Symbol, otherwise: Symbol) -> Symbol:
        """Return one of two values."""
        if isinstance(test, bool) or then is otherwise:
            return then if test is not False else otherwise
        match kind:
            case IntegerType() | DecimalType() | TimestampType():
                return self.terms.chosen(test, then, otherwise)
            case RecordType(fields=fields):
                return {
                    name: self.joined(part, test, then[name], otherwise[name])
                    for name, part in fields
                }
            case ArrayType() | SetType() | MapType():
                return self._both(test, then, otherwise)
            case _:
                return self.terms.either(test, then, otherwise)

    def _both(self, test: Term, then: Items, otherwise: Items) -> Items:
        cut = len(then.slots)

        def before(one: int, other: int) -> Term:
            # Slots of different sides are never present together.
            if one < cut and other < cut:
                return then.stands_before(one, other)
            return one >= cut <= other and otherwise.stands_before(one - cut, other - cut)

        sides = ((test, then), (self.terms.no(test), otherwise))
        slots = [
            Slot(self.terms.all_of((chosen, slot.present)), slot.value)
            for chosen, side in sides
            for slot in side.slots
        ]
        is_plain = then.before is None and otherwise.before is None
        counts = self.terms.chosen(test, self.count(then), self.count(otherwise))
        return Items(slots, None if is_plain else before, counts)

    def equal(self, kind: NodeType, left: Symbol, right: Symbol) -> Term:
        """Return whether two values of one type are equal."""
        terms = self.terms
        match kind:
            case IntegerType() | DecimalType() | TimestampType():
                return terms.compared("==", left, right)
            case RecordType(fields=fields):
                return terms.all_of(
                    self.equal(part, left[name], right[name]) for name, part in fields
                )
            case ArrayType(item=item):
                return self._equal_arrays(item, left, right)
            case SetType(item=item):
                within = (
                    terms.implied(slot.present, self.member(item, slot.value, right))
                    for slot in left.slots
                )
                return terms.all_of((self._equal_counts(left, right), *within))
            case MapType(value=value):
                found = [(slot, *self.entry(kind, right, slot.value[0])) for slot in left.slots]
                entries = (
                    terms.implied(
                        slot.present, terms.all_of((has, self.equal(value, slot.value[1], other)))
                    )
                    for slot, has, other in found
                )
                return terms.all_of((self._equal_counts(left, right), *entries))
            case _:
                return terms.same(left, right)

    def _equal_counts(self, left: Items, right: Items) -> Term:
        return self.terms.compared("==", self.count(left), self.count(right))

    def _equal_arrays(self, item: NodeType, left: Items, right: Items) -> Term:
        terms = self.terms
        if left is right:
            return True
        parts = [self._equal_counts(left, right)]
        for one, place in zip(left.slots, self.places(left), strict=True):
            for other, where in zip(right.slots, self.places(right), strict=True):
                met = (one.present, other.present, terms.compared("==", place, where))
                if (test := terms.all_of(met)) is not False:
                    parts.append(terms.implied(test, self.equal(item, one.value, other.value)))
        return terms.all_of(parts)

    def less(self, kind: NodeType, left: Symbol, right: Symbol) -> Term:
        """Return whether a scalar stands before another."""
        match kind:
            case IntegerType() | DecimalType() | TimestampType():
                return self.terms.compared("<", left, right)
            case BooleanType():
                return self.terms.all_of((self.terms.no(left), right))
            case _:
                return self.texts.less(left, right)

    # Collections.

    def count(self, items: Items) -> Number:
        """Return how many items there are."""
        if items.count is None:
            total = sum(self._one_if(slot.present) for slot in items.slots)
            items.count = self.terms.named("count", Number(total, 0, len(items.slots)))
        return items.count

    def _one_if(self, condition: Term) -> Term:
        """Return 1 under a condition and 0 otherwise. Those that are not something are what is left
        by those that are: written so, both counts add up without trying every item."""
        z3 = self.terms.z3
        parts: list[Term] = condition.children() if z3.is_and(condition) else []
        if parts and z3.is_not(parts[-1]):
            given, opposite = self.terms.all_of(parts[:-1]), parts[-1].children()[0]
            return self._one_if(given) - self._one_if(self.terms.all_of((given, opposite)))
        return self.terms.either(condition, 1, 0)

    def places(self, items: Items) -> list[Number]:
        """Return the number of items before each slot."""
        if items.places is None:
            items.places = [self._place(items, at) for at in range(len(items.slots))]
        return items.places

    def _place(self, items: Items, at: int) -> Number:
        if items.is_prefix and items.before is None:
            return known(at)
        place = known(0)
        for other, slot in enumerate(items.slots):
            if other != at:
                met = self.terms.all_of((slot.present, items.stands_before(other, at)))
                place = self.terms.plus(place, self.terms.chosen(met, known(1), known(0)))
        return self.terms.named("place", place)

    def at_place(self, kind: NodeType, items: Items, place: Number) -> Symbol:
        """Return the item at a place; anything where there is none."""
        if not items.slots:
            return self.anything(kind)
        places, terms = self.places(items), self.terms
        if not (items.is_prefix and items.before is None):
            # Places are counted, so each of them is taken; the solver would need an induction.
            inside = terms.compared("<", place, self.count(items))
            taken = (
                terms.all_of((slot.present, terms.compared("==", where, place)))
                for slot, where in zip(items.slots, places, strict=True)
            )
            valid = terms.compared("<=", known(0), place)
            terms.facts[""].append(
                terms.implied(terms.all_of((valid, inside)), terms.any_of(taken))
            )
        found = items.slots[-1].value
        for slot, where in zip(items.slots[-2::-1], places[-2::-1], strict=True):
            met = terms.all_of((slot.present, terms.compared("==", where, place)))
            found = self.joined(kind, met, slot.value, found)
        return found

    def in_order(self, kind: NodeType, items: Items) -> Items:
        """Return items in slots that stand in their order. Sums over both are equal, which the
        solver would have to find out by trying all orders: it is told."""
        if items.before is None:
            return items
        count, slots = self.count(items), list[Slot]()
        for at in range(len(items.slots)):
            value = self.named(kind, self.at_place(kind, items, known(at)))
            slots.append(Slot(self.terms.compared("<", known(at), count), value))
        made = Items(slots, count=count, is_prefix=True)
        self._know_sums(kind, items, made)
        return made

    def named(self, kind: NodeType, value: Symbol) -> Symbol:
        """Return a value whose numbers are variables, with their values as definitions."""
        match kind:
            case IntegerType() | DecimalType() | TimestampType():
                made = self.terms.fresh("item", value.low, value.high)
                self.terms.define(made, self.terms.same(made.term, value.term))
                return made
            case RecordType(fields=fields):
                return {name: self.named(part, value[name]) for name, part in fields}
            case _:
                return value

    def unbounded(self, kind: NodeType) -> Symbol:
        """Return a value with bounds that no total of a loop exceeds."""
        if isinstance(kind, RecordType):
            return {name: self.unbounded(part) for name, part in kind.fields}
        return Number(0, -UNBOUNDED, UNBOUNDED)

    def any_of_type(self, kind: NodeType, like: list[Symbol]) -> Symbol:
        """Return a new value with the bounds that some others have together; None of a type that
        has collections in it."""
        match kind:
            case IntegerType() | DecimalType() | TimestampType():
                low, high = min(each.low for each in like), max(each.high for each in like)
                return self.terms.fresh("any", low, high)
            case BooleanType():
                return self.terms.boolean(self.terms.new_name("any"))
            case TextType(max_length=most):
                return self.texts.anything(most)
            case RecordType(fields=fields):
                made = {
                    name: self.any_of_type(part, [each[name] for each in like])
                    for name, part in fields
                }
                return None if None in made.values() else made
            case _:
                return None

    def _know_sums(self, kind: NodeType, items: Items, made: Items) -> None:
        for path, _ in number_paths(kind):
            sums = [
                sum(
                    self.terms.either(slot.present, field_at(slot.value, path).term, 0)
                    for slot in side.slots
                )
                for side in (items, made)
            ]
            for slot in made.slots:
                self.terms.know(field_at(slot.value, path), self.terms.same(*sums))

    def member(self, kind: NodeType, item: Symbol, whole: Items) -> Term:
        """Return whether an item is in a collection."""
        return self.terms.any_of(
            self.terms.all_of((slot.present, self.equal(kind, slot.value, item)))
            for slot in whole.slots
        )

    def entry(self, kind: MapType, whole: Items, key: Symbol) -> tuple[Term, Symbol]:
        """Return whether a map has a key, and its value there."""
        for slot in whole.slots:
            # The key of a loop over this map: no other slot has it.
            if slot.value[0] is key and not isinstance(key, int):
                return slot.present, slot.value[1]
        if not whole.slots:
            return False, self.anything(kind.value)
        met = [
            self.terms.all_of((slot.present, self.equal(kind.key, slot.value[0], key)))
            for slot in whole.slots
        ]
        found = whole.slots[-1].value[1]
        for test, slot in zip(met[-2::-1], whole.slots[-2::-1], strict=True):
            found = self.joined(kind.value, test, slot.value[1], found)
        return self.terms.any_of(met), found


def filled(values: list[Symbol]) -> Items:
    """Return a collection of values that are there."""
    slots = [Slot(True, value) for value in values]
    return Items(slots, count=known(len(slots)), is_prefix=True)


_ANYTHING: dict[type, Callable[[Symbol], Value]] = {
    **dict.fromkeys((IntegerType, DecimalType, TimestampType), lambda _: 0),
    **dict.fromkeys((ArrayType, SetType, MapType), lambda _: ()),
    **dict.fromkeys((TextType, BytesType), lambda _: ""),
    BooleanType: lambda _: False,
    EnumType: lambda kind: kind.choices[0],
    RecordType: lambda kind: {name: _ANYTHING[type(part)](part) for name, part in kind.fields},
}


# Inputs.


def texts_of(node: NodeProgram, terms: Terms) -> Texts:
    """Return how the texts of a node are told to the solver."""
    parts = [each for one in node_expressions(node) for each in walk(one)]
    kinds = [*(each.type for each in node.inputs), *(part.type for part in parts)]
    kinds += [state.record for state in node.states]
    kinds += [step.effect.result for step in node.steps if step.effect is not None]
    constants = {text for kind in kinds for text in _choices(kind)}
    constants |= {
        part.value for part in parts if isinstance(part, Constant) and isinstance(part.value, str)
    }
    has_parts = any(
        isinstance(part, Membership) and isinstance(part.whole.type, TextType | EnumType)
        for part in parts
    )
    texts = Texts(terms, constants, has_parts=has_parts)
    if not has_parts and any(
        isinstance(part, FunctionCall)
        and part.function == "LENGTH"
        and isinstance(part.arguments[0].type, TextType)
        for part in parts
    ):
        texts.measure()
    return texts


def node_expressions(node: NodeProgram) -> Iterator[Expression]:
    """Yield all expressions of a node, and of those that it calls."""
    yield from node.expressions
    for callee in node.callees:
        yield from node_expressions(callee)


def _choices(kind: NodeType) -> Iterator[str]:
    match kind:
        case EnumType(choices=choices):
            yield from choices
        case ArrayType(item=item) | SetType(item=item):
            yield from _choices(item)
        case MapType(key=key, value=value):
            yield from (*_choices(key), *_choices(value))
        case RecordType(fields=fields):
            for _, part in fields:
                yield from _choices(part)
        case _:
            pass


class InputTerms:
    """The inputs of a node as variables of the solver, and their values in one of its models."""

    def __init__(
        self, node: NodeProgram, values: Values, bounds: Mapping[str, tuple[int, int]], most: int
    ) -> None:
        self._node, self._values, self._most = node, values, most
        self._terms, self._texts = values.terms, values.texts
        self._bounds = bounds
        self._made: dict[str, Symbol] = {}
        self._spelled: dict[str, tuple[Term, int]] = {}
        self.is_cut = False

    def made(self, kind: NodeType, path: str) -> Symbol:
        """Return an input as variables."""
        self._made[path] = found = self.variable(kind, path, path)
        return found

    def _range(self, path: str, low: int, high: int) -> tuple[int, int]:
        bounds = self._bounds.get(path, (low, high))
        narrow = max(low, bounds[0]), min(high, bounds[1])
        # Bounds that leave nothing may be those of items that are never there.
        return narrow if narrow[0] <= narrow[1] else (low, high)

    def variable(self, kind: NodeType, path: str, name: str) -> Symbol:
        """Return a new value as variables of a name; `path` is the one that its bounds have."""
        match kind:
            case IntegerType() | DecimalType():
                return self._terms.variable(name, *self._range(path, *range_of(kind)))
            case TimestampType():
                return self._terms.variable(name, *self._range(path, *_INSTANTS))
            case BooleanType():
                return self._terms.boolean(name)
            case TextType(max_length=most) | BytesType(max_length=most):
                return self._text(name, most)
            case EnumType(choices=choices):
                made = self._text(name, max(map(len, choices)))
                self._terms.facts[name].append(self._texts.one_of(made, choices))
                return made
            case RecordType(fields=fields):
                return {
                    field: self.variable(part, f"{path}.{field}", f"{name}.{field}")
                    for field, part in fields
                }
            case ArrayType(item=item):
                return self._collection(
                    kind, path, name, lambda at: self.variable(item, f"{path}[]", f"{name}[{at}]")
                )
            case SetType(item=item):
                made = self._collection(
                    kind, path, name, lambda at: self.variable(item, f"{path}[]", f"{name}[{at}]")
                )
                self._order(item, made, [slot.value for slot in made.slots])
                return made
            case MapType(key=key, value=value):
                made = self._collection(
                    kind,
                    path,
                    name,
                    lambda at: (
                        self.variable(key, f"{path}[]", f"{name}[{at}]"),
                        self.variable(value, f"{path}[].", f"{name}[{at}]."),
                    ),
                )
                self._order(key, made, [slot.value[0] for slot in made.slots])
                return made

    def _text(self, name: str, most: int) -> Term:
        made = self._texts.variable(name, most)
        self._spelled[name] = made, most
        return made

    def _collection(
        self,
        kind: ArrayType | SetType | MapType,
        path: str,
        name: str,
        made: Callable[[int], Symbol],
    ) -> Items:
        low, high = self._range(f"{path}#", 0, kind.max_items)
        if high > self._most:
            self.is_cut, high = True, max(low, self._most)
        count = self._terms.variable(f"{name}#", low, high)
        slots = [Slot(self._terms.compared("<", known(at), count), made(at)) for at in range(high)]
        return Items(slots, count=count, is_prefix=True)

    def _order(self, kind: NodeType, items: Items, keys: list[Symbol]) -> None:
        """Say that keys are different, and stand in the order in which they are visited."""
        for at in range(1, len(keys)):
            rises = self._values.less(kind, keys[at - 1], keys[at])
            fact = self._terms.implied(items.slots[at].present, rises)
            self._terms.facts[""].append(fact)

    def read(self, model: Term) -> dict[str, Value] | None:
        """Return the inputs in a model, or None if they do not fit their types."""
        texts = self._texts.read(model, self._spelled)
        values = {
            each.name: self._value(each.type, each.name, self._made[each.name], model, texts)
            for each in self._node.inputs
        }
        try:
            return self._node.read_inputs(self._node.show_inputs(values))
        except NodeValueError:
            return None

    def value_in(self, model: Term, kind: NodeType, name: str, made: Symbol) -> Value:
        """Return the value of other variables in a model, by the name they were made with."""
        return self._value(kind, name, made, model, self._texts.read(model, self._spelled))

    def _value(
        self,
        kind: NodeType,
        name: str,
        made: Symbol,
        model: Term,
        texts: Mapping[str, str],
    ) -> Value:
        match kind:
            case IntegerType() | DecimalType() | TimestampType():
                return self._number(made, model)
            case BooleanType():
                return bool(model.eval(made, True))
            case BytesType(max_length=most):
                return texts[name].encode()[:most]
            case TextType() | EnumType():
                return texts[name]
            case RecordType(fields=fields):
                return {
                    field: self._value(part, f"{name}.{field}", made[field], model, texts)
                    for field, part in fields
                }
            case ArrayType(item=item) | SetType(item=item):
                size = self._number(made.count, model)
                found = (
                    self._value(item, f"{name}[{at}]", slot.value, model, texts)
                    for at, slot in enumerate(made.slots[:size])
                )
                return frozenset(found) if isinstance(kind, SetType) else (*found,)
            case MapType(key=key, value=value):
                size = self._number(made.count, model)
                return {
                    self._value(key, f"{name}[{at}]", slot.value[0], model, texts): self._value(
                        value, f"{name}[{at}].", slot.value[1], model, texts
                    )
                    for at, slot in enumerate(made.slots[:size])
                }

    def _number(self, made: Number, model: Term) -> int:
        term = made.term
        return term if isinstance(term, int) else model.eval(term, True).as_long()
