"""Text that several programs could read differently is refused, with the reason.

Each subject (paths, commands, hosts) states its doubts as a table; the first that holds is told.
"""

from collections.abc import Callable
from typing import TypeAlias

from vegakit.policy.capability.wanted import Denied

__all__ = ["Doubts", "first_doubt", "refused", "shown"]

Doubts: TypeAlias = tuple[tuple[Callable[[str], object], str], ...]

_SHOWN_CHARACTERS = 80


def first_doubt(text: str, doubts: Doubts) -> str | None:
    return next((why for holds, why in doubts if holds(text)), None)


def refused(subject: str, text: str, why: str) -> Denied:
    return Denied(f"the {subject} {shown(text)} is refused: {why}")


def shown(text: str) -> str:
    """Code points, not glyphs: a reader must see the character that turns a line around."""
    cut = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."
    return ascii(cut)
