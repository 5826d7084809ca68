"""Refusals of programs that models wrote, in words that a model can act on (pure).

| refusal   | tells                                              | fixed by                       |
|-----------|----------------------------------------------------|--------------------------------|
| mistakes  | diagnostics, each with its line, caret and edit    | the edits                      |
| rights    | what of the manifest is not granted                | taking it out, narrowing it    |
| agents    | agents of its own with models not given            | another model                  |
| unbounded | the lines without a bound                          | `[T; n]`, `limit n`, a session |
| cost      | the quote, its most expensive line, what it may be | fewer rounds, a session, …     |
| room      | the quote and what is left                         | the same                       |
| size      | how long it may be, or how much work it makes      | a shorter, plainer program     |
| many      | how many programs a turn may run or try            | an answer without more         |
| nested    | how deep programs may run programs                 | asking agents from this one    |
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from vegakit.money import NANOS, Money, format_money

if TYPE_CHECKING:
    from vegakit.lang import Diagnostic, Quote, QuotedLine

_MOST_SHOWN = 12


class RefusalReason(StrEnum):
    """The reasons for which a program is refused."""

    MISTAKES = "mistakes"
    RIGHTS = "rights"
    AGENTS = "agents"
    UNBOUNDED = "unbounded"
    COST = "cost"
    ROOM = "room"
    SIZE = "size"
    MANY = "many"
    NESTED = "nested"


class RefusedProgram(Struct, frozen=True):
    """A refused program. Nothing was called and nothing was spent."""

    kind: RefusalReason
    text: str


def refused(kind: RefusalReason, what: str, *repairs: str) -> RefusedProgram:
    """Return a refusal, with a line for each thing that would fix it."""
    lines = [f"refused ({kind}), nothing was run: {what}"]
    return RefusedProgram(kind, "\n".join([*lines, *(f"- fix: {repair}" for repair in repairs)]))


def has_mistakes(found: "Sequence[Diagnostic]", texts: Mapping[str, str]) -> RefusedProgram:
    """Refuse a program with mistakes, and show the first of them."""
    from vegakit.lang import render

    errors = [one for one in found if one.severity == "error"]
    shown = errors[:_MOST_SHOWN]
    count = f"{len(errors)} mistake{'' if len(errors) == 1 else 's'}"
    first = "" if len(shown) == len(errors) else f", the first {len(shown)} of them"
    edits = [_edit(one, texts) for one in shown if one.edit is not None]
    return refused(
        RefusalReason.MISTAKES,
        f"{count}{first}\n{render(shown, texts)}".rstrip(),
        *edits or [_ANEW],
    )


_ANEW = "change these lines and send the whole program again"


def _edit(found: "Diagnostic", texts: Mapping[str, str]) -> str:
    edit, text = found.edit, texts.get(found.file, "")
    assert edit is not None
    line = text.count("\n", 0, edit.at) + 1
    was, written = text[edit.at : edit.end], edit.text.strip("\n")
    if not was:
        return f"line {line}: insert `{written}`"
    return f"line {line}: write `{written}` instead of `{was}`"


def unbounded(quoted: "Quote", most: Money) -> RefusedProgram:
    """Refuse a program whose cost has no bound, and say where."""
    gaps = [gap for gap in quoted.unbounded if gap.cap is None][:_MOST_SHOWN]
    where = "; ".join(f"line {gap.line}: {gap.why}" for gap in gaps) or "it has no bound"
    return refused(
        RefusalReason.UNBOUNDED,
        f"nobody can say what it may cost at most: {where}",
        "bound the list, as in `[str; 20]` or `list::take(items, 20)`, or the loop, as in "
        "`while more limit 10 { … }`",
        f"or put `session budget {_dollars(most)} {{` before these lines and `}}` after them",
    )


def too_complex() -> RefusedProgram:
    """Refuse a program that is too much work to check."""
    return refused(
        RefusalReason.SIZE,
        "it makes too much work for whoever checks and prices it",
        "nest fewer loops, and give the inner ones to a function",
        "or make it shorter: loops for what repeats, `arguments` for long lists and texts",
    )


def too_expensive(quoted: "Quote", most: Money) -> RefusedProgram:
    """Refuse a program that may cost more than is allowed, or usually does, where that was
    asked."""
    usual = quoted.typical is not None
    costs = f"usually costs {_amount(Money(quoted.typical or 0))}" if usual else "may cost "
    costs += "" if usual else _at_most(quoted)
    return refused(
        RefusalReason.COST,
        f"it {costs}; a program may cost at most {_amount(most)}. {_most_expensive(quoted)}",
        *_cheaper(quoted, most),
    )


def over_remaining(quoted: "Quote", room: Money) -> RefusedProgram:
    """Refuse a program that may cost more than is left for this turn."""
    return refused(
        RefusalReason.ROOM,
        f"it may cost {_at_most(quoted)}, and only {_amount(room)} is left for this turn. "
        f"{_most_expensive(quoted)}",
        *(_cheaper(quoted, room) if room else ("answer with what you have",)),
    )


def _cheaper(quoted: "Quote", most: Money) -> tuple[str, ...]:
    session = f"session budget {_dollars(most)} {{"
    share = max(1, most * 100 // max(1, quoted.typical or quoted.total or 1))
    fewer = f"make fewer calls on this line ({share} % of today's count fits)"
    return (
        f"{fewer}: shorten the list, or put several items into one message",
        "or make each call cost less: `budget $0.01` after the message, or a smaller `max_tokens`",
        f"or put `{session}` before these lines and `}}` after: then BudgetExceeded may be raised",
    )


def _at_most(quoted: "Quote") -> str:
    calls = "" if quoted.calls is None else f" in {quoted.calls:,} calls"
    if quoted.calls is not None and quoted.paid_repeats is not None:
        calls = f" in {quoted.calls:,} sends, at most {quoted.paid_repeats:,} paid repeats"
    return f"{_amount(Money(quoted.total or 0))}{calls}"


def _most_expensive(quoted: "Quote") -> str:
    if not quoted.lines:
        return ""
    line = max(quoted.lines, key=_cost_rank)
    what = "calls" if quoted.paid_repeats is None else "sends"
    calls = "" if line.calls is None else f", at most {line.calls:,} {what}"
    worst = "no bound" if line.worst is None else f"at most {_amount(Money(line.worst))}"
    return f"Most expensive is line {line.line}: `{line.what}`{calls}, {worst}."


def _cost_rank(line: "QuotedLine") -> tuple[bool, int]:
    return line.worst is None, line.worst or 0


def _amount(nanos: Money) -> str:
    return format_money(nanos)


def _dollars(nanos: Money) -> str:
    """Return the amount as written in a program: with at most six decimals, rounded down."""
    micros = max(nanos, 0) // (NANOS // 1_000_000)
    whole, rest = divmod(micros, 1_000_000)
    decimals = f"{rest:06d}".rstrip("0")
    return f"${whole}.{decimals.ljust(2, '0')}"
