"""The quote of a whole program, and the cost of one round of a loop whose list is known only at run
time (pure).
"""

from collections.abc import Callable, Mapping
from functools import partial
from math import inf
from types import MappingProxyType
from typing import Any, TypeAlias

from msgspec.structs import replace

from vegakit.lang.analysis.cost_bounds import (
    NONE,
    TOO_MUCH,
    Amount,
    CostLocation,
    LineCost,
    MissingBound,
    SpendingBound,
    cost_bound,
    multiplied,
)
from vegakit.lang.analysis.cost_sends import (
    ModelTerms,
    Quote,
    QuotedLine,
    SendTerms,
    Terms,
    Unbounded,
    cost_of,
    part_of,
)
from vegakit.lang.analysis.cost_statements import KnownRun, walk_all
from vegakit.lang.analysis.cost_values import (
    Size,
)
from vegakit.lang.analysis.cost_walk import (
    CostFacts,
    KnownWorld,
    QuoteTooLargeError,
    RecordedSend,
    Said,
    SentMessage,
    as_amount,
)
from vegakit.lang.check.symbols import Checked
from vegakit.lang.codegen.bytecode import AgentSpec
from vegakit.lang.codegen.writer import agent_of, bodies_of
from vegakit.lang.diagnostics import TooMuchWorkError, step_limit
from vegakit.lang.schemas import answer_schema
from vegakit.lang.syntax.tree import (
    AgentDecl,
    Node,
    Spawn,
    SupervisorDecl,
    below,
)
from vegakit.lang.types import BOOL, STR
from vegakit.money import Money
from vegakit.prices import PriceRow, PriceTier, paid_repeats
from vegakit.records import canonical

# The quote of a whole program.


_AS_WRITTEN: Mapping[str, int] = MappingProxyType({})
_FEW = 40
"""So many processes a program may always spawn."""


def quote(
    checked: Checked,
    terms: Terms,
    budget: int | None = None,
    ceiling: int | None = None,
    max_tokens: Mapping[str, int] = _AS_WRITTEN,
    known: KnownRun | None = None,
    repeats: int | None = None,
    *,
    typical: bool = False,
) -> Quote:
    """Quote a program that was checked without errors. `budget` is the run's own, of which parts
    are set aside; `ceiling` caps all that is spent and sets nothing aside; `max_tokens` are for
    agents by name, in place of what is written; `known` is what is known of a run; `repeats` is how
    many of a hundred sends may be repeated and paid once more, None where every agent's own `retry`
    says so. With `typical` it also says what a run usually spends, which takes as long again."""
    caps = [cap for cap in (budget, ceiling) if cap is not None]
    most = min(caps, default=None)
    make = partial(facts_of, checked, terms, budget, max_tokens)
    walked = _tried(partial(make, None if known is None else known.world), known)
    if walked is None and known is not None:
        walked = _tried(make, known)  # less is followed without the world
    if walked is None:
        gap = Unbounded(checked.main, 1, "the program is too large to be quoted", most)
        return Quote(most, None, None, (), (gap,))
    pool = _pool(checked, walked[0].sends, budget, known, repeats)
    quoted = _with_caps(*walked, checked.main, inf if most is None else most, pool)
    if not typical:
        return quoted
    make = partial(make, None if known is None else known.world, typical=True)
    usual = _tried(make, known)
    total = inf if usual is None else min(usual[0].total, inf if most is None else most)
    if quoted.total is not None:
        total = min(total, quoted.total)
    return replace(quoted, typical=None if total == inf else round(total))


def _pool(
    checked: Checked,
    sends: Amount,
    budget: int | None,
    known: KnownRun | None,
    repeats: int | None,
) -> int | None:
    """Return how many repeats a run may pay. It does not know of its budget and arguments when its
    pool is made, so what these leave out counts."""
    if repeats is None:
        return None
    if budget is not None or known is not None:
        sends = max(sends, as_amount(sends_of(checked)))
    return None if sends == inf else paid_repeats(int(sends), repeats)


def sends_of(checked: Checked) -> int | None:
    """Return how many sends a program may make, each counted once, whatever they cost; None where
    nothing bounds them. By it a run has its pool of paid repeats."""
    walked = _tried(partial(facts_of, checked, lambda _: _FREE, None, _AS_WRITTEN), None)
    return None if walked is None else _known(walked[0].sends)


_Walked: TypeAlias = tuple[SpendingBound, CostFacts]


def _tried(make: Callable[..., CostFacts], known: KnownRun | None) -> _Walked | None:
    """Return what is spent, None if that would take too long to find out."""
    try:
        with step_limit():
            return _spent(make, known)
    except (QuoteTooLargeError, TooMuchWorkError, RecursionError):
        return None


_MOST_WALKS = 4
"""What still grows then has no bound: a quote stays linear in its program."""


def _spent(make: Callable[..., CostFacts], known: KnownRun | None) -> _Walked:
    """Walk, and again where the program says more elsewhere than the walk assumed, or spawns more
    than it may always."""
    assumed, may_fail = Said(), False
    facts, spent = make(assumed=assumed), NONE
    for walk in range(_MOST_WALKS + 1):
        facts = make(assumed=assumed)
        facts.spawns_may_fail = may_fail
        spent = walk_all(facts, known)
        if assumed.covers(facts.said) and (may_fail or spent.processes <= _FEW):
            break
        may_fail |= spent.processes > _FEW
        if not assumed.covers(facts.said):
            is_last = walk >= _MOST_WALKS - 2
            assumed = assumed.boundless_where(facts.said) if is_last else facts.said
            assumed.is_used = False
    return spent, facts


def facts_of(
    checked: Checked,
    terms: Terms,
    budget: int | None,
    max_tokens: Mapping[str, int] = _AS_WRITTEN,
    world: KnownWorld | None = None,
    assumed: Said | None = None,
    *,
    typical: bool = False,
) -> CostFacts:
    """Return the facts about a program that every walk needs."""
    agents: dict[str, AgentSpec] = {}
    for unit in checked.units.values():
        for decl in unit.source.decls:
            if isinstance(decl, AgentDecl):
                spec = agent_of(decl, checked)
                most = max_tokens.get(spec.name, spec.max_tokens)
                agents[spec.name] = replace(spec, max_tokens=most)
    nodes = (node for unit in checked.units.values() for node in below(unit.source))
    loose = not any(map(_has_own_wallet, nodes))
    bodies = dict(bodies_of(checked))
    return CostFacts(
        checked,
        agents,
        bodies,
        terms,
        handles_in_sessions=loose,
        budget=budget,
        world=world,
        assumed=assumed,
        typical=typical,
    )


def _has_own_wallet(node: Node) -> bool:
    """Sends to a process that has a wallet are not paid by the session they stand in."""
    if isinstance(node, Spawn):
        return node.wallet is not None or node.under is not None
    return isinstance(node, SupervisorDecl)


def _with_caps(
    spent: SpendingBound, facts: CostFacts, main: str, budget: Amount, pool: int | None
) -> Quote:
    """Return the quote. `pool` is how many repeats are paid, None as many as each send may have."""
    total = min(spent.total if pool is None else spent.repeats.within(pool), budget)
    unbounded = dict.fromkeys(
        Unbounded(gap.place.file, gap.place.line, gap.place.what, _cap(spent, gap, budget))
        for gap in spent.gaps
    )
    if spent.total == inf and not unbounded:  # a sum of many, none of which is without a bound
        unbounded[Unbounded(main, 1, TOO_MUCH, _known(budget))] = None
    rest = min(spent.apart + spent.of_processes, budget)
    lines = tuple(
        _line(place, share, facts.sent.get(place), min(share.rest, rest), budget, pool)
        for place, share in sorted(spent.shares.items())
    )
    calls = spent.calls if pool is None or not spent.calls else spent.sends
    return Quote(
        _known(total),
        _known(calls),
        _known(spent.processes),
        lines,
        tuple(unbounded),
        pool,
        _known(spent.sends),
    )


def _line(
    place: CostLocation,
    share: LineCost,
    sent: SentMessage | None,
    rest: Amount,
    budget: Amount,
    pool: int | None,
) -> QuotedLine:
    sent = SentMessage(1, None, None) if sent is None else sent
    counts_sends = pool is not None and bool(share.calls)
    return QuotedLine(
        place.file,
        place.line,
        place.what,
        _known(share.sends if counts_sends else share.calls),
        _known(
            min(share.inside + rest, budget, share.repeats.within(inf if pool is None else pool))
        ),
        1 if counts_sends else sent.tries,
        sent.size,
        sent.max_tokens,
    )


def _cap(spent: SpendingBound, gap: MissingBound, budget: Amount) -> int | None:
    if gap.cap is not None:
        return gap.cap
    spawned_wallet = spent.spawned_wallets.get(gap.fund)
    own = inf if spawned_wallet is None else multiplied(spawned_wallet.wallet, spawned_wallet.count)
    return _known(min(budget, own))


def _known(amount: Amount) -> int | None:
    return None if amount == inf else int(amount)


# What one round of a loop may cost whose list is known at run time only: the sends in it, for who
# quotes the loop when the list is there.
#
# A row is `[agent, times, size, more, typed, budget]`. Its message has at most `size` bytes, or,
# with a `more` that is not -1, as many as the longest item and `more`; -1 is unknown. A typed
# answer's schema is counted in the size. Sends in loops inside that are unknown themselves are
# left out: those are quoted when their own lists are there.


RoundCost: TypeAlias = list[Any]
_FREE = ModelTerms(
    PriceRow("", (PriceTier(Money(0), Money(0), Money(0), Money(0)),)), 10**9, 1, lambda _: 0
)


def rounds_of(checked: Checked) -> dict[int, list[RoundCost]]:
    """Return what one round may send, by the loop, a node of the tree; only of loops whose lists
    have no bound in the source."""
    facts = facts_of(checked, lambda _: _FREE, None)
    facts.notes = {}
    try:
        walk_all(facts)
    except (QuoteTooLargeError, RecursionError):
        return {}
    return {
        loop: round_costs
        for loop, spent in facts.rounds.items()
        if (
            round_costs := _round_costs(
                loop, facts.notes, {p.what: s.calls for p, s in spent.shares.items()}
            )
        )
    }


def _round_costs(
    loop: int, notes: dict[str, RecordedSend], calls: dict[str, Any]
) -> list[RoundCost]:
    round_costs: list[RoundCost] = []
    for what, count in calls.items():
        note = notes.get(what)
        if note is not None and count not in (0, inf):
            size, more = _size(note.size, f"item@{loop}")
            extra = 0 if note.answer == STR else len(canonical(answer_schema(note.answer)))
            size, more = (part if part < 0 else part + extra for part in (size, more))
            budget = -1 if note.part is None else note.part
            times = -(-count // max(note.calls, 1))
            round_costs.append([note.agent, times, size, more, note.answer != STR, budget])
    return round_costs


def _size(size: Size | None, item: str) -> tuple[int, int]:
    if size is None or any(name != item for name, _ in size.symbols):
        return -1, -1
    more = max((more for _, more in size.symbols), default=-1)
    return max(size.number, 0), more


def cost_of_round(
    round_cost: RoundCost,
    longest: int,
    spec: AgentSpec,
    terms: Terms,
    tools: Any,  # noqa: ANN401
) -> int | float:
    """`longest` is of the items, in bytes, -1 if they are no texts; `tools` what the model is told
    of them. Infinity is no bound."""
    _, times, size, more, typed, budget = round_cost
    if more >= 0:
        size = -1 if longest < 0 else max(size, longest + more)
    sending = SendTerms(
        spec,
        BOOL if typed else STR,
        None if size < 0 else size,
        part=part_of(spec) if budget < 0 else budget,
        specs=tools,
        tools_spend=cost_bound(inf if spec.tools else 0),
    )
    return times * cost_of(sending, terms).fund.amount
