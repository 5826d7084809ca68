"""The quote of a program: what it may cost at most, known before its first call."""

from vegakit.lang.quoting.program import quote
from vegakit.lang.quoting.records import ModelTerms, Quote, QuotedLine, Terms, Unbounded
from vegakit.lang.quoting.rounds import Row, cost_of_round, rounds_of

__all__ = [
    "ModelTerms",
    "Quote",
    "QuotedLine",
    "Row",
    "Terms",
    "Unbounded",
    "cost_of_round",
    "quote",
    "rounds_of",
]
