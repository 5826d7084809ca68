"""The quote of a program: what it may cost at most, known before its first call."""

from vegakit.lang.quoting.program import quote
from vegakit.lang.quoting.records import ModelTerms, Quote, QuotedLine, Terms, Unbounded

__all__ = ["ModelTerms", "Quote", "QuotedLine", "Terms", "Unbounded", "quote"]
