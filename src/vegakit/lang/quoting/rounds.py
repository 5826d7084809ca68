"""What one round of a loop may cost whose list is known at run time only: the sends in it, for who
quotes the loop when the list is there.

A row is `[agent, times, size, more, typed, budget]`. Its message has at most `size` bytes, or, with
a `more` that is not -1, as many as the longest item and `more`; -1 is unknown. A typed answer's
schema is counted in the size. Sends in loops inside that are unknown themselves are left out: those
are quoted when their own lists are there.
"""

from math import inf
from typing import Any, TypeAlias

from vegakit.lang.bytecode import AgentSpec
from vegakit.lang.checked import Checked
from vegakit.lang.quoting.pots import pot_of
from vegakit.lang.quoting.program import facts_of, walk_all
from vegakit.lang.quoting.records import ModelTerms, Terms
from vegakit.lang.quoting.sends import Sending, cost_of
from vegakit.lang.quoting.sizes import Size
from vegakit.lang.quoting.walking import Noted, TooLargeError
from vegakit.lang.schemas import answer_schema
from vegakit.lang.types import BOOL, STR
from vegakit.money import Money
from vegakit.prices import PriceRow, PriceTier
from vegakit.records import canonical

__all__ = ["Row", "cost_of_round", "rounds_of"]

Row: TypeAlias = list[Any]
_FREE = ModelTerms(
    PriceRow("", (PriceTier(Money(0), Money(0), Money(0), Money(0)),)), 10**9, 1, lambda _: 0
)


def rounds_of(checked: Checked) -> dict[int, list[Row]]:
    """By the loop, a node of the tree; of those whose lists have no bound in the source."""
    facts = facts_of(checked, lambda _: _FREE, None)
    facts.notes = {}
    try:
        walk_all(facts)
    except (TooLargeError, RecursionError):
        return {}
    return {
        loop: rows
        for loop, spent in facts.rounds.items()
        if (rows := _rows(loop, facts.notes, {p.what: s.calls for p, s in spent.shares.items()}))
    }


def _rows(loop: int, notes: dict[str, Noted], calls: dict[str, Any]) -> list[Row]:
    rows: list[Row] = []
    for what, count in calls.items():
        note = notes.get(what)
        if note is not None and count not in (0, inf):
            size, more = _size(note.size, f"item@{loop}")
            extra = 0 if note.answer == STR else len(canonical(answer_schema(note.answer)))
            size, more = (part if part < 0 else part + extra for part in (size, more))
            budget = -1 if note.part is None else note.part
            times = -(-count // max(note.calls, 1))
            rows.append([note.agent, times, size, more, note.answer != STR, budget])
    return rows


def _size(size: Size | None, item: str) -> tuple[int, int]:
    if size is None or any(name != item for name, _ in size.symbols):
        return -1, -1
    more = max((more for _, more in size.symbols), default=-1)
    return max(size.number, 0), more


def cost_of_round(row: Row, longest: int, spec: AgentSpec, terms: Terms, tools: Any) -> int | float:  # noqa: ANN401
    """`longest` is of the items, in bytes, -1 if they are no texts; `tools` what the model is told
    of them. Infinity is no bound."""
    _, times, size, more, typed, budget = row
    if more >= 0:
        size = -1 if longest < 0 else max(size, longest + more)
    sending = Sending(
        spec,
        BOOL if typed else STR,
        None if size < 0 else size,
        part=spec.budget if budget < 0 else budget,
        specs=tools,
        tools_spend=pot_of(inf if spec.tools else 0),
    )
    return times * cost_of(sending, terms).pot.amount
