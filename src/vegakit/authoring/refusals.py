"""Refusals, in words that a model can act on: what is wrong, why, and what to write instead.

| refusal   | tells                                           | mended by                      |
|-----------|-------------------------------------------------|--------------------------------|
| mistakes  | diagnostics, each with its line, caret and edit | the edits                      |
| rights    | what of the manifest is not granted             | taking it out, narrowing it    |
| agents    | agents of its own with models not given         | another model                  |
| unbounded | the lines without a bound                       | `[T; n]`, `limit n`, a session |
| cost      | the quote, its dearest line, what it may be     | fewer rounds, a session, …     |
| room      | the quote and what is left                      | the same                       |
| size      | how long it may be, or how much work it makes   | a shorter, plainer program     |
| many      | how many programs a turn may run or try         | an answer without more         |
| nested    | how deep programs may run programs              | asking agents from this one    |
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from vegakit.lang import Diagnostic, Quote, QuotedLine, render
from vegakit.money import NANOS, Money, show

__all__ = ["Refusal", "Refused", "dear", "heavy", "mistaken", "over_room", "refused", "unbounded"]

_MOST_TOLD = 12


class Refusal(StrEnum):
    MISTAKES = "mistakes"
    RIGHTS = "rights"
    AGENTS = "agents"
    UNBOUNDED = "unbounded"
    COST = "cost"
    ROOM = "room"
    SIZE = "size"
    MANY = "many"
    NESTED = "nested"


class Refused(Struct, frozen=True):
    """Nothing was called and nothing spent."""

    kind: Refusal
    text: str


def refused(kind: Refusal, what: str, *repairs: str) -> Refused:
    lines = [f"refused ({kind}), nothing was run: {what}"]
    return Refused(kind, "\n".join([*lines, *(f"- to mend it: {repair}" for repair in repairs)]))


def mistaken(found: Sequence[Diagnostic], texts: Mapping[str, str]) -> Refused:
    errors = [one for one in found if one.severity == "error"]
    told = errors[:_MOST_TOLD]
    count = f"{len(errors)} mistake{'' if len(errors) == 1 else 's'}"
    first = "" if len(told) == len(errors) else f", the first {len(told)} of them"
    edits = [_edit(one, texts) for one in told if one.edit is not None]
    return refused(
        Refusal.MISTAKES, f"{count}{first}\n{render(told, texts)}".rstrip(), *edits or [_ANEW]
    )


_ANEW = "change these lines and send the whole program again"


def _edit(found: Diagnostic, texts: Mapping[str, str]) -> str:
    edit, text = found.edit, texts.get(found.file, "")
    assert edit is not None
    line = text.count("\n", 0, edit.at) + 1
    was, written = text[edit.at : edit.end], edit.text.strip("\n")
    if not was:
        return f"line {line}: insert `{written}`"
    return f"line {line}: write `{written}` instead of `{was}`"


def unbounded(quoted: Quote, most: Money) -> Refused:
    gaps = [gap for gap in quoted.unbounded if gap.cap is None][:_MOST_TOLD]
    where = "; ".join(f"line {gap.line}: {gap.why}" for gap in gaps) or "it has no bound"
    return refused(
        Refusal.UNBOUNDED,
        f"nobody can say what it may cost at most: {where}",
        "bound the list, as in `[str; 20]` or `list::take(items, 20)`, or the loop, as in "
        "`while more limit 10 { … }`",
        f"or put `session budget {_dollars(most)} {{` before these lines and `}}` after them",
    )


def heavy() -> Refused:
    return refused(
        Refusal.SIZE,
        "it makes too much work for whoever checks and prices it",
        "nest fewer loops, and give the inner ones to a function",
        "or make it shorter: loops for what repeats, `arguments` for long lists and texts",
    )


def dear(quoted: Quote, most: Money) -> Refused:
    return refused(
        Refusal.COST,
        f"it may cost {_at_most(quoted)}; a program may cost at most {_amount(most)}. "
        f"{_dearest(quoted)}",
        *_cheaper(quoted, most),
    )


def over_room(quoted: Quote, room: Money) -> Refused:
    return refused(
        Refusal.ROOM,
        f"it may cost {_at_most(quoted)}, and only {_amount(room)} is left for this turn. "
        f"{_dearest(quoted)}",
        *(_cheaper(quoted, room) if room else ("answer with what you have",)),
    )


def _cheaper(quoted: Quote, most: Money) -> tuple[str, ...]:
    session = f"session budget {_dollars(most)} {{"
    share = max(1, most * 100 // max(1, quoted.total or 1))
    return (
        f"ask fewer times there, {share} % as often: shorten the list, or join items in a message",
        "or let each ask cost less: `budget $0.01` after the message, or a smaller `max_tokens`",
        f"or put `{session}` before these lines and `}}` after: then BudgetExceeded may be raised",
    )


def _at_most(quoted: Quote) -> str:
    calls = "" if quoted.calls is None else f" in {quoted.calls:,} calls"
    return f"{_amount(Money(quoted.total or 0))}{calls}"


def _dearest(quoted: Quote) -> str:
    if not quoted.lines:
        return ""
    line = max(quoted.lines, key=_dearness)
    calls = "" if line.calls is None else f", at most {line.calls:,} calls"
    worst = "no bound" if line.worst is None else f"at most {_amount(Money(line.worst))}"
    return f"Dearest is line {line.line}: `{line.what}`{calls}, {worst}."


def _dearness(line: QuotedLine) -> tuple[bool, int]:
    return line.worst is None, line.worst or 0


def _amount(nanos: Money) -> str:
    return show(nanos)


def _dollars(nanos: Money) -> str:
    """As it is written in a program: of six decimals, and never more than it is."""
    micros = max(nanos, 0) // (NANOS // 1_000_000)
    whole, rest = divmod(micros, 1_000_000)
    decimals = f"{rest:06d}".rstrip("0")
    return f"${whole}.{decimals.ljust(2, '0')}"
