"""The language on a card: what a model needs to write programs, in at most 2,000 tokens (pure).

Made from the tables that the checker, the compiler and the reference are made from.
"""

from typing import Literal, TypeAlias

from vegakit.lang.cards import pages, styles
from vegakit.lang.cards.tables import tables_in

__all__ = ["MOST_BYTES", "Syntax", "card"]

Syntax: TypeAlias = Literal["vega", "python"]

MOST_BYTES = 6_000
"""2,000 tokens, at three bytes a token: tokenizers make fewer of English and code."""

_CARDS = {"vega": (pages.VEGA, styles.VEGA), "python": (pages.PYTHON, styles.PYTHON)}


def card(syntax: Syntax = "vega") -> str:
    text, style = _CARDS[syntax]
    for name, made in tables_in(style).items():
        text = text.replace(f"<{name}>", made)
    return text
