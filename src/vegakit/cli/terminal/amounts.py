"""Write the money of a session in one way everywhere on its screen. Pure.

What was spent has four decimals and is rounded up, what is left is rounded down, and a limit of
whole cents is written in cents. So a figure in the conversation is the one in the status line, and
its width does not change while it grows.
"""

from vegakit.cli.look import Figures, Rounding, decimals_of, money
from vegakit.cli.terminal.state import MoneyView
from vegakit.money import NANOS

_PLACES, _CENT = 4, NANOS // 100
AT_MOST = "at most "
"""Stands before a sum in which calls are whose bills nobody knows."""


def amount(nanos: int) -> str:
    """Return what was spent, or may be."""
    return money(nanos, max(_PLACES, decimals_of(nanos)), Rounding.UP)


def limit(nanos: int) -> str:
    """Return what may be spent in all."""
    places = 2 if nanos % _CENT == 0 else max(_PLACES, decimals_of(nanos))
    return money(nanos, places, Rounding.DOWN)


def shown(own: MoneyView) -> Figures:
    """Return the figures of a budget. They add up: the shown reservation is what lies between what
    was spent and what is left."""
    most = own.at_most or 0
    places = max(_PLACES, decimals_of(most, own.spent, own.reserved))
    step = NANOS // 10**places
    total, spent = most // step * step, -(-own.spent // step) * step
    least = (most - own.spent - own.reserved) // step * step if own.reserved else total - spent
    left = max(0, min(least, total - spent))
    held = max(0, total - spent - left)
    told = (money(one, places) for one in (held, spent, left))
    return Figures(limit(most), *told)


def spent_told(own: MoneyView) -> str:
    """Return a budget in words: what was spent of it, is reserved, and is left."""
    most = AT_MOST if own.unbilled else ""
    if own.at_most is None:
        return f"{most}{amount(own.spent)} spent; no budget limits this session"
    told = shown(own)
    held = f" · {told.reserved} reserved" if own.reserved else ""
    return f"{most}{told.spent} of {told.at_most} spent{held} · {told.left} left"
