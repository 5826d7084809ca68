"""The quote of a run: made with its real arguments before its first call, told in its opening line,
and compared with what the user accepts.

| `--admit`   | a program is run if              | it may spend                                  |
|-------------|----------------------------------|-----------------------------------------------|
| at most     | its bound is within the limit    | its bound, at which it pauses                 |
| typical     | what it usually spends is        | the same, or the cap where that is reached    |
|             | within the limit                 | first: what does not fit it is refused        |

The limit is `--max`, or else the cap: `--budget` or that of the settings. Without `--max` and
`--admit` every program is run.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from msgspec import structs

from vegakit.cli.cost import PriceBook, window_of
from vegakit.cli.look import Look, Rounding, Sign, Tone, count, look_of, money, one_line
from vegakit.cli.main import amount
from vegakit.cli.pipeline_cost import quote_pipeline
from vegakit.cli.runs import SHOWN
from vegakit.config import Settings
from vegakit.errors import BudgetExceeded
from vegakit.host import (
    PastAnswers,
    Walk,
    keep_answers,
    keep_rest,
    program_digest,
    walk_through,
)
from vegakit.lang import Checked, KnownRun, Module, Quote, budget_of_main, kill_cost, quote
from vegakit.money import Money, Period, dollars, to_usd
from vegakit.policy import BINDING
from vegakit.ports import ReusedRun, RunQuote, RunRecord
from vegakit.program import AT_MOST, TYPICAL, Bounds, CostAlert
from vegakit.sdk import ProjectWorld, Runtime, VegaProgram, read_pipeline
from vegakit.vm import has_guards

Amount = TypeVar("Amount", bound=int)
_NO_BOUND = "no bound"


_WINDOWS = {
    None: "",
    Period.HOUR: " this hour",
    Period.DAY: " today",
    Period.MONTH: " this month",
}


class SpendingLimit(NamedTuple):
    """The amount at which a run is stopped, and its name. That of a budget with a `period` is what
    was left in the present window when the run began."""

    amount: int
    period: Period | None = None
    name: str = "cap"

    def __str__(self) -> str:
        return f"{self.name} {_up(self.amount)}{_WINDOWS[self.period]}"


async def spending_limit(rt: Runtime, own: int | None) -> SpendingLimit | None:
    """Return the lowest limit of a run: its `own` cap, or the rest of a budget with a period."""
    room = await rt.budgets.room(settled=True)
    binds = room is not None and (own is None or room <= own)
    period = await rt.budgets.binding_period(room) if room is not None and binds else None
    amount = room if period or own is None else own
    return None if amount is None else SpendingLimit(amount, period)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options by which a program is accepted or not."""
    parser.add_argument(
        "--max", type=amount, metavar="'$5'", help="do not begin if it may cost more"
    )
    parser.add_argument(
        "--admit",
        choices=(AT_MOST, TYPICAL),
        help="what has to be within --max, or else the budget: all that it may cost at most, or "
        "what it usually costs",
    )


def admitted_quote(
    checked: Checked,
    program: VegaProgram,
    given: Sequence[Any],
    settings: Settings,
    chosen: argparse.Namespace,
) -> RunQuote | None:
    """Return the quote of a run with these arguments, if its user accepts that; None if it asks no
    model, or one whose price nobody knows. What goes on was accepted when it began."""
    book, known = (
        PriceBook(settings, chosen.model),
        KnownRun(tuple(given), ProjectWorld(program.root)),
    )
    if any(book(spec) is None for spec in program.module.agents):
        return None
    # Without the budgets around the run: those are its cap, which may be raised while it is paused.
    quoted = quote(checked, book, None, None, {}, known, settings.bounds.paid_repeats, typical=True)
    if quoted.calls == 0:
        return None
    window = 0 if chosen.sequential else window_of(settings)
    kill = _money(kill_cost(checked, quoted, window))
    accepted_quote = _accepted(quoted, settings, chosen)
    return structs.replace(accepted_quote, kill=kill, program=program_digest(program.module))


def pipeline_quote(
    program: VegaProgram, settings: Settings, chosen: argparse.Namespace
) -> RunQuote | None:
    """Return the quote of a pipeline, if its user accepts that; None if nobody knows a price. It is
    told and holds nothing: tasks that are issued again because a worker died are not in it."""
    book = PriceBook(settings, chosen.model)
    if any(book(spec) is None for spec in program.module.agents):
        return None
    return _accepted(
        quote_pipeline(chosen.file, read_pipeline(chosen.file), book).quoted, settings, chosen
    )


def _accepted(quoted: Quote, settings: Settings, chosen: argparse.Namespace) -> RunQuote:
    """Return the quote beside its cap: the budget of the run, and that of the settings where it
    holds for each run."""
    rule, caps = settings.budget_rule, list[Money]()
    if rule.cap is not None and rule.period is None and rule.on_exceed in BINDING:
        caps.append(rule.cap)
    if chosen.budget is not None:
        caps.append(dollars(chosen.budget))
    cap = min(caps, default=None)
    made = RunQuote(_money(quoted.total), _money(quoted.typical), cap)
    # What goes on was accepted when it began; what keeps answers costs less, and is told apart.
    if chosen.resume is None and chosen.reuse is None:
        _check_admitted(made, chosen.file.name, chosen)
    return made


def _money(nanos: int | None) -> Money | None:
    return None if nanos is None else Money(nanos)


def _check_admitted(quoted: RunQuote, name: str, chosen: argparse.Namespace) -> None:
    """Refuse a run that could cost, or usually costs, more than its user accepts."""
    if chosen.max is None and chosen.admit is None:
        return
    limit = quoted.cap if chosen.max is None else dollars(chosen.max)
    is_typical = chosen.admit == TYPICAL
    figure = quoted.typical if is_typical else quoted.at_most
    if chosen.max is not None and not is_typical:
        figure = quoted.bound()
    if limit is None or (figure is not None and figure <= limit):
        return
    costs = f"usually costs {_up(figure)}" if is_typical else f"may cost {_up(figure)}"
    what = "or give a higher limit: --max, --budget"
    if not is_typical and quoted.typical is not None and quoted.typical <= limit:
        what = f"or accept it by what it usually costs, {_up(quoted.typical)}: --admit typical"
    raise BudgetExceeded(
        f"{name} {costs}, which is more than {_up(limit)}, so it was not begun; bound its lists "
        f"and messages (vega cost says which), {what}"
    )


def opening(
    quoted: RunQuote,
    name: str,
    look: Look,
    limit: SpendingLimit | None,
    raised: int = 0,
    resume: str | None = None,
    *,
    kill: int | None = None,
    guesses: str = "",
) -> list[str]:
    """Return the first lines of a run: what it usually costs, what it may cost at most, where it is
    stopped, and what happens there if it may come so far. `raised` is what a person added,
    `resume` the command that resumes the run, if there is one, `kill` what a kill may add, and
    `guesses` what calls behind guards may cost in vain, of a program that has guards."""
    cap = None if limit is None else limit.amount
    most = quoted.bound(raised=raised)
    most = most if cap is None or most is None else min(most, cap)
    usual = quoted.typical if most is None or quoted.typical is None else min(quoted.typical, most)
    figures = [f"typical {_up(usual)}"] if usual is not None else []
    figures += [f"at most {look.paint(_up(most), Tone.STRONG)}"]
    if raised and quoted.wallet is not None:
        figures[-1] += (
            f" by its quote ({_up(least(quoted.wallet + raised, cap))} with what you added)"
        )
    figures += ["no cap" if limit is None else str(limit)]
    figures += [f"speculation {guesses}"] if guesses else []
    if resume is not None and kill and most is not None and (cap is None or most < cap):
        figures += [f"each kill may add at most {_up(kill)}"]
    lines = [f"{one_line(name)}: {', '.join(figures)}"]
    if cap is not None and (quoted.at_most is None or cap < quoted.at_most):
        beyond = (
            f"it could cost {_up(quoted.at_most)}" if quoted.at_most else "nothing else bounds it"
        )
        told = f"{beyond}; at its cap what does not fit is refused"
        if resume is not None and limit is not None and limit.period is None:
            told += f"; to continue then, type: {resume} --budget '+$1'"
        lines += look.marked(Sign.HELD, Tone.ASK, told)
    return lines


def limit_on_guesses(bounds: Bounds, module: Module) -> str:
    """Return what calls may cost in vain that are begun behind guards, for people; empty for a
    program without guards, and for one that begins nothing early."""
    if not bounds.window or not (bounds.guesses or bounds.least_guesses) or not has_guards(module):
        return ""
    or_calls = f" or {count(bounds.least_guesses, 'call')}" if bounds.least_guesses else ""
    return f"at most {_up(bounds.guesses)}{or_calls}"


async def keep_and_tell(
    rt: Runtime,
    program: VegaProgram,
    given: Sequence[Any],
    earlier: RunRecord | None,
    left: int | None,
    chosen: argparse.Namespace,
) -> tuple[ReusedRun, PastAnswers | None]:
    """Keep the answers of an earlier run, and say what that leaves to buy, which then caps the run.
    One that goes on has them, and may do without the earlier run."""
    journaled = rt.journaled
    assert journaled is not None
    if journaled.run.reused is None:
        assert earlier is not None
        name = program.module.functions[program.module.main].name
        planned = rt.program, journaled, earlier.program, program, name, given
        walk = await walk_through(*planned, chosen.allow)
        at_most = walk.at_most(rt.quote and rt.quote.at_most, left)
        usual = rt.quote.typical if rt.quote and chosen.admit == TYPICAL else None
        figure = at_most if usual is None else least(at_most, usual)
        if chosen.max is not None and (figure is None or figure > dollars(chosen.max)):
            await journaled.give_up(rt.clock.now())
            costs = "may cost" if usual is None else "usually costs"
            raise BudgetExceeded(
                f"{chosen.file.name} {costs} {_up(figure)} with the answers that are kept, which "
                f"is more than {_up(dollars(chosen.max))}, so it was not begun; give a higher "
                "limit: --max"
            )
        await keep_answers(rt.program, journaled, walk, earlier.program, at_most)
        told = _told_of(walk, journaled.run.sends, at_most)
    else:
        told = _told_again(journaled.run)
    if not chosen.quiet:
        print(*look_of(sys.stderr).marked(Sign.DONE, Tone.OK, told), sep="\n", file=sys.stderr)
    assert journaled.run.reused is not None
    rest = None if earlier is None else await keep_rest(rt.program, journaled, earlier.program)
    return journaled.run.reused, rest


def _told_of(walk: Walk, sends: int | None, at_most: Money | None) -> str:
    """Return what is said before a run that keeps answers: as exact as it is known. Without a bound
    on its sends nobody knows how many more there are."""
    kept, least = len(walk.kept), len(walk.bought)
    most = least if walk.is_whole else walk.most_to_buy(sends)
    cost = _NO_BOUND if at_most is None else f"at most {_up(at_most)}"
    answers = count(kept if most is None else kept + most, "answer")
    told = f"{answers} kept" if most is None else f"{kept:,} of {answers} kept"
    # What a tool or a person says now may be another text than was recorded.
    rest = f"{least:,} or more" if most is None or not walk.is_sure else f"{least:,}"
    if walk.is_sure and most is not None and most != least:
        rest = f"{least:,} to {most:,}"
    return f"{'' if walk.is_sure else 'up to '}{told}, {rest} to buy, {cost}"


def _told_again(run: RunRecord) -> str:
    """Return what is said where a run goes on that keeps answers of another one."""
    assert run.reused is not None
    at_most = run.reused.at_most
    most = _NO_BOUND if at_most is None else f"at most {_up(at_most + run.raised)}"
    kept = count(run.reused.kept, "answer")
    return f"{kept} of run {run.reused.run[:SHOWN]} kept, {most} for the rest"


def tell_alert(news: CostAlert) -> None:
    """Tell that more was spent than a budget which only warns."""
    told = f"{one_line(news.path)} has spent {_up(news.spent)}, more than its {_up(news.alert_at)}"
    print(*look_of(sys.stderr).marked(Sign.HELD, Tone.ASK, told), sep="\n", file=sys.stderr)


def quote_page(
    quoted: RunQuote | None,
    live: int | None,
    raised: int = 0,
    reused: ReusedRun | None = None,
    main: int | None = None,
) -> dict[str, Any]:
    """Return the quote for programs, and what the run may come to now: once it is done, what it has
    cost, over all its lives. Of a run that keeps answers it is of what is left to buy."""
    if quoted is None and reused is None:
        return {}
    quoted = quoted or RunQuote()
    bound = quoted.bound(raised=raised)
    cap = least(None if quoted.cap is None else quoted.cap + raised, main)
    figures: dict[str, Any] = {"typical_usd": to_usd(quoted.typical)}
    if reused is not None:
        bound = None if reused.at_most is None else reused.at_most + raised
        figures = {"kept": reused.kept, "to_buy": reused.to_buy}
    return {
        "quote": {
            **figures,
            "at_most_usd": to_usd(bound),
            "cap_usd": to_usd(cap),
            "at_most_now_usd": to_usd(bound if live is None else live),
        }
    }


def least(*caps: Amount | None) -> Amount | None:
    """Return the lowest cap, None if there is none."""
    return min((cap for cap in caps if cap is not None), default=None)


def main_cap(checked: Checked | None, quoted: RunQuote | None) -> Money | None:
    """Return the budget of `main` where all that is spent is paid by it; what outlives it is
    not."""
    budget = None if checked is None else budget_of_main(checked)
    if budget is None or quoted is None or quoted.at_most is None or quoted.at_most > budget:
        return None
    return Money(budget)


def _up(nanos: int | None) -> str:
    """Return an amount, never less than it is."""
    return _NO_BOUND if nanos is None else money(nanos, rounding=Rounding.UP)
