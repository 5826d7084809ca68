"""`vega cost`: the most a program can spend, before its first call, and what its recorded runs
typically spent.

The quote is a promise; figures from recorded runs are not, and are never printed on the same
line.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins

from vegakit.cli.compiler import show
from vegakit.cli.display import PLAIN, one_line
from vegakit.cli.runs import journal_of_user
from vegakit.config import Settings, load, wants_colour
from vegakit.errors import SettingsError
from vegakit.lang import (
    AgentSpec,
    Checked,
    ModelTerms,
    Quote,
    QuotedLine,
    Unbounded,
    manifest_of,
    quote,
)
from vegakit.money import NANOS, Money, dollars, format_money as shown
from vegakit.policy import OnExceed
from vegakit.ports import Model
from vegakit.providers import ProviderAccess, build_model, provider_of
from vegakit.sdk import check_source
from vegakit.store import RecordedCall, RunSummary, journal_size, list_runs, recorded_calls

# What recorded runs of a program came to: an estimate, which is no promise.


FEW_CALLS = 20
_STEP = 50
_NUMBERED = re.compile(r"(~?)(-\d+)?$")


class TypicalCost(Struct, frozen=True):
    """The cost of runs that came to their end."""

    runs: int
    mean: Money
    p95: Money


class TokenAdvice(Struct, frozen=True):
    """Advice on the `max_tokens` of an agent. `p99` is of the tokens of an answer, `max_tokens`
    what is suggested; None where there are too few calls, or answers were cut off, so that nobody
    knows how long they would have been."""

    agent: str
    calls: int
    cut: int
    p99: int
    max_tokens: int | None


def runs_of(program: Path, journal: str) -> list[RunSummary]:
    """Return the runs that a command on this file started."""
    wanted = program.resolve()
    return [one for one in list_runs(journal) if wanted in _named_in(one)]


def _named_in(summary: RunSummary) -> list[Path]:
    folder = Path(summary.run.folder)
    words = (word for word in summary.run.command if word.endswith((".vega", ".vgb", ".py")))
    return [(folder / word).resolve() for word in words]


def typical_cost(runs: Iterable[RunSummary]) -> TypicalCost | None:
    """Return what runs cost that came to their end, or None if there are none."""
    spent = sorted(run.spent for run in runs if run.ended_ms is not None)
    if not spent:
        return None
    return TypicalCost(len(spent), Money(-(-sum(spent) // len(spent))), Money(_rank(spent, 95)))


def token_advice(
    runs: Sequence[RunSummary], journal: str, agents: Sequence[str]
) -> list[TokenAdvice]:
    """Return advice on each agent, in the order of the agents."""
    ids = {one.run.program for one in runs}
    calls = [call for call in recorded_calls(journal) if call.program in ids]
    return [_tuned(agent, [one for one in calls if _agent(one) == agent]) for agent in agents]


def _agent(call: RecordedCall) -> str:
    return _NUMBERED.sub("", call.process)


def _tuned(agent: str, calls: Sequence[RecordedCall]) -> TokenAdvice:
    tokens = sorted(call.output_tokens for call in calls if call.output_tokens is not None)
    cut = sum(call.is_cut for call in calls)
    p99 = _rank(tokens, 99) if tokens else 0
    is_known = len(tokens) >= FEW_CALLS and not cut
    most = max(ceil(p99 / _STEP), 1) * _STEP
    return TokenAdvice(agent, len(tokens), cut, p99, most if is_known else None)


def _rank(values: Sequence[int], percent: int) -> int:
    """The least that so many of a hundred do not pass."""
    return values[max(ceil(len(values) * percent / 100), 1) - 1]


# What is known of the models that a program names, without a key and without a call.


class PriceBook:
    """The models of a program and their prices. `model`, where given, stands in for that of every
    agent."""

    def __init__(self, settings: Settings, model: str | None = None) -> None:
        self._settings = settings
        self._model = model
        self._known = cache(self._build)

    def __call__(self, spec: AgentSpec) -> ModelTerms | None:
        model = self._known(self._model or spec.model)
        if model is None or model.price is None:
            return None
        return ModelTerms(
            model.price,
            model.context_tokens,
            model.default_max_tokens,
            model.bound_input,
            self._settings.limits_for(model.name).retry.max_attempts,
        )

    def _build(self, name: str) -> Model | None:
        """Return a model, or None if nobody knows its name, and so its price."""
        settings = self._settings
        try:
            model = settings.model(name)
            table = settings.provider(provider_of(model))
            price = settings.price(model)
            return build_model(model, ProviderAccess(_no_key, table.base_url, price=price))
        except SettingsError:
            return None


def _no_key() -> str:
    return ""


# `vega cost`: what a program may cost at most, before its first call.


_HEAD = ("LINE", "SEND", "CALLS", "AT MOST")
_BOLD, _RED, _DIM = "\x1b[1m", "\x1b[31m", "\x1b[2m"
_NO_BOUND = "no bound"
_NEVER = "never fits its budget"
_HOLDS = (OnExceed.BLOCK, OnExceed.ASK)
_FILE = "run.db"
_NO_RUNS = (
    "nothing is recorded to tune by; run it with --journal run.db, then type this again, or name "
    "its journal: vega cost FILE.vega --tune --journal FILE"
)


def cost_command(arguments: Sequence[str]) -> int:
    """Run `vega cost`."""
    chosen = _parser().parse_args(arguments)
    limit = None if chosen.max is None else dollars(chosen.max)
    found = check_source(chosen.file)
    show(found)
    if not found.is_sound or found.checked is None:
        return 1
    cost = _Cost(chosen, found.checked)
    if chosen.json:
        print(json.dumps(cost.as_json(), indent=2))
    else:
        print(cost.told(found.source.name, colour=wants_colour(sys.stdout)))
    return 0 if limit is None else _compared(cost.quoted, limit)


class _Cost:
    """The quote, and beside it what recorded runs came to."""

    def __init__(self, chosen: argparse.Namespace, checked: Checked) -> None:
        settings = load({})
        self._checked, self._book = checked, PriceBook(settings, chosen.model)
        self._budget = None if chosen.budget is None else dollars(chosen.budget)
        self._ceiling = settings.budget_rule if self._budget is None else None
        self.quoted = self._quote({})
        self._journal = _journal(chosen)
        runs = [] if self._journal is None else runs_of(chosen.file, self._journal)
        self._typical = typical_cost(runs)
        self._tuned: list[TokenAdvice] | None = None
        if chosen.tune:
            agents = [row.name for row in manifest_of(checked).agents]
            self._tuned = token_advice(runs, self._journal, agents) if self._journal else []

    def _quote(self, max_tokens: Mapping[str, int]) -> Quote:
        return quote(self._checked, self._book, self._budget, self._cap, max_tokens)

    @property
    def _cap(self) -> int | None:
        """Return the cap of the settings, where that refuses what goes beyond it, and is not for
        each day anew."""
        rule = self._ceiling
        if rule is None or rule.window is not None or rule.on_exceed not in _HOLDS:
            return None
        return rule.cap

    def told(self, name: str, *, colour: bool) -> str:
        lines = [render_quote(self.quoted, name, colour=colour)]
        if self._cap is not None and self.quoted.total == self._cap:
            lines.append(f"the budget of your settings caps it: {shown(Money(self._cap))}")
        if self._typical is not None:
            lines += ["", render_typical_cost(self._typical, colour=colour)]
        if self._tuned is not None:
            lines += ["", *self._tuning(colour=colour)]
        return "\n".join(lines)

    def _tuning(self, *, colour: bool) -> list[str]:
        if not self._tuned:
            return [_NO_RUNS]
        lines = [render_token_advice(self._tuned, colour=colour)]
        better = self._quote(_suggested(self._tuned)).total
        if better is not None and better != self.quoted.total:
            lines.append(f"with these it may cost {_amount(better)} at most")
        return lines

    def as_json(self) -> dict[str, Any]:
        page = _as_json(self.quoted) | {"manifest": to_builtins(manifest_of(self._checked))}
        if self._typical is not None:
            one = self._typical
            page["recorded"] = {
                "runs": one.runs,
                "expected_usd": _usd(one.mean),
                "p95_usd": _usd(one.p95),
            }
        if self._tuned is not None:
            page["tune"] = [to_builtins(row) for row in self._tuned]
        return page


def _suggested(rows: Sequence[TokenAdvice]) -> dict[str, int]:
    return {row.agent: row.max_tokens for row in rows if row.max_tokens is not None}


def _journal(chosen: argparse.Namespace) -> str | None:
    """The one that is named, or else the usual one where there is one."""
    if chosen.journal is not None:
        return chosen.journal
    usual = (_FILE, journal_of_user())
    return next((place for place in usual if journal_size(place) is not None), None)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vega cost",
        description="Quote a program: the most that it may spend, whatever the models answer. "
        "Needs no key and asks no model. Beside it, where runs are recorded, what they came to.",
    )
    parser.add_argument("file", type=Path, metavar="FILE.vega")
    parser.add_argument("--max", metavar="'$5'", help="exit with 1 if it may cost more")
    parser.add_argument(
        "--budget", metavar="'$5'", help="what `vega run --budget` would give it; as in vega.toml"
    )
    parser.add_argument("--model", help="for all its agents, as in `vega run --model`")
    parser.add_argument(
        "--journal",
        metavar="FILE",
        help=f"of `vega run --journal`; {_FILE}, or your own",
    )
    parser.add_argument(
        "--tune", action="store_true", help="suggest max_tokens from what was recorded"
    )
    parser.add_argument("--json", action="store_true", help="for machines, with the manifest")
    return parser


def _compared(quoted: Quote, limit: Money) -> int:
    if quoted.total is not None and quoted.total <= limit:
        return 0
    may = "without any bound" if quoted.total is None else _amount(quoted.total)
    print(
        f"vega cost: it may cost {may}, which is more than {shown(limit)}; give its agents, "
        "functions or sessions a budget, or bound its lists, such as [str; 10]",
        file=sys.stderr,
    )
    return 1


def render_quote(quoted: Quote, name: str, *, colour: bool = False) -> str:
    """Return a quote for people."""
    paint = _Paint(colour)
    lines = [_summary(quoted, name, paint)]
    if quoted.lines:
        lines += ["", *_table(quoted.lines, name, paint)]
    if quoted.unbounded:
        lines += ["", *(_gap(gap, name, paint) for gap in quoted.unbounded)]
    return "\n".join(lines)


class _Paint:
    def __init__(self, colour: bool) -> None:
        self._colour = colour

    def __call__(self, mark: str, text: str) -> str:
        return f"{mark}{text}{PLAIN}" if self._colour else text


def _summary(quoted: Quote, name: str, paint: _Paint) -> str:
    calls = "calls without bound" if quoted.calls is None else _count(quoted.calls, "call")
    if quoted.total is None:
        return f"{one_line(name)}: {paint(_RED, _NO_BOUND)} on what it may spend, in {calls}"
    most = paint(_BOLD, _amount(quoted.total))
    processes = "" if not quoted.processes else f", {_count(quoted.processes, 'process', 'es')}"
    return f"{one_line(name)}: at most {most} in {calls}{processes}"


def _count(number: int, what: str, plural: str = "s") -> str:
    return f"{number:,} {what}{'' if number == 1 else plural}"


def _table(lines: Sequence[QuotedLine], name: str, paint: _Paint) -> list[str]:
    most_expensive = max(lines, key=_expense_of)
    rows = [_HEAD, *(_row(line, name) for line in lines)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    told = ["  ".join(map(_fit, _HEAD, row, widths)) for row in rows]
    marks = [line is most_expensive and len(lines) > 1 for line in lines]
    body = [
        paint(_BOLD, f"▸ {text}  ◂ most expensive") if mark else f"  {text}"
        for text, mark in zip(told[1:], marks, strict=True)
    ]
    return [paint(_DIM, f"  {told[0]}"), *body]


def _expense_of(line: QuotedLine) -> tuple[bool, int]:
    return line.worst is None, line.worst or 0


def _row(line: QuotedLine, name: str) -> tuple[str, ...]:
    calls = "–" if line.calls is None else f"{line.calls:,}"
    most = _NO_BOUND if line.worst is None else _amount(line.worst)
    if line.calls == 0:
        most = _NEVER
    return _where(line, name), one_line(line.what), calls, most


def _where(place: QuotedLine | Unbounded, name: str) -> str:
    return str(place.line) if place.file == name else f"{one_line(place.file)}:{place.line}"


def _fit(title: str, text: str, width: int) -> str:
    return text.ljust(width) if title == "SEND" else text.rjust(width)


def _gap(gap: Unbounded, name: str, paint: _Paint) -> str:
    capped = "capped by nothing" if gap.cap is None else f"capped by {_amount(gap.cap)}"
    told = f"unbounded at line {_where(gap, name)}, {capped}: {gap.why}"
    return paint(_RED, told) if gap.cap is None else told


def render_typical_cost(known: TypicalCost, *, colour: bool = False) -> str:
    """Return the typical cost for people, never in one line with the quote: it is no promise."""
    many = f"95 of 100 to {_amount(known.p95)} or less"
    most = many if known.runs >= FEW_CALLS else f"the most expensive to {_amount(known.p95)}"
    runs, mean = _count(known.runs, "recorded run"), _amount(known.mean)
    note = _Paint(colour)(_DIM, "(an estimate, no promise)")
    return f"{runs} came to {mean} on average, {most} {note}"


def render_token_advice(rows: Sequence[TokenAdvice], *, colour: bool = False) -> str:
    """Return the advice on agents for people."""
    paint = _Paint(colour)
    return "\n".join(_advice_line(row, paint) for row in rows)


def _advice_line(row: TokenAdvice, paint: _Paint) -> str:
    name = one_line(row.agent)
    if row.max_tokens is not None:
        rests = f"99 of 100 of {_count(row.calls, 'answer')} had {row.p99:,} tokens or less"
        return f"{name}: {paint(_BOLD, f'max_tokens {row.max_tokens}')} – {rests}"
    if row.cut:
        return f"{name}: raise max_tokens – {_count(row.cut, 'answer')} of {row.calls} were cut off"
    have = _count(row.calls, "recorded answer")
    return f"{name}: too little to say, {have}; {FEW_CALLS} are needed"


def _amount(nanos: int) -> str:
    """Return an amount, never less than it is: from a dime on in whole cents, rounded up."""
    step = NANOS // 100 if nanos >= NANOS // 10 else 1_000
    return shown(Money(-(-nanos // step) * step))


def _as_json(quoted: Quote) -> dict[str, Any]:
    return {
        "total_usd": _usd(quoted.total),
        "calls": quoted.calls,
        "processes": quoted.processes,
        "lines": [
            {"file": one.file, "line": one.line, "what": one.what}
            | {"calls": one.calls, "worst_usd": _usd(one.worst)}
            for one in quoted.lines
        ],
        "unbounded": [
            {"file": one.file, "line": one.line, "why": one.why, "capped_by_usd": _usd(one.cap)}
            for one in quoted.unbounded
        ],
    }


def _usd(nanos: int | None) -> float | None:
    return None if nanos is None else nanos / NANOS
