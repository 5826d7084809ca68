"""`vega cost --why LINE`: what makes the bound of a line, and what to write to tighten it; and what
is left of budgets that runs share.

Edits around the send are tried one by one: each is quoted, and the first that halves the bound of
the program, to what the settings let it spend, is told, or else the one that lowers it most; none
where none does.
"""

import asyncio
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path
from typing import Any

from msgspec import Struct

from vegakit.cli.look import Look, Rounding, count, money, one_line, tell_error
from vegakit.concurrency import SteadyClock
from vegakit.config import Settings
from vegakit.errors import UserError
from vegakit.ids import ScopeId
from vegakit.lang import Checked, Quote, QuotedLine, budget_of_main, tightenings
from vegakit.money import Money, format_money, to_usd
from vegakit.policy import ScopeRules
from vegakit.providers import InputCounting
from vegakit.store import open_ledger

_LONG = 4_000
_MANY = 10
_LITTLE = 0.9
"""What lowers a bound by less is not worth writing."""


class Tightened(Struct, frozen=True):
    """The program with an edit, the lines that it changes, from the line `at` on, and what it is
    quoted then."""

    text: str
    at: int
    lines: tuple[str, ...]
    quoted: Quote


def tightened(
    checked: Checked,
    quoted: Quote,
    line: QuotedLine,
    quote_again: Callable[[str], Quote | None],
    cap: int | None = None,
) -> Tightened | None:
    """Return what to write for a lower bound of the whole program; None where nothing helps.
    `quote_again` quotes another text of the file; None where that is no program. What is spent may
    be capped elsewhere: an edit that leaves the bound above `cap` is not enough. One by which
    something never fits the budgets around it costs less only because nothing is sent."""
    text, best, before = checked.units[line.file].text, None, _whole(quoted)
    least = (before[0], before[1] * _LITTLE)
    for edit in tightenings(checked, line, quoted.typical):
        edited = text[: edit.at] + edit.text + text[edit.end :]
        again = quote_again(edited)
        if again is None or _refused(again) - _refused(quoted):
            continue
        after = _whole(again)
        if after < least:
            first = edited.count("\n", 0, edit.at)
            last = edited.count("\n", 0, edit.at + len(edit.text))
            changed = edited.split("\n")[first : last + 1]
            best = Tightened(edited, first + 1, tuple(part.strip() for part in changed), again)
            least = after
        if after[1] * 2 <= before[1] and after[1] != inf and (cap is None or after[1] <= cap):
            break
    return best


def _refused(quoted: Quote) -> set[tuple[str, int, str]]:
    """Return the sends of which some never fit. No edit moves a line."""
    return {(one.file, one.line, one.what) for one in quoted.lines if one.is_refused}


def _whole(quoted: Quote) -> tuple[float, float]:
    """Return how many places have no bound, and what the whole program may cost."""
    gaps = sum(gap.cap is None for gap in quoted.unbounded)
    return gaps, inf if quoted.total is None else quoted.total


def _uncut(line: QuotedLine) -> int | None:
    return line.worst if line.uncut is None else line.uncut


def most_expensive(lines: Sequence[QuotedLine]) -> QuotedLine:
    """Return the line that costs most; there is one at least."""
    return max(lines, key=lambda one: (one.worst is None, _uncut(one) or 0))


def render_reasons(
    quoted: Quote,
    name: str,
    line: int,
    look: Look,
    tighten: Callable[[QuotedLine], Tightened | None],
    cap: int | None = None,
) -> str:
    """Return what makes the bound of the sends on a line; refuse a line that sends nothing. `cap`
    is that of the settings, which edits are quoted without."""
    told: list[str] = []
    for one in _sent_on(quoted, name, line):
        told.append(f"line {line}, {one_line(one.what)}: at most {_most(_uncut(one))}")
        better = tighten(one)
        advice = _advice(one) if better is None else _edit(better, one, cap)
        for reason in (*_causes(one, quoted), *advice):
            told += look.fold(reason, "    ", "  ")
    told += [
        part
        for gap in quoted.unbounded
        if gap.file == name and gap.line == line
        for part in look.fold(gap.why, "    ", "  ")
    ]
    return "\n".join(told)


def reasons_page(
    quoted: Quote, name: str, line: int, tighten: Callable[[QuotedLine], Tightened | None]
) -> dict[str, Any]:
    """Return the same for machines: an edit with what it comes to, or advice in words."""
    gaps = [gap.why for gap in quoted.unbounded if gap.file == name and gap.line == line]
    sends = [
        {
            "what": one.what,
            "at_most_usd": to_usd(_uncut(one)),
            "reasons": _causes(one, quoted),
            **_advice_page(one, tighten(one)),
        }
        for one in _sent_on(quoted, name, line)
    ]
    return {"file": name, "line": line, "sends": sends, "unbounded": gaps}


def _advice_page(line: QuotedLine, better: Tightened | None) -> dict[str, Any]:
    if better is None:
        return {"edit": None, "advice": _advice(line)}
    then = {"at_most_usd": to_usd(_then(better, line)), "total_usd": to_usd(better.quoted.total)}
    return {"edit": {"line": better.at, "write": [*better.lines], **then}, "advice": []}


def _sent_on(quoted: Quote, name: str, line: int) -> list[QuotedLine]:
    found = [one for one in quoted.lines if one.file == name and one.line == line]
    if not found:
        lines = sorted({one.line for one in quoted.lines if one.file == name})
        known = ", ".join(map(str, lines)) or "none"
        raise UserError(f"nothing is sent on line {line} of {name}; lines that send: {known}")
    return found


def is_held(line: QuotedLine, total: int | None) -> bool:
    """Return whether budgets hold a send, such as one that an agent makes by its tools, so that the
    whole program spends less than it could."""
    return line.uncut is None and total is not None and (line.worst or 0) > total


def _causes(line: QuotedLine, quoted: Quote) -> list[str]:
    if line.calls == 0:
        return ["it never fits the budget around it, so it is never sent, and costs nothing"]
    sends = line.sends
    often = "it may be sent without bound" if sends is None else f"it is sent {_times(sends)}"
    size = (
        "its message has no bound, so it counts as a full window of the model"
        if line.bytes is None
        else f"its longest message has {count(line.bytes, 'byte')}"
    )
    tokens = "" if line.max_tokens is None else f", its answer {count(line.max_tokens, 'token')}"
    tries = (
        f"each send may take {count(line.tries, 'call')}: what fails or does not fit is repeated"
    )
    held = f"the budget of main lets {_most(line.worst)} of it be spent"
    others = f"budgets around it let the whole program spend {_most(quoted.total)}"
    return [
        often,
        f"{size}{tokens}",
        *([tries] if line.tries > 1 else []),
        *([held] if line.uncut is not None else []),
        *([others] if is_held(line, quoted.total) else []),
        *_repeats(quoted.paid_repeats),
    ]


def _repeats(pool: int | None) -> list[str]:
    if not pool:
        return []
    return [f"{count(pool, 'paid repeat')} of the whole run may fall on it"]


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times at most"


def _edit(better: Tightened, line: QuotedLine, cap: int | None) -> list[str]:
    worst = _then(better, line)
    where = "write" if better.at == line.line else f"write in line {better.at}"
    written = [f"{where}: {one_line(better.lines[0])}", *map(one_line, better.lines[1:])]
    then = f"then at most {_most(worst)} here, and {_most(better.quoted.total)} in all"
    total = better.quoted.total
    is_above = cap is not None and total is not None and total > cap
    above = f", of which your settings let {_most(cap)} be spent" if is_above else ""
    return [*written, f"{then}{above}"]


def _then(better: Tightened, line: QuotedLine) -> int | None:
    """Return what the same send may cost with the edit."""
    place = (line.file, line.line, line.what)
    same = (one for one in better.quoted.lines if (one.file, one.line, one.what) == place)
    return next(map(_uncut, same), 0)


def _most(amount: int | None) -> str:
    return "no bound" if amount is None else money(amount, rounding=Rounding.UP)


def _advice(line: QuotedLine) -> list[str]:
    """Return what helps where no edit is written: of a program in Python nobody tries one."""
    if line.calls == 0:
        return ["write: a larger `budget` around it, or a lower `max_tokens` for its agent"]
    if not line.file.endswith(".py"):
        return ["no edit of this line alone lowers what the program may cost by a tenth"]
    is_long = line.bytes is None or line.bytes > _LONG
    advice = ["cut what is long in its message, or bound its type by MaxLen"] if is_long else []
    if line.bytes is None:
        advice += ["if it is sent to a process with memory, give that a wallet: spawn(…, wallet=…)"]
    advice += ["bound the loop around it"] if line.sends is None or line.sends > _MANY else []
    return advice or ["lower `max_tokens` of its agent, or give it a `budget`"]


def refusal(checked: Checked, budget: Money | None) -> str | None:
    """Return why a run with this budget is always refused, as that of its `main` is a part of it;
    None where it is not."""
    needed = budget_of_main(checked)
    if budget is None or needed is None or needed <= budget:
        return None
    main, given = format_money(Money(needed)), format_money(budget)
    return f"always refused: main takes {main}, which is more than --budget {given}"


def compared(quoted: Quote, limit: Money, refused: str | None = None) -> int:
    """Return the exit code for a quote and the most it may be, and say what to do above it."""
    if refused is not None:
        tell_error(f"it is {refused}; give it more, or lower the budgets in it")
        return 1
    if quoted.total is not None and quoted.total <= limit:
        return 0
    may = "without any bound" if quoted.total is None else money(quoted.total, rounding=Rounding.UP)
    told = (
        f"it may cost {may}, which is more than {format_money(limit)}; give its agents, functions "
        "or sessions a budget, or bound its lists, such as [str; 10]"
    )
    tell_error(told)
    return 1


# How the input of models was counted.


def render_counting(counted: Sequence[InputCounting]) -> list[str]:
    """Return how the input of models is counted, for people: one line for each way."""
    ways: dict[str, list[str]] = {}
    for one in counted:
        way = f"as bytes: {one.why}" if one.why else f"by {one.by}"
        ways.setdefault(way, []).append(one.model)
    return [f"input of {', '.join(models)} counted {way}" for way, models in ways.items()]


def counting_json(counted: Sequence[InputCounting]) -> dict[str, Any]:
    """Return the same for machines."""
    return {"input_counted": [{"model": c.model, "by": c.by, "why": c.why} for c in counted]}


# Budgets for each hour, day or month, which all runs share.


def left_in_period(settings: Settings, budgets: ScopeRules) -> dict[ScopeId, int]:
    """Return what is left of these budgets in the present period, as the ledger counts them."""
    place = settings.ledger_place
    if not budgets or ("://" not in place and not Path(place).exists()):
        return {scope: rule.cap or 0 for scope, rule in budgets.items()}

    async def used() -> list[int]:
        ledger = open_ledger(place)
        try:
            now = SteadyClock().now()
            counted = [await ledger.counter(s, rule.period, now) for s, rule in budgets.items()]
        finally:
            await ledger.aclose()
        return [counter.used for counter in counted]

    spent = zip(budgets.items(), asyncio.run(used()), strict=True)
    return {scope: max(0, (rule.cap or 0) - amount) for (scope, rule), amount in spent}
