"""The typed tree of a node as terms of the solver, with the traps on the way (host).

A trap is collected with the condition under which it is met, in the order of the evaluator: what
stands right of AND and OR, the other side of IF, and items behind the one that decides are guarded.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from vegakit.contracts import (
    Arithmetic,
    ArrayMade,
    ArrayType,
    Conditional,
    Constant,
    DecimalType,
    EnumType,
    Expression,
    FieldOf,
    FunctionCall,
    Inverted,
    ItemLoop,
    ItemOf,
    Logic,
    LoopKind,
    MapType,
    Membership,
    NamedValue,
    Negated,
    NodeType,
    RecordMade,
    Relation,
    Rescaled,
    SetType,
    TextType,
    TrapKind,
    scale_of,
)
from vegakit.vesper.proof_terms import NotExpressible, Number, Term, Terms, Texts, known
from vegakit.vesper.proof_values import (
    Items,
    Slot,
    Symbol,
    Values,
    field_at,
    filled,
    number_paths,
    range_of,
)

Names = dict[str, Symbol]
_MOST_VALUES = 300_000
_MICROSECONDS = 1_000_000


class Translator(Values):
    """Translates expressions. `traps` are those met so far."""

    def __init__(self, terms: Terms, texts: Texts) -> None:
        super().__init__(terms, texts)
        self.traps = list[tuple[str, Term]]()
        self._values = 0

    def value(self, part: Expression, names: Names, guard: Term = True) -> Symbol:
        """Return an expression as terms; `guard` is the condition under which it is evaluated."""
        self._values += 1
        if self._values > _MOST_VALUES:
            raise NotExpressible(
                f"it unrolls to more than {_MOST_VALUES:,} terms; bound its collections"
            )
        found = _TRANSLATIONS.get(type(part))
        if found is None:
            raise NotExpressible(f"{type(part).__name__} is unknown to the solver")
        return found(self, part, names, guard)

    def trap(self, kind: str, condition: Term, guard: Term) -> None:
        """Note the condition of a trap, unless it cannot be met."""
        if (met := self.terms.all_of((guard, condition))) is not False:
            self.traps.append((kind, met))

    def checked(self, kind: NodeType, value: Number, guard: Term) -> Number:
        """Return a number whose overflow is a trap. Its bounds stay as they are: facts that follow
        from narrower ones would exclude the trap itself."""
        within = self.terms.within(value, *range_of(kind))
        self.trap(TrapKind.OVERFLOW, self.terms.no(within), guard)
        return value


# Parts of the tree.


def _negated(to: Translator, part: Negated, names: Names, guard: Term) -> Number:
    value = to.terms.times(to.value(part.part, names, guard), -1)
    return to.checked(part.type, value, guard)


def _arithmetic(to: Translator, part: Arithmetic, names: Names, guard: Term) -> Number:
    left, right = to.value(part.left, names, guard), to.value(part.right, names, guard)
    if part.operator in "/%":
        to.trap(TrapKind.DIVISION_BY_ZERO, to.terms.compared("==", right, known(0)), guard)
    table = _DECIMALS if isinstance(part.type, DecimalType) else _INTEGERS
    return to.checked(part.type, table[part.operator](to.terms, part, left, right), guard)


def _product(terms: Terms, part: Arithmetic, left: Number, right: Number) -> Number:
    places = scale_of(part.left) + scale_of(part.right)
    return terms.scaled(terms.product(left, right), places, scale_of(part))


def _quotient(terms: Terms, part: Arithmetic, left: Number, right: Number) -> Number:
    up = scale_of(part) + scale_of(part.right) - scale_of(part.left)
    numerator = terms.times(left, 10 ** max(up, 0))
    return terms.rounded(numerator, terms.times(right, 10 ** max(-up, 0)))


_Operation = Callable[[Terms, Arithmetic, Number, Number], Number]
_INTEGERS: dict[str, _Operation] = {
    "+": lambda terms, _, left, right: terms.plus(left, right),
    "-": lambda terms, _, left, right: terms.minus(left, right),
    "*": lambda terms, _, left, right: terms.product(left, right),
    "/": lambda terms, _, left, right: terms.divided(left, right)[0],
    "%": lambda terms, _, left, right: terms.divided(left, right)[1],
}
_DECIMALS: dict[str, _Operation] = {
    "+": _INTEGERS["+"],
    "-": _INTEGERS["-"],
    "*": _product,
    "/": _quotient,
}


def _rescaled(to: Translator, part: Rescaled, names: Names, guard: Term) -> Number:
    value = to.value(part.part, names, guard)
    scaled = to.terms.scaled(value, scale_of(part.part), scale_of(part))
    return to.checked(part.type, scaled, guard)


def _relation(to: Translator, part: Relation, names: Names, guard: Term) -> Term:
    left, right = to.value(part.left, names, guard), to.value(part.right, names, guard)
    if isinstance(left, Number):
        shift = scale_of(part.right) - scale_of(part.left)
        left = to.terms.times(left, 10 ** max(shift, 0))
        right = to.terms.times(right, 10 ** max(-shift, 0))
        return to.terms.compared(part.operator, left, right)
    if part.operator in ("==", "!="):
        found = to.equal(part.left.type, left, right)
    else:
        is_rising = part.operator in ("<", ">=")
        found = to.less(part.left.type, *((left, right) if is_rising else (right, left)))
    return found if part.operator in ("==", "<", ">") else to.terms.no(found)


def _logic(to: Translator, part: Logic, names: Names, guard: Term) -> Term:
    left = to.value(part.left, names, guard)
    goes_on = left if part.operator == "AND" else to.terms.no(left)
    if goes_on is False:
        return left
    right = to.value(part.right, names, to.terms.all_of((guard, goes_on)))
    join = to.terms.all_of if part.operator == "AND" else to.terms.any_of
    return join((left, right))


def _membership(to: Translator, part: Membership, names: Names, guard: Term) -> Term:
    item, whole = to.value(part.item, names, guard), to.value(part.whole, names, guard)
    if isinstance(part.whole.type, TextType | EnumType):
        return to.texts.contains(whole, item)
    if isinstance(part.whole.type, MapType):
        keys = whole.holding(slot.value[0] for slot in whole.slots)
        return to.member(part.item.type, item, keys)
    return to.member(part.item.type, item, whole)


def _conditional(to: Translator, part: Conditional, names: Names, guard: Term) -> Symbol:
    test = to.value(part.test, names, guard)
    if isinstance(test, bool):
        return to.value(part.then if test else part.otherwise, names, guard)
    then = to.value(part.then, names, to.terms.all_of((guard, test)))
    otherwise = to.value(part.otherwise, names, to.terms.all_of((guard, to.terms.no(test))))
    return to.joined(part.type, test, then, otherwise)


def _item(to: Translator, part: ItemOf, names: Names, guard: Term) -> Symbol:
    whole, key = to.value(part.collection, names, guard), to.value(part.key, names, guard)
    terms = to.terms
    if isinstance(part.collection.type, MapType):
        present, found = to.entry(part.collection.type, whole, key)
        # Most often the key is that of a loop over this map, under the guard that it is there.
        if not terms.is_part(present, guard):
            to.trap(TrapKind.MISSING, terms.no(present), guard)
        return found
    count = to.count(whole)
    inside = terms.all_of((terms.compared("<=", known(0), key), terms.compared("<", key, count)))
    to.trap(TrapKind.MISSING, terms.no(inside), guard)
    return to.at_place(part.type, whole, key)


def _call(to: Translator, part: FunctionCall, names: Names, guard: Term) -> Number:
    values = [to.value(each, names, guard) for each in part.arguments]
    if part.function == "LENGTH" and isinstance(kind := part.arguments[0].type, TextType):
        return to.texts.length(values[0], kind.max_length)
    return to.checked(part.type, _FUNCTIONS[part.function](to, values), guard)


def _seconds(to: Translator, start: Number, end: Number) -> Number:
    return to.terms.divided(to.terms.minus(end, start), known(_MICROSECONDS))[0]


_FUNCTIONS: dict[str, Callable[[Translator, list[Symbol]], Number]] = {
    "ABS": lambda to, given: to.terms.absolute(given[0]),
    "LENGTH": lambda to, given: to.count(given[0]),
    "MAX": lambda to, given: to.terms.greatest(given[0], given[1]),
    "MIN": lambda to, given: to.terms.least(given[0], given[1]),
    "SECONDS": lambda to, given: _seconds(to, given[0], given[1]),
}


# Loops.


def _loop(to: Translator, part: ItemLoop, names: Names, guard: Term) -> Symbol:
    items: Items = to.value(part.over, names, guard)
    kind = part.over.type
    assert isinstance(kind, ArrayType | SetType | MapType)
    if isinstance(kind, MapType):
        items = items.holding(slot.value[0] for slot in items.slots)
    item = kind.key if isinstance(kind, MapType) else kind.item
    if part.kind is LoopKind.REDUCE:
        return _reduce(to, part, names, guard, to.in_order(item, items))
    mark = len(to.traps)
    found = _LOOPS[part.kind](to, part, names, guard, items)
    if len(to.traps) > mark and items.before is not None:
        # Something may trap, and then it matters which item is the first.
        del to.traps[mark:]
        return _LOOPS[part.kind](to, part, names, guard, to.in_order(item, items))
    return found


def _bodies(
    to: Translator, part: ItemLoop, names: Names, guard: Term, items: Items
) -> list[Symbol]:
    return [
        to.value(
            part.body, {**names, part.name: slot.value}, to.terms.all_of((guard, slot.present))
        )
        for slot in items.slots
    ]


def _quantified(to: Translator, part: ItemLoop, names: Names, guard: Term, items: Items) -> Term:
    is_forall = part.kind is LoopKind.FORALL
    found, terms = list[Term](), to.terms
    for slot in items.slots:
        # The loop ends at the first item that decides: those behind it are not evaluated.
        inner = terms.all_of((guard, slot.present))
        body = to.value(part.body, {**names, part.name: slot.value}, inner)
        goes_on = terms.implied(slot.present, body if is_forall else terms.no(body))
        guard = terms.all_of((guard, goes_on))
        found.append(goes_on)
    return terms.all_of(found) if is_forall else terms.no(terms.all_of(found))


def _sum(to: Translator, part: ItemLoop, names: Names, guard: Term, items: Items) -> Number:
    total, values = known(0), list[Number]()
    for slot in items.slots:
        inner = to.terms.all_of((guard, slot.present))
        value = to.value(part.body, {**names, part.name: slot.value}, inner)
        values.append(value)
        added = to.terms.plus(total, to.terms.chosen(slot.present, value, known(0)))
        # Each sum on the way is checked, in whatever order the items come.
        low, high = min(added.low, total.low), max(added.high, total.high)
        total = to.checked(part.type, added._replace(low=low, high=high), inner)
    total = to.terms.named("sum", total)
    if items.on_sum is not None:
        items.on_sum(values, total)
    return total


def _map(to: Translator, part: ItemLoop, names: Names, guard: Term, items: Items) -> Items:
    return items.holding(_bodies(to, part, names, guard, items))


def _filter(to: Translator, part: ItemLoop, names: Names, guard: Term, items: Items) -> Items:
    keeps = _bodies(to, part, names, guard, items)
    slots = [
        Slot(to.terms.all_of((slot.present, keep)), slot.value)
        for slot, keep in zip(items.slots, keeps, strict=True)
    ]
    return Items(slots, items.before)


def _sort(to: Translator, part: ItemLoop, names: Names, guard: Term, items: Items) -> Items:
    keys, terms = _bodies(to, part, names, guard, items), to.terms
    is_falling = part.kind is LoopKind.SORT_DESCENDING
    made: dict[tuple[int, int], Term] = {}

    def before(one: int, other: int) -> Term:
        if (one, other) not in made:
            left, right = (keys[other], keys[one]) if is_falling else (keys[one], keys[other])
            # Equal ones keep their order, whichever way they are sorted.
            tie = (to.equal(part.body.type, left, right), items.stands_before(one, other))
            made[one, other] = terms.any_of(
                (to.less(part.body.type, left, right), terms.all_of(tie))
            )
        return made[one, other]

    return Items(items.slots, before, items.count)


class GroupSums:
    """The groups of one collection. Each item is in exactly one of them, so sums over the groups
    add up to the sum over the collection. The solver would have to try all ways to group: it is
    told, once the same has been summed over all of them."""

    def __init__(self, terms: Terms, items: Items) -> None:
        self._terms, self._items = terms, items
        self.slots = list[Slot]()
        self._sums: dict[tuple[Any, ...], tuple[list[Number], dict[int, Number]]] = {}

    def summed(self, at: int, values: list[Number], total: Number) -> None:
        """Note the sum over one group, of values that stand for the items."""
        key = self._terms.key(*(value.term for value in values))
        _, sums = self._sums.setdefault(key, (values, {}))
        sums[at] = total
        if len(sums) == len(self.slots):
            apart = self._sum(self.slots, [sums[n] for n in range(len(self.slots))])
            fact = self._terms.same(apart, self._sum(self._items.slots, values))
            for each in sums.values():
                self._terms.know(each, fact)

    def _sum(self, slots: list[Slot], values: list[Number]) -> Term:
        pairs = zip(slots, values, strict=True)
        return sum(self._terms.either(slot.present, value.term, 0) for slot, value in pairs)


def _group(to: Translator, part: ItemLoop, names: Names, guard: Term, items: Items) -> Items:
    keys, terms, kind = _bodies(to, part, names, guard, items), to.terms, part.body.type
    sames = [[to.equal(kind, one, other) for other in keys] for one in keys]
    groups = GroupSums(terms, items)
    for at, slot in enumerate(items.slots):
        leads = terms.all_of(
            terms.no(terms.all_of((other.present, items.stands_before(n, at), sames[at][n])))
            for n, other in enumerate(items.slots)
            if n != at
        )
        inner = Items(
            [
                Slot(terms.all_of((other.present, sames[at][n])), other.value)
                for n, other in enumerate(items.slots)
            ],
            items.before,
        )
        inner.on_sum = partial(groups.summed, at)
        present = terms.named_condition("leads", terms.all_of((slot.present, leads)))
        groups.slots.append(Slot(present, (keys[at], inner)))
    _know_groups(to, items, groups, sames)
    return Items(groups.slots, lambda one, other: to.less(kind, keys[one], keys[other]))


def _know_groups(to: Translator, items: Items, groups: GroupSums, sames: list[list[Term]]) -> None:
    """Tell that each item is in a group: the first of those with its key leads one. The solver
    would need an induction for it."""
    terms = to.terms
    for n, slot in enumerate(items.slots):
        met = (terms.all_of((group.present, sames[at][n])) for at, group in enumerate(groups.slots))
        fact = terms.implied(slot.present, terms.any_of(met))
        for group in groups.slots:
            terms.add_lemmas(group.present, fact)


def _reduce(to: Translator, part: ItemLoop, names: Names, guard: Term, items: Items) -> Symbol:
    assert part.start is not None
    total, terms = to.value(part.start, names, guard), to.terms
    lemmas = _lemmas(to, part, names, items)
    for slot in items.slots:
        inner = {**names, part.total: total, part.name: slot.value}
        body = to.value(part.body, inner, terms.all_of((guard, slot.present)))
        after = to.named(part.type, to.joined(part.type, slot.present, body, total))
        for path, field, claim in lemmas:
            item = None if field is None else field_at(slot.value, field).term
            now, before = field_at(after, path), field_at(total, path)
            terms.know(now, claim(terms, slot.present, now.term, before.term, item))
        total = after
    return total


_Claim = Callable[[Terms, Term, Term, Term, Term], Term]
_CLAIMS: tuple[_Claim, ...] = (
    lambda terms, present, now, before, item: now >= before,
    lambda terms, present, now, before, item: now <= before,
    lambda terms, present, now, before, item: now <= before + terms.either(present, 1, 0),
    lambda terms, present, now, before, item: now >= before - terms.either(present, 1, 0),
)
_ITEM_CLAIMS: tuple[_Claim, ...] = (
    lambda terms, present, now, before, item: now <= before + terms.either(present, item, 0),
    lambda terms, present, now, before, item: now >= before - terms.either(present, item, 0),
    lambda terms, present, now, before, item: terms.implied(present, now >= item),
    lambda terms, present, now, before, item: terms.implied(present, now <= item),
)
"""Claims about one round of a reduction: its total now and before, and a number of its item. Those
that hold of any total and item are told to the solver for every round, which otherwise would have
to go through all ways that the rounds can take together."""


def _lemmas(
    to: Translator, part: ItemLoop, names: Names, items: Items
) -> list[tuple[tuple[str, ...], tuple[str, ...] | None, _Claim]]:
    over = part.over.type
    assert isinstance(over, ArrayType | SetType | MapType)
    kind = over.key if isinstance(over, MapType) else over.item
    item = to.any_of_type(kind, [slot.value for slot in items.slots]) if items.slots else None
    before = to.any_of_type(part.type, [to.unbounded(part.type)])
    if item is None or before is None:
        return []
    mark = len(to.traps)
    now = to.value(part.body, {**names, part.total: before, part.name: item})
    del to.traps[mark:]
    found = list[tuple[tuple[str, ...], tuple[str, ...] | None, _Claim]]()
    for path, number in number_paths(part.type):
        sides = field_at(now, path).term, field_at(before, path).term
        tried: list[tuple[tuple[str, ...] | None, _Claim]] = [(None, each) for each in _CLAIMS]
        fields = [field for field, other in number_paths(kind) if other == number]
        tried += [(field, claim) for field in fields for claim in _ITEM_CLAIMS]
        for field, claim in tried:
            other = None if field is None else field_at(item, field).term
            if to.terms.is_always(claim(to.terms, True, *sides, other)):
                found.append((path, field, claim))
    return found


_LOOPS: dict[LoopKind, Callable[[Translator, ItemLoop, Names, Term, Items], Symbol]] = {
    LoopKind.FORALL: _quantified,
    LoopKind.EXISTS: _quantified,
    LoopKind.SUM: _sum,
    LoopKind.MAP: _map,
    LoopKind.FILTER: _filter,
    LoopKind.SORT: _sort,
    LoopKind.SORT_DESCENDING: _sort,
    LoopKind.GROUP: _group,
}


_TRANSLATIONS: dict[type, Callable[[Translator, Symbol, Names, Term], Symbol]] = {
    Constant: lambda to, part, names, guard: to.constant(part.type, part.value),
    NamedValue: lambda to, part, names, guard: names[part.name],
    FieldOf: lambda to, part, names, guard: to.value(part.record, names, guard)[part.name],
    ItemOf: _item,
    Negated: _negated,
    Arithmetic: _arithmetic,
    Rescaled: _rescaled,
    Relation: _relation,
    Logic: _logic,
    Inverted: lambda to, part, names, guard: to.terms.no(to.value(part.part, names, guard)),
    Membership: _membership,
    Conditional: _conditional,
    ArrayMade: lambda to, part, names, guard: filled(
        [to.value(item, names, guard) for item in part.items]
    ),
    RecordMade: lambda to, part, names, guard: {
        name: to.value(inner, names, guard) for name, inner in part.fields
    },
    FunctionCall: _call,
    ItemLoop: _loop,
}
