"""The walk over the checked tree that runs nothing: it follows sizes, adds up what is spent, and
bounds loops (pure).
"""

from bisect import bisect_left
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import partial
from math import inf
from typing import Any, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from vegakit.conversation import Tokenizer
from vegakit.lang.analysis.cost_bounds import (
    NONE,
    Amount,
    CostLocation,
    LineCost,
    SpendingBound,
    plus,
    times,
    worse_of,
)
from vegakit.lang.analysis.cost_sends import ModelTerms, Terms
from vegakit.lang.analysis.cost_values import (
    NO_ITEM,
    CostScopes,
    CostVariable,
    Frames,
    Size,
    ValueBound,
    after_rounds,
    as_symbol,
    either,
    exactly,
    greater,
    of_type,
    sized,
    smaller,
)
from vegakit.lang.analysis.walk import TreeWalk
from vegakit.lang.check.symbols import Checked, Unit
from vegakit.lang.codegen.bytecode import AgentSpec
from vegakit.lang.diagnostics import count_steps
from vegakit.lang.syntax.tree import (
    Break,
    FnDecl,
    For,
    Node,
    Return,
    Stmt,
    ToolDecl,
    While,
    assigned_in,
    below,
)
from vegakit.lang.types import ANY, ListOf, MapOf, Type

# A walk over the checked tree that runs nothing: it follows sizes and adds up what is spent.


_MOST_NODES = 40_000


class KnownWorld(Protocol):
    """The world before a run: arguments are given, so values can be computed, and files are
    there."""

    def call(self, name: str, args: Sequence[Any]) -> Any:  # noqa: ANN401
        """Return the result of a pure function; raise LookupError where it has none."""
        ...

    def size(self, path: str) -> int | None:
        """Return how many bytes a file has as text; None if there is none to read."""
        ...

    def text(self, path: str) -> str | None:
        """Return the text of a file, None if it is long or there is none."""
        ...

    def names(self, path: str) -> list[str] | None:
        """Return the paths of what is in a folder; None if there is none."""
        ...


class RecordedSend(Struct, frozen=True):
    """A send in the source, for who wants to know what a round holds."""

    agent: str
    calls: int
    size: Size | None
    answer: Type
    part: int | None


class SentMessage(Struct, frozen=True):
    """The sends at one place: the calls that one may take, the bytes of the longest message, the
    tokens of an answer, and what one costs that is not repeated; and whether one of them never fits
    the budgets around it, as one has no calls then."""

    tries: int
    size: int | None
    max_tokens: int | None
    once: Amount = 0
    is_refused: bool = False

    def joined(self, other: "SentMessage | None") -> "SentMessage":
        """Return what holds for both."""
        if other is None:
            return self
        sizes = (self.size, other.size)
        size = None if None in sizes else max(one for one in sizes if one is not None)
        tries, once = max(self.tries, other.tries), max(self.once, other.once)
        is_refused = any(one.is_refused or not one.tries for one in (self, other))
        return SentMessage(tries, size, self.max_tokens, once, is_refused)


class QuoteTooLargeError(Exception):
    """The walk would take too long."""


class CostFacts:
    """Facts about the whole program, for every walk through one of its functions."""

    def __init__(
        self,
        checked: Checked,
        agents: dict[str, AgentSpec],
        bodies: dict[str, tuple[Unit, FnDecl | ToolDecl]],
        terms: Terms,
        *,
        handles_in_sessions: bool,
        budget: int | None = None,
        world: KnownWorld | None = None,
        assumed: "Said | None" = None,
        typical: bool = False,
        pool: Amount = inf,
    ) -> None:
        self.checked = checked
        self.agents = agents
        self.bodies = bodies
        self.terms = terms
        self.handles_in_sessions = handles_in_sessions
        self.budget = budget
        self.world = world
        self.typical = typical
        self.pool = pool
        self.assumed = Said() if assumed is None else assumed
        self.said = Said()
        self.spawns_may_fail = False
        self.sent: dict[CostLocation, SentMessage] = {}
        self.uncut: dict[str, dict[CostLocation, LineCost]] = {}
        self._answers: dict[str, int | None] = {}
        self.notes: dict[str, RecordedSend] | None = None
        self.rounds: dict[int, SpendingBound] = {}
        self.running: list[str] = []
        self.recursive: set[str] = set()
        self.tokenizer = _one_tokenizer(terms(spec) for spec in agents.values())
        self.known: dict[tuple[str, tuple[ValueBound, ...], int | None, bool], CallOutcome] = {}
        self.nodes = 0
        self.loops = 0

    @property
    def is_long(self) -> bool:
        """Loops are walked in a few rounds only from now on."""
        return self.nodes > _MOST_NODES // 4

    def count(self) -> None:
        """Count a node, and give up on a program that is too large."""
        count_steps(2)
        self.nodes += 1
        if self.nodes > _MOST_NODES:
            raise QuoteTooLargeError

    def answer_tokens(self, agent: str) -> int | None:
        """Return the most tokens that an answer of this agent has; None where nothing is known of
        its model."""
        if agent not in self._answers:
            spec = self.agents[agent]
            terms = self.terms(spec)
            models = () if terms is None else (terms, *terms.fallbacks)
            most = max((spec.max_tokens or one.max_tokens for one in models), default=None)
            self._answers[agent] = spec.max_tokens if most is None else most
        return self._answers[agent]

    @property
    def is_noting(self) -> bool:
        """Sends of rounds are noted, for lists that are known at run time only. What an answer or
        the world will be has no bound then: it is quoted when it is there."""
        return self.notes is not None

    def keep_round(self, node: Node, once: SpendingBound) -> None:
        """Keep what one round of this loop spends, for who quotes it when its list is known."""
        if self.notes is not None:
            self.rounds[id(node)] = worse_of(self.rounds.get(id(node), NONE), once)

    def type(self, node: Node) -> Type:
        """Return the type that the checker found for a node, `ANY` if it found none."""
        return self.checked.types.get(id(node), ANY)


def _one_tokenizer(models: Iterable[ModelTerms | None]) -> Tokenizer | None:
    """Return the tokenizer by which all models of a program count; None if they differ, or one is
    not known, since a text that one wrote has other tokens for another."""
    found: dict[str, Tokenizer] = {}
    for model in models:
        for one in (None,) if model is None else (model, *model.fallbacks):
            if one is None or one.tokenizer is None:
                return None
            found[one.tokenizer.name] = one.tokenizer
    return found.popitem()[1] if len(found) == 1 else None


class Said:
    """Texts that a program says and reads elsewhere: the reasons it fails with, which it may catch,
    and what it writes into files. A walk assumes some, and notes what it comes by; when it comes by
    more than it assumed, and used that, it is walked again."""

    def __init__(self, sizes: "dict[str, Size | None] | None" = None) -> None:
        self.sizes: dict[str, Size | None] = {} if sizes is None else sizes
        self.is_used = False

    def note(self, what: str, size: Size | None) -> None:
        """Note that something of this size was said."""
        size = None if size is None or size.symbols else size
        self.sizes[what] = greater(self.sizes[what], size) if what in self.sizes else size

    def most(self, what: str) -> Size | None:
        """Return the size of the longest that is said; nothing where nothing is."""
        self.is_used = True
        return self.sizes.get(what, exactly(0))

    def says(self, what: str) -> bool:
        """Return whether anything like it is said."""
        self.is_used = True
        return what in self.sizes

    def covers(self, said: "Said") -> bool:
        """Return whether a walk that assumed this and noted that needs no other."""
        return not self.is_used or all(
            name in self.sizes and greater(self.sizes[name], size) == self.sizes[name]
            for name, size in said.sizes.items()
        )

    def boundless_where(self, said: "Said") -> "Said":
        """Return the same, without bounds where more is said than was assumed."""
        names = {**self.sizes, **said.sizes}
        same = {n for n in names if n in self.sizes and self.sizes[n] == said.sizes.get(n)}
        return Said({name: self.sizes[name] if name in same else None for name in names})


class CallOutcome(Struct, frozen=True):
    """The result of a call of a function: what it spends, what it returns, whether it may raise,
    and the size of what it fails with."""

    spent: SpendingBound
    value: ValueBound
    raises: bool
    fails: Size | None = exactly(0)


class LoopExits(Struct):
    """The variables at each `break` and `continue` of one round."""

    by_break: list[Frames]
    by_continue: list[Frames]


class CostWalk(TreeWalk[CostScopes]):
    """The walk over one function.

    `spent` is what it spent since the last `apart`; `cap` the least of the budgets around, and
    `may_lack` whether the innermost may refuse something; `raises` whether it may have raised so
    far; `over` that what follows is not reached, by its own words: what only a budget would refuse
    may have been begun early.
    """

    def __init__(
        self, facts: CostFacts, unit: Unit, cap: int | None = None, *, may_lack: bool
    ) -> None:
        self.facts = facts
        self.unit = unit
        self.cap: int | None = cap
        self.may_lack = may_lack
        self.scopes = CostScopes()
        self.spent: SpendingBound = NONE
        self.returned: list[ValueBound] = []
        self.raises = False
        self.fails: Size | None = exactly(0)
        """The longest reason that it may have failed with so far, and has not caught."""
        self.over = False
        self.left: list[LoopExits] = []
        self.gathered: set[int] = set()
        """Statements that put the pieces of a stream together: the text is as long already."""

    def spend(self, spend: SpendingBound) -> None:
        """Add to what this walk has spent so far."""
        self.spent = plus(self.spent, spend)

    @contextmanager
    def apart(self) -> Generator[list[SpendingBound]]:
        """Keep what is spent inside from being added: it is the one item of the list afterwards."""
        before, self.spent = self.spent, NONE
        found: list[SpendingBound] = []
        yield found
        found.append(self.spent)
        self.spent = before

    def place(self, node: Node, what: str) -> CostLocation:
        return CostLocation(self.unit.path, bisect_left(self.unit.line_ends, node.at) + 1, what)

    def scope(self, cap: int | None, body: Callable[[], None]) -> None:
        """Walk inside a budget, first as if it had room for all; again if that is not so."""
        if cap is None:
            body()
            return
        around, lacking, before = self.cap, self.may_lack, self.scopes.copy()
        self.cap = cap if around is None else min(cap, around)
        for may_lack in (False, True):
            self.may_lack = may_lack
            self.scopes.restore(before)
            with self.apart() as spent:
                body()
            if spent[0].asked <= cap:
                break
            if not may_lack:
                self.over = False
        self.spend(spent[0])
        self.cap, self.may_lack = around, lacking

    def branches(self, *ways: Callable[[], None]) -> list[SpendingBound]:
        """Each from the same state; afterwards it is as any of those left it that came to an
        end."""
        before, spends, ends = self.scopes.copy(), list[SpendingBound](), list[Frames]()
        for way in ways:
            self.scopes.restore(before)
            self.over = False
            with self.apart() as spent:
                way()
            spends += spent
            if not self.over:
                ends.append(self.scopes.copy())
        self.scopes.restore(before)
        self.over = not ends
        self.scopes.meet(ends)
        return spends

    def statement(self, node: Stmt) -> None:
        if not self.over:
            self.facts.count()
            STATEMENTS[type(node)](self, node)


STATEMENTS: dict[type, Callable[[CostWalk, Any], None]] = {}
"""The rule of each kind of statement. The module of the statements fills it when it is imported."""


def as_amount(number: int | None) -> int | float:
    """Return the number, infinity where there is none."""
    return inf if number is None else number


# Loops: round by round while that is short, else by how much a round makes variables grow.


_UNROLLED = 32

Names: TypeAlias = dict[str, tuple[int, CostVariable]]


class LoopCost(Struct, frozen=True):
    """`goes_on`: a second round may follow the first; `breaks`: it may be left by a `break`;
    `once` is what one of them spends at most."""

    spent: SpendingBound
    goes_on: bool = True
    breaks: bool = False
    once: SpendingBound = NONE


def loop(
    w: CostWalk,
    node: For | While,
    body: Callable[[int | None], None],
    rounds: int | None,
    place: CostLocation,
    *,
    differ: bool = False,
) -> LoopCost:
    """Return what all rounds spend; `place` is told where they have no bound. Rounds that `differ`
    are given their number, and what holds for all of them is asked for by None."""
    if rounds is not None and rounds <= 0:
        return LoopCost(NONE)
    if w.facts.typical:
        rounds, differ = _typical_rounds(node, rounds), differ and not _is_left(node)
    before = w.scopes.copy()
    came = None
    if differ and rounds is not None and rounds <= _UNROLLED:
        came = _one_by_one(w, body, rounds, place, differ=True)
        if came is None:
            w.scopes.restore(before)
    if came is None:
        came = _one_by_one(w, partial(body, None), rounds, place)
    if came is None:
        w.scopes.restore(before)
        most = inf if rounds is None else rounds
        once = _in_symbols(w, node, partial(body, None), rounds)
        came = LoopCost(times(once, most, place), breaks=True, once=once)
    w.over = False
    return came


_USUAL_ROUNDS = 10


def _typical_rounds(node: For | While, rounds: int | None) -> int:
    """Return how often a loop runs that may be left before its end: half as often, rounded up."""
    most = _USUAL_ROUNDS if rounds is None else rounds
    return (most + 1) // 2 if isinstance(node, While) or _is_left(node) else most


def _is_left(node: For | While) -> bool:
    return any(isinstance(each, Break | Return) for each in below(node.body))


def _one_by_one(
    w: CostWalk,
    body: Callable[..., None],
    rounds: int | None,
    place: CostLocation,
    *,
    differ: bool = False,
) -> LoopCost | None:
    """Walk round by round until one changes nothing any more: then all that follow are like it.
    Return None where that does not come soon."""
    total, exits, done, breaks, once = NONE, list[Frames](), 0, False, NONE
    while rounds is None or done < rounds:
        if done == _UNROLLED or w.facts.is_long:
            return None
        start = w.scopes.copy()
        exits += [] if differ else [start]
        spent, left = _round(w, partial(body, done) if differ else body)
        exits += left.by_break
        breaks |= bool(left.by_break)
        total, done, once = plus(total, spent), done + 1, worse_of(once, spent)
        ends = left.by_continue if w.over else [*left.by_continue, w.scopes.copy()]
        w.scopes.restore(start)
        if not ends:
            w.scopes.meet(exits)
            return LoopCost(total, done > 1, breaks, once)
        w.scopes.meet(ends)
        if not differ and w.scopes.copy() == start:
            rest = inf if rounds is None else rounds - done
            total = plus(total, times(spent, rest, place))
            break
    w.scopes.meet([*exits, w.scopes.copy()])
    return LoopCost(total, breaks=breaks, once=once)


def _round(w: CostWalk, body: Callable[[], None]) -> tuple[SpendingBound, LoopExits]:
    left = LoopExits([], [])
    w.left.append(left)
    w.over = False
    with w.apart() as spent:
        body()
    w.left.pop()
    return spent[0], left


def _in_symbols(
    w: CostWalk, node: For | While, body: Callable[[], None], rounds: int | None
) -> SpendingBound:
    """Return what one round spends at most, whichever it is."""
    names = {name: found for name in assigned_in(node) if (found := w.scopes.find(name))}
    w.facts.loops += 1
    marks = {name: f"{name}@{w.facts.loops}" for name in names}
    grown, items = _grown(w, names, marks, body)
    start = {marks[name]: variable.value.size for name, (_, variable) in names.items()}
    before_last = after_rounds(start, grown, None if rounds is None else max(rounds - 1, 0))
    held = partial(_held, items)
    _put(w, names, {n: held(n, v, before_last[marks[n]]) for n, (_, v) in names.items()})
    spent, _ = _round(w, body)
    sizes = after_rounds(start, grown, rounds)
    _put(w, names, {n: held(n, v, sizes[marks[n]]) for n, (_, v) in names.items()})
    return spent


def _held(
    items: "dict[str, Held]", name: str, variable: CostVariable, size: Size | None
) -> ValueBound:
    typed, held = of_type(variable.type), items.get(name)
    value = sized(typed, smaller(typed.size, size))
    if held is None or held.item is NO_ITEM:
        return value
    return replace(value, item=held.item, key=held.key)


def _put(w: CostWalk, names: Names, values: dict[str, ValueBound]) -> None:
    for name, value in values.items():
        w.scopes.put(names[name][0], name, value)


def _grown(
    w: CostWalk, names: Names, marks: dict[str, str], body: Callable[[], None]
) -> "tuple[dict[str, Size | None], dict[str, Held]]":
    """Return what each variable holds after one round, in what was there before it, and the items
    of lists and maps. A variable without a bound spoils those that take from it, so the round is
    walked again until no other is spoilt."""
    boundless: set[str] = set()
    items = {name: held for name, (_, v) in names.items() if (held := _first_items(v)) is not None}
    fails = w.fails
    while names:
        w.fails = fails
        with w.scopes.unwatched(), w.scopes.watch() as seen, w.apart():
            fresh = {n: _fresh(v, marks[n], n in boundless) for n, (_, v) in names.items()}
            for name, held in items.items():
                fresh[name] = replace(fresh[name], item=held.item, key=held.key)
            _put(w, names, fresh)
            _round(w, body)
        if _settle(items, {name: seen[names[name][0], name].value for name in items}):
            continue
        grown = {name: seen[depth, name].value.size for name, (depth, _) in names.items()}
        spoilt = {name for name, size in grown.items() if size is None} - boundless
        if not spoilt:
            w.fails = fails
            return {marks[n]: None if n in boundless else grown[n] for n in names}, items
        boundless |= spoilt
    return {}, {}


class Held(Struct, frozen=True):
    """The items of a list or map while a loop goes on, and how often they were found to be more
    than was taken for them."""

    item: ValueBound
    key: Size | None
    tries: int = 0


def _first_items(variable: CostVariable) -> Held | None:
    value = variable.value
    if not isinstance(variable.type, ListOf | MapOf):
        return None
    if value.size == exactly(0):
        return Held(NO_ITEM, exactly(0))
    return None if value.item is None else Held(value.item, value.key)


def _settle(items: dict[str, Held], seen: dict[str, ValueBound]) -> bool:
    """Take what a round puts into lists for their items; of those that change again and again
    only the type is known. Return whether the round has to be walked again."""
    changed = False
    for name, held in list(items.items()):
        value = seen[name]
        new = None if value.item is None else either(held.item, value.item)
        key = greater(held.key, value.key)
        if new == held.item and key == held.key:
            continue
        changed = True
        if new is None or _is_symbolic(new) or (key and key.symbols) or held.tries > 1:
            del items[name]
        else:
            items[name] = Held(new, key, held.tries + 1)
    return changed


def _is_symbolic(value: ValueBound) -> bool:
    """Return whether a bound of it is in what a variable held when a round began."""
    sizes = (value.size, value.key, value.whole, value.spelled)
    parts = [each for _, each in value.fields]
    parts += [] if value.item is None else [value.item]
    return any(size is not None and size.symbols for size in sizes) or any(map(_is_symbolic, parts))


def _fresh(variable: CostVariable, mark: str, is_boundless: bool) -> ValueBound:
    return of_type(variable.type) if is_boundless else as_symbol(mark, variable.type)
