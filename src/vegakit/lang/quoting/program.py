"""The quote of a whole program."""

from collections.abc import Mapping
from math import inf
from types import MappingProxyType

from msgspec.structs import replace

from vegakit.lang.bytecode import AgentSpec
from vegakit.lang.checked import Checked
from vegakit.lang.compiling.declarations import agent_of, bodies_of
from vegakit.lang.quoting.calling import call_function
from vegakit.lang.quoting.pots import Amount, multiplied
from vegakit.lang.quoting.records import Quote, QuotedLine, Terms, Unbounded
from vegakit.lang.quoting.spending import Gap, Spend
from vegakit.lang.quoting.values import of_type
from vegakit.lang.quoting.walking import Facts, TooLargeError, Walk
from vegakit.lang.steps import StepsSpentError, counted
from vegakit.lang.tree import AgentDecl, Node, Spawn, SupervisorDecl, below

__all__ = ["facts_of", "quote", "walk_all"]

_MAIN = "main"
_AS_WRITTEN: Mapping[str, int] = MappingProxyType({})
_FEW = 40
"""So many processes a program may always spawn."""


def quote(
    checked: Checked,
    terms: Terms,
    budget: int | None = None,
    ceiling: int | None = None,
    max_tokens: Mapping[str, int] = _AS_WRITTEN,
) -> Quote:
    """Of a program that was checked without errors. `budget` is the run's own, of which parts are
    set aside; `ceiling` caps all that is spent and sets nothing aside; `max_tokens` are for agents
    by name, in place of what is written."""
    caps = [cap for cap in (budget, ceiling) if cap is not None]
    most = min(caps, default=None)
    try:
        with counted():
            facts = facts_of(checked, terms, budget, max_tokens)
            spent = walk_all(facts)
            if spent.processes > _FEW:
                facts = facts_of(checked, terms, budget, max_tokens)
                facts.spawns_may_fail = True
                spent = walk_all(facts)
    except (TooLargeError, StepsSpentError, RecursionError):
        gap = Unbounded(checked.main, 1, "the program is too large to be quoted", most)
        return Quote(most, None, None, (), (gap,))
    return _told(spent, inf if most is None else most)


def walk_all(facts: Facts) -> Spend:
    unit, budget = facts.checked.units[facts.checked.main], facts.budget
    walk = Walk(facts, unit, budget, may_lack=budget is not None)
    if _MAIN not in facts.bodies:
        walk.all(walk.unit.source.body)
        return walk.spent
    _, decl = facts.bodies[_MAIN]
    given = tuple(of_type(facts.type(param)) for param in decl.params)
    return call_function(walk, _MAIN, given).spent


def facts_of(
    checked: Checked,
    terms: Terms,
    budget: int | None,
    max_tokens: Mapping[str, int] = _AS_WRITTEN,
) -> Facts:
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
    return Facts(checked, agents, bodies, terms, handles_in_sessions=loose, budget=budget)


def _has_own_wallet(node: Node) -> bool:
    """Sends to a process that has a wallet are not paid by the session they stand in."""
    if isinstance(node, Spawn):
        return node.wallet is not None or node.under is not None
    return isinstance(node, SupervisorDecl)


def _told(spent: Spend, budget: Amount) -> Quote:
    total = min(spent.total, budget)
    unbounded = dict.fromkeys(
        Unbounded(gap.place.file, gap.place.line, gap.place.what, _cap(spent, gap, budget))
        for gap in spent.gaps
    )
    rest = min(spent.apart + spent.of_processes, budget)
    lines = tuple(
        QuotedLine(
            place.file,
            place.line,
            place.what,
            _known(share.calls),
            _known(min(share.inside + min(share.rest, rest), budget)),
        )
        for place, share in sorted(spent.shares.items())
    )
    return Quote(
        _known(total), _known(spent.calls), _known(spent.processes), lines, tuple(unbounded)
    )


def _cap(spent: Spend, gap: Gap, budget: Amount) -> int | None:
    if gap.cap is not None:
        return gap.cap
    purse = spent.purses.get(gap.pot)
    own = inf if purse is None else multiplied(purse.wallet, purse.count)
    return _known(min(budget, own))


def _known(amount: Amount) -> int | None:
    return None if amount == inf else int(amount)
