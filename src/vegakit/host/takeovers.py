"""Takeovers: how a resumed run pays for the calls that the end of its last life cut off.

Each of these calls may have been billed, so it is charged and sent again. The run checks all of
them together before it sends any:

| the calls                                    | the run                                         |
|----------------------------------------------|-------------------------------------------------|
| fit the rest of the cap                      | resumes; its "at most" rises by their charges   |
| do not fit                                   | asks a person for the missing amount            |
| fit, with `on_cut_off = "ask"`               | asks whether its "at most" may rise             |
| with `on_cut_off = "never"`                  | resumes if the rest of its quote is enough      |
| follow five lives without a new reply        | is parked: a crash loop must not spend the cap  |
"""

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct, structs

from vegakit.config import OnCutOff
from vegakit.errors import NeedsConsent
from vegakit.host.journal import JournaledRun
from vegakit.money import Money, dollars, format_money
from vegakit.ports import RunQuote

MOST_FRUITLESS = 5
_CENT = dollars("$0.01")


async def _nobody_accepts(_: NeedsConsent) -> bool:
    return False


async def _nothing_is_missing() -> None:
    pass


class TakeoverTerms(Struct):
    """The terms of a takeover: `caps` bound the run in addition to the budget of its runtime,
    `check` raises if a key is missing, and `ask` has a person accept the cost."""

    on_cut_off: str | None = None
    caps: Sequence[Money] = ()
    ask: Callable[[NeedsConsent], Awaitable[bool]] = _nobody_accepts
    check: Callable[[], Awaitable[None]] = _nothing_is_missing


class Doubt(Struct, frozen=True):
    """The reason why a run stops before it resumes. `missing` is the amount to add when a person
    accepts."""

    error: NeedsConsent
    missing: Money = Money(0)
    may_be_accepted: bool = True


def takeover(
    journaled: JournaledRun,
    quote: RunQuote | None,
    on_cut_off: str | None,
    rest: int | None,
    rest_of_user: int | None = None,
) -> Doubt | None:
    """Return why a resumed run has to stop, None if it may continue. `rest` is the rest of its
    caps, None if nothing limits it, and `rest_of_user` that of the user's own budget, which a
    resumed run cannot raise."""
    cut = journaled.recovered.cut
    if journaled.which.alone:
        return None  # a session is asked by its own budget
    if journaled.takeovers.fruitless >= MOST_FRUITLESS:
        return Doubt(_parked(journaled))
    if not cut.unsent:
        return None
    if rest_of_user is not None and cut.due > rest_of_user:
        return Doubt(_over_user(journaled, rest_of_user), may_be_accepted=False)
    if on_cut_off == OnCutOff.NEVER:
        return _within_quote(journaled, quote, rest)
    missing = 0 if rest is None else max(0, cut.due - rest)
    asks = on_cut_off == OnCutOff.ASK and journaled.takeovers.accepted < cut.total
    if missing or asks:
        more = Money(missing)
        return Doubt(_short(journaled, quote, more, rest), more)
    return None


def cut_off_message(journaled: JournaledRun, quote: RunQuote | None) -> str:
    """Return the message about the calls that the end of the last life cut off; "" if there are
    none."""
    cut = journaled.recovered.cut
    if not cut.unsent or cut.total <= journaled.cut_before:
        return ""
    bounds = _bounds(journaled, quote)
    return _calls(journaled) + ("" if bounds is None else f". {bounds}") + "."


def _calls(journaled: JournaledRun) -> str:
    cut = journaled.recovered.cut
    count = "1 call was" if cut.unsent == 1 else f"{cut.unsent:,} calls were"
    return f"{count} cut off and may have been billed ({_up(cut.due)}, charged)"


def _bounds(journaled: JournaledRun, quote: RunQuote | None, more: int = 0) -> str | None:
    """Return the new and the old maximum of a run, None if it has none."""
    if quote is None:
        return None
    raised = journaled.run.raised
    before = structs.replace(quote, cut=Money(min(quote.cut, journaled.cut_before)))
    maximum = quote.bound(raised=raised + more)
    earlier = before.bound(raised=raised)
    if maximum is None or earlier is None:
        return None
    text = f"At most {_up(maximum)}"
    changes = maximum > earlier and _up(maximum) != _up(earlier)
    return f"{text}, was {_up(earlier)}" if changes else text


def _up(nanos: int) -> str:
    """Return an amount in cents, where these are exact enough, and never less than it is."""
    return format_money(_in_cents(nanos) if nanos >= 10 * _CENT else nanos)


def _in_cents(nanos: int) -> Money:
    return Money(-(-nanos // _CENT) * _CENT)


def _short(
    journaled: JournaledRun, quote: RunQuote | None, missing: Money, rest: int | None
) -> NeedsConsent:
    text = _calls(journaled)
    if missing and rest is not None:
        due = _up(journaled.recovered.cut.due)
        text += f"; sent again they may cost {due} more, and {format_money(rest)} is left"
    bounds = _bounds(journaled, quote, missing)
    text += "" if bounds is None else f". {bounds}"
    what = f"to add {format_money(missing)} and continue" if missing else "to continue"
    return NeedsConsent(f"{text}; {what}, type: vega resume --yes")


def _over_user(journaled: JournaledRun, rest: int) -> NeedsConsent:
    return NeedsConsent(
        f"{_calls(journaled)}; sent again they may cost {_up(journaled.recovered.cut.due)} more, "
        f"and {format_money(Money(rest))} is left of budget.default in your own settings; raise it "
        "there or wait for its next period, then type: vega resume"
    )


def _within_quote(
    journaled: JournaledRun, quote: RunQuote | None, rest: int | None
) -> Doubt | None:
    """Return why the rest of the quote is not enough, None if it is."""
    cut = journaled.recovered.cut
    rooms = [] if rest is None else [rest]
    if quote is not None and quote.wallet is not None:
        spent = journaled.recovered.charged
        rooms.append(max(0, quote.wallet + journaled.run.raised - spent))
    room = min(rooms, default=None)
    if room is None or cut.due <= room:
        return None
    more = Money(cut.due - room)
    why = (
        f"{_calls(journaled)}; sent again they may cost {_up(cut.due)} more, {format_money(room)} "
        "is left of what the run may spend, and on_cut_off is never; to go on, type: "
        f"vega resume --budget '+{format_money(more)}'"
    )
    return Doubt(NeedsConsent(why), more, may_be_accepted=False)


def _parked(journaled: JournaledRun) -> NeedsConsent:
    charged = _up(journaled.takeovers.charged)
    return NeedsConsent(
        f"the run was resumed {MOST_FRUITLESS} times in a row without a new reply, and {charged} "
        "is charged for calls that were cut off, so it is parked; find out what ends it, then "
        "type: vega resume --yes"
    )
