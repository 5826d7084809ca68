"""The quote of a whole program."""

from math import inf

from vegakit.lang.bytecode import AgentSpec
from vegakit.lang.checked import Checked
from vegakit.lang.compiling.declarations import agent_of, bodies_of
from vegakit.lang.quoting.calling import call_function
from vegakit.lang.quoting.records import Quote, QuotedLine, Terms, Unbounded
from vegakit.lang.quoting.spending import Amount, Spend
from vegakit.lang.quoting.values import of_type
from vegakit.lang.quoting.walking import Facts, TooLargeError, Walk
from vegakit.lang.tree import AgentDecl, Node, Spawn, SupervisorDecl, below

__all__ = ["quote"]

_MAIN = "main"


def quote(checked: Checked, terms: Terms, budget: int | None = None) -> Quote:
    """`budget` is the run's. Of a program that was checked without errors."""
    facts = _facts(checked, terms)
    try:
        spent = _main(facts)
    except (TooLargeError, RecursionError):
        gap = Unbounded(checked.main, 1, "the program is too large to be quoted", budget)
        return Quote(budget, None, None, (), (gap,))
    return _told(spent, inf if budget is None else budget)


def _main(facts: Facts) -> Spend:
    walk = Walk(facts, facts.checked.units[facts.checked.main])
    if _MAIN not in facts.bodies:
        walk.all(walk.unit.source.body)
        return walk.spent
    _, decl = facts.bodies[_MAIN]
    given = tuple(of_type(facts.type(param)) for param in decl.params)
    return call_function(walk, _MAIN, given)[0]


def _facts(checked: Checked, terms: Terms) -> Facts:
    agents: dict[str, AgentSpec] = {}
    for unit in checked.units.values():
        for decl in unit.source.decls:
            if isinstance(decl, AgentDecl):
                spec = agent_of(decl, checked)
                agents[spec.name] = spec
    nodes = (node for unit in checked.units.values() for node in below(unit.source))
    loose = not any(map(_has_own_wallet, nodes))
    return Facts(checked, agents, dict(bodies_of(checked)), terms, handles_in_sessions=loose)


def _has_own_wallet(node: Node) -> bool:
    """Sends to a process that has a wallet are not paid by the session they stand in."""
    if isinstance(node, Spawn):
        return node.wallet is not None or node.under is not None
    return isinstance(node, SupervisorDecl)


def _told(spent: Spend, budget: Amount) -> Quote:
    purses = spent.purses or inf
    handles = min(spent.handles, purses)
    total = min(spent.inside + spent.tools + handles, budget)
    caps = {"inside": budget, "tools": budget, "handles": min(budget, purses)}
    unbounded = dict.fromkeys(
        Unbounded(
            gap.place.file,
            gap.place.line,
            gap.place.what,
            _known(caps[gap.pot]) if gap.cap is None else gap.cap,
        )
        for gap in spent.gaps
    )
    rest = min(spent.tools + handles, budget)
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


def _known(amount: Amount) -> int | None:
    return None if amount == inf else int(amount)
