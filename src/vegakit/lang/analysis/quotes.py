"""The quote of a whole program, and the cost of one round of a loop whose list is known only at run
time (pure).
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import inf
from types import MappingProxyType
from typing import Any, TypeAlias

from msgspec.structs import replace

from vegakit.lang.analysis.cost_bounds import (
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
    has_tools,
    part_of,
)
from vegakit.lang.analysis.cost_statements import KnownRun, main_budget, walk_all
from vegakit.lang.analysis.cost_values import Size, counted_by
from vegakit.lang.analysis.cost_walk import (
    CostFacts,
    KnownWorld,
    QuoteTooLargeError,
    RecordedSend,
    Said,
    SentMessage,
    as_amount,
)
from vegakit.lang.check.symbols import Checked, Unit
from vegakit.lang.codegen.bytecode import AgentSpec
from vegakit.lang.codegen.writer import agent_of, bodies_of
from vegakit.lang.diagnostics import Edit, TooMuchWorkError, step_limit
from vegakit.lang.schemas import answer_schema
from vegakit.lang.syntax.lexer import money_text
from vegakit.lang.syntax.tree import (
    AgentDecl,
    Ask,
    Expr,
    FnDecl,
    For,
    Let,
    MoneyLit,
    Name,
    Node,
    Parallel,
    Race,
    Spawn,
    SupervisorDecl,
    Text,
    While,
    below,
)
from vegakit.lang.types import ANY, MONEY, STR, ListOf, is_text
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
    walked = _walked(make, known)
    if walked is None:
        gap = Unbounded(checked.main, 1, "the program is too large to be quoted", most)
        return Quote(most, None, None, (), (gap,))
    pool = _pool(checked, walked[0].sends, budget, known, repeats)
    if pool is not None and any(sent.tries - 1 > pool for sent in walked[1].sent.values()):
        walked = _walked(partial(make, pool=pool), known) or walked
    quoted = _with_caps(*walked, checked.main, inf if most is None else most, pool)
    if not typical:
        return quoted
    return with_typical(quoted, checked, terms, budget, most, max_tokens, known)


def with_typical(
    quoted: Quote,
    checked: Checked,
    terms: Terms,
    budget: int | None = None,
    most: int | None = None,
    max_tokens: Mapping[str, int] = _AS_WRITTEN,
    known: KnownRun | None = None,
) -> Quote:
    """Return the quote of a program with what a run usually spends, where that is known. No run is
    let spend more than `most`."""
    world = None if known is None else known.world
    make = partial(facts_of, checked, terms, budget, max_tokens, world, typical=True)
    usual = _tried(make, known)
    if usual is None or any(terms(spec) is None for spec in usual[1].agents.values()):
        return quoted  # without a price nothing is typical
    total = min(usual[0].total, inf if most is None else most)
    if quoted.total is not None:
        total = min(total, quoted.total)
    lines = tuple(_with_usual(line, usual[1].sent) for line in quoted.lines)
    return replace(quoted, typical=None if total == inf else round(total), lines=lines)


def _with_usual(line: QuotedLine, sizes: Mapping[CostLocation, SentMessage]) -> QuotedLine:
    sent = sizes.get(CostLocation(line.file, line.line, line.what))
    return line if sent is None else replace(line, usual_bytes=sent.size)


def _pool(
    checked: Checked,
    sends: Amount,
    budget: int | None,
    known: KnownRun | None,
    repeats: int | None,
) -> int | None:
    """Return how many repeats a run may pay. It does not know of its budget and prices when its
    pool is made, so what these leave out counts."""
    if repeats is None:
        return None
    if budget is not None or known is not None:
        sends = max(sends, as_amount(sends_of(checked, known)))
    return None if sends == inf else paid_repeats(int(sends), repeats)


def sends_of(checked: Checked, known: KnownRun | None = None) -> int | None:
    """Return how many sends a program may make, each counted once, whatever they cost; None where
    nothing bounds them. By it a run has its pool of paid repeats: by its arguments, where who
    starts it hands on what is `known` of it."""
    walked = _walked(partial(facts_of, checked, lambda _: _FREE, None, _AS_WRITTEN), known)
    return None if walked is None else _known(walked[0].sends)


def kill_cost(checked: Checked, quoted: Quote, window: int) -> int | None:
    """Return the most that one kill may add to a quoted run: the price of the calls that can be in
    flight. A program with parallel constructs or tools may have all its sends in flight; another
    program has one call and its lookahead. Nothing is added if the budget of `main` bounds the run.
    None without a bound."""
    main = budget_of_main(checked)
    if main is not None and quoted.total is not None and quoted.total >= main:
        return 0
    nodes = (node for unit in checked.units.values() for node in below(unit.source))
    is_wide = any(_goes_side_by_side(node) for node in nodes)
    free = inf if is_wide else window + 1
    cost = 0
    for line in sorted(quoted.lines, key=lambda line: -_price(line)):
        if _price(line) == inf or (line.sends is None and free == inf):
            return quoted.total
        count = free if line.sends is None else min(free, line.sends)
        cost += round(count * _price(line))
        free -= count
    return cost if quoted.total is None else min(cost, quoted.total)


def _price(line: QuotedLine) -> Amount:
    """Return what one call of a line costs at most."""
    prices = [price for price in (line.once, line.worst) if price is not None]
    return min(prices, default=inf)


def _goes_side_by_side(node: Node) -> bool:
    if isinstance(node, AgentDecl):
        return bool(node.tools) or any(field.name == "tools" for field in node.fields)
    return isinstance(node, Parallel | Race | Spawn | SupervisorDecl)


_Walked: TypeAlias = tuple[SpendingBound, CostFacts]


def _walked(make: Callable[..., CostFacts], known: KnownRun | None) -> _Walked | None:
    """Return what is spent. Where that would take too long to find out, less is followed without
    the world."""
    if known is None:
        return _tried(make, None)
    return _tried(partial(make, known.world), known) or _tried(make, known)


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
    assumed, may_fail, walks = Said(), False, 0
    while True:
        facts = make(assumed=assumed)
        facts.spawns_may_fail = may_fail
        with counted_by(facts.tokenizer):
            spent = walk_all(facts, known)
        holds = assumed.covers(facts.said)
        if walks == _MOST_WALKS or (holds and (may_fail or spent.processes <= _FEW)):
            return spent, facts
        walks += 1
        may_fail |= spent.processes > _FEW
        if not holds:
            is_last = walks >= _MOST_WALKS - 1
            assumed = assumed.boundless_where(facts.said) if is_last else facts.said
            assumed.is_used = False


def budget_of_main(checked: Checked) -> int | None:
    """Return the budget of `main`, where it is written as an amount: a run that has less is
    refused."""
    return main_budget(dict(bodies_of(checked)))


def facts_of(
    checked: Checked,
    terms: Terms,
    budget: int | None,
    max_tokens: Mapping[str, int] = _AS_WRITTEN,
    world: KnownWorld | None = None,
    assumed: Said | None = None,
    *,
    typical: bool = False,
    pool: Amount = inf,
) -> CostFacts:
    """Return the facts about a program that every walk needs. `pool` is how many repeats a run may
    pay: no send has more."""
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
        pool=pool,
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
        _with_uncut(
            _line(place, share, facts.sent.get(place), min(share.rest, rest), budget, pool),
            facts.uncut.get("main", {}).get(place),
            main_budget(facts.bodies),
            budget,
            pool,
        )
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
        once=_known(sent.once),
        is_refused=sent.is_refused or not sent.tries,
    )


def _with_uncut(
    line: QuotedLine, share: LineCost | None, cap: int | None, budget: Amount, pool: int | None
) -> QuotedLine:
    """Return the line with what it may cost without the budget of `main`, where that is more and
    nothing else, such as the wallet of its process, stops it before."""
    if share is None or cap is None or (line.worst or 0) < min(cap, budget):
        return line
    amount = min(share.inside + share.rest, share.repeats.within(inf if pool is None else pool))
    return replace(line, uncut=int(amount)) if cap < amount < inf else line


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
        MONEY if typed else STR,  # of which a misfit is told at length, as of any
        None if size < 0 else size,
        part=part_of(spec) if budget < 0 else budget,
        specs=tools,
        tools_spend=cost_bound(inf if spec.tools else 0),
    )
    return times * cost_of(sending, terms).fund.amount


# What to write for a lower bound: edits of the source around one send, for who quotes each of them.


_FEWEST_CUT = 200
_USUAL_TIMES = 5
_MOST_ITEMS = 20


def tightenings(checked: Checked, line: QuotedLine, typical: int | None) -> Iterator[Edit]:
    """Return edits of the file of a line that may lower its bound, those first that take nothing
    from a run of ordinary size: bound a text that `main` is given, cut the message, bound the loop
    around, lower the wallet, let the send spend no more than one call of it may, or than a few
    runs usually spend. `typical` is of the whole program."""
    unit = checked.units[line.file]
    if unit.path.endswith(".py"):
        return
    nodes = [*below(unit.source)]
    for ask in nodes:
        if not isinstance(ask, Ask) or bisect_left(unit.line_ends, ask.at) + 1 != line.line:
            continue
        yield from _sized(checked, unit, nodes, ask, line)
        yield from _cut(checked, unit, ask, line)
        yield from _bounded(checked, unit, nodes, ask, line)
        is_agent = isinstance(ask.to, Name) and id(ask.to) in checked.full_names
        if typical and not is_agent:
            yield from _less(nodes, ask, typical * _USUAL_TIMES)
        elif line.once and ask.budget is None:
            # A send with tools goes on after its first calls: what a run usually spends on all that
            # it does is enough for one of its sends.
            usual = (typical or 0) * _USUAL_TIMES
            amples = [line.once, usual] if 0 < usual < line.once else [line.once]
            if usual and _has_tools(checked, nodes, ask):
                amples = [usual]
            for ample in amples:
                yield Edit(ask.end, ask.end, f" budget {money_text(_rounded_up(ample))}")


def _parts(ask: Ask) -> tuple[str | Expr, ...]:
    return ask.message.parts if isinstance(ask.message, Text) else (ask.message,)


def _ample(line: QuotedLine) -> int:
    return _step_up(max(2 * (line.usual_bytes or 0), _FEWEST_CUT))


def _sized(
    checked: Checked, unit: Unit, nodes: list[Node], ask: Ask, line: QuotedLine
) -> Iterator[Edit]:
    """Bound the types of the texts that `main` is given and the message holds as they are."""
    named = {part.name for part in _parts(ask) if isinstance(part, Name)}
    params = [
        param.type
        for node in nodes
        if isinstance(node, FnDecl) and node.name == "main" and node.at <= ask.at < node.end
        for param in node.params
        if param.type and param.name in named and checked.types.get(id(param)) == STR
    ]
    if params:
        first, last, written = params[0].at, params[-1].end, f"str; {_ample(line)}"
        text = unit.text[first:last]
        for each in reversed(params):
            text = f"{text[: each.at - first]}{written}{text[each.end - first :]}"
        yield Edit(first, last, text)


def _cut(checked: Checked, unit: Unit, ask: Ask, line: QuotedLine) -> Iterator[Edit]:
    """Cut one text in the message, and then each, to twice of what all of it typically has."""
    message = ask.message
    texts = [
        part
        for part in _parts(ask)
        if not isinstance(part, str | Text)
        and is_text(checked.types.get(id(part), ANY))
        and not unit.text.startswith("str::slice", part.at)
    ]
    most = _ample(line)
    for chosen in (*([each] for each in texts), *([texts] if len(texts) > 1 else [])):
        written = unit.text[message.at : message.end]
        for part in sorted(chosen, key=lambda part: part.at, reverse=True):
            at, end = part.at - message.at, part.end - message.at
            written = f"{written[:at]}str::slice({written[at:end]}, 0, {most}){written[end:]}"
        yield Edit(message.at, message.end, written)


def _has_tools(checked: Checked, nodes: list[Node], ask: Ask) -> bool:
    name = ask.to.name if isinstance(ask.to, Name) else ""
    agents = (node for node in nodes if isinstance(node, AgentDecl) and node.name == name)
    return any(has_tools(agent_of(agent, checked)) for agent in agents)


def _has_many(line: QuotedLine) -> bool:
    return line.sends is not None and line.sends > _MOST_ITEMS


def _parameters(nodes: list[Node]) -> set[str]:
    return {param.name for node in nodes if isinstance(node, FnDecl) for param in node.params}


def _bounded(
    checked: Checked, unit: Unit, nodes: list[Node], ask: Ask, line: QuotedLine
) -> Iterator[Edit]:
    """Bound the loops around a send."""
    is_free, given = line.calls is None, _parameters(nodes)
    for node in nodes:
        if isinstance(node, For) and node.body.at <= ask.at < node.body.end:
            # Of a list that its type bounds, or that `main` is given, no item is left out.
            kind = checked.types.get(id(node.over))
            has_items = isinstance(kind, ListOf) and kind.most is None
            is_given = isinstance(node.over, Name) and node.over.name in given
            if not (is_free or (_has_many(line) and has_items and not is_given)):
                continue
            over = unit.text[node.over.at : node.over.end]
            yield Edit(node.over.at, node.over.end, f"list::take({over}, {_MOST_ITEMS})")
        elif (
            is_free
            and isinstance(node, While)
            and node.limit is None
            and node.at <= ask.at < node.body.end
        ):
            yield Edit(node.test.end, node.test.end, f" limit {_MOST_ITEMS}")


def _less(nodes: list[Node], ask: Ask, amount: int) -> Iterator[Edit]:
    """Lower the wallet of the process that it is sent to, or give it one."""
    name = ask.to.name if isinstance(ask.to, Name) else ""
    for node in nodes:
        if isinstance(node, Let) and node.name == name and isinstance(node.value, Spawn):
            wallet = node.value.wallet
            if wallet is None:
                at = node.value.agent.end
                yield Edit(at, at, f" wallet {money_text(_rounded_up(amount))}")
            elif isinstance(wallet, MoneyLit) and wallet.nanos > amount:
                yield Edit(wallet.at, wallet.end, money_text(_rounded_up(amount)))


def _step_up(number: int) -> int:
    """Return the next of 1, 2, 5, 10, 20, 50, …"""
    step = 10 ** (len(str(number)) - 1)
    return next(each * step for each in (1, 2, 5, 10) if each * step >= number)


def _rounded_up(nanos: int) -> int:
    """Return an amount with two digits, or a hundredth of a cent."""
    step = max(10 ** max(len(str(nanos)) - 2, 0), 100_000)
    return -(-nanos // step) * step
