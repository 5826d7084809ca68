"""`vega cost`: the most a program can spend, before its first call, and what its recorded runs
typically spent.

The quote is a promise; figures from recorded runs are not, and are never printed on the same
line.
"""

import argparse
import asyncio
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins

from vegakit.cli.compiler import checked_at, show
from vegakit.cli.cost_reasons import render_reasons
from vegakit.cli.look import (
    PIPE,
    Cell,
    Column,
    Look,
    Rounding,
    Sign,
    Tone,
    count,
    decimals_of,
    look_of,
    money,
    one_line,
    print_json,
    table,
    tell_error,
)
from vegakit.cli.main import CommandParser, amount
from vegakit.cli.pipeline_cost import quote_pipeline
from vegakit.cli.runs import journal_of_user
from vegakit.concurrency import SteadyClock
from vegakit.config import Settings, load
from vegakit.errors import SettingsError, UserError
from vegakit.ids import ScopeId
from vegakit.lang import (
    AgentSpec,
    Checked,
    KnownRun,
    ModelTerms,
    Problem,
    Quote,
    QuotedLine,
    Unbounded,
    arguments_of,
    in_order,
    main_params,
    manifest_of,
    quote,
)
from vegakit.money import Money, dollars, format_money, to_usd
from vegakit.policy import OnExceed
from vegakit.ports import Model
from vegakit.providers import ProviderAccess, build_model, provider_of
from vegakit.sdk import PIPELINE_SUFFIXES, ProjectWorld, pipeline_module, read_pipeline
from vegakit.store import (
    RecordedCall,
    RunSummary,
    journal_size,
    list_runs,
    open_ledger,
    recorded_calls,
)

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
    spent = sorted(
        run.spent for run in runs if run.ended_ms is not None and not run.run.is_given_up
    )
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
        names = (self._model,) if self._model else spec.models
        models = (model for name in names for model in self._settings.models_of(name))
        return in_order(map(self._terms, models))

    def check(self, spec: AgentSpec) -> None:
        """Refuse an agent whose model no provider has."""
        for name in (self._model,) if self._model else spec.models:
            for model in self._settings.models_of(name):
                provider_of(model)

    def _terms(self, name: str) -> ModelTerms | None:
        model = self._known(name)
        if model is None or model.price is None:
            return None
        return ModelTerms(
            model.price,
            model.context_tokens,
            model.default_max_tokens,
            model.bound_input,
            self._settings.limits_for(model.name, provider_of(name)).retry.max_attempts,
        )

    def _build(self, name: str) -> Model | None:
        """Return a model, or None if nobody knows its name, and so its price."""
        settings = self._settings
        try:
            table = settings.provider(provider_of(name))
            price = settings.price(name)
            return build_model(name, ProviderAccess(_no_key, table.base_url, price=price))
        except SettingsError:
            return None


def _no_key() -> str:
    return ""


# `vega cost`: what a program may cost at most, before its first call.


_COLUMNS = (
    Column(""),
    Column("Line", right=True),
    Column("Send", least=12),
    Column("Calls", right=True, drop=1),
    Column("At most", right=True),
    Column("", drop=2),
)
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
    # Options may stand between the file and its arguments.
    chosen = _parser().parse_intermixed_args(arguments)
    limit = None if chosen.max is None else dollars(chosen.max)
    if chosen.file.suffix in PIPELINE_SUFFIXES:
        return _cost_of_pipeline(chosen, limit)
    found = checked_at(chosen.file)
    show(found)
    if not found.is_sound or found.checked is None:
        return 1
    known = known_run(
        found.checked, found.source.root, chosen.arguments, f"vega cost {chosen.file}"
    )
    cost = _Cost(chosen, found.checked, known)
    if chosen.why is not None:
        print(render_reasons(cost.quoted, found.source.name, chosen.why, look_of(sys.stdout)))
    elif chosen.json:
        print_json(cost.as_json())
    else:
        print(cost.told(found.source.name, look_of(sys.stdout)))
    return 0 if limit is None else _compared(cost.quoted, limit)


def _cost_of_pipeline(chosen: argparse.Namespace, limit: Money | None) -> int:
    file, prices = read_pipeline(chosen.file), PriceBook(load({}), chosen.model)
    # What `vega run` refuses has no price.
    for spec in pipeline_module(chosen.file, file).agents:
        prices.check(spec)
    found = quote_pipeline(chosen.file, file, prices)
    if chosen.json:
        print_json(_as_json(found.quoted) | {"decided_by": found.decided_by})
    else:
        print(render_quote(found.quoted, chosen.file.name, look_of(sys.stdout)))
        print(f"how often stages run is bounded by {found.decided_by}")
    return 0 if limit is None else _compared(found.quoted, limit)


def _left_of_period(settings: Settings) -> int | None:
    """Return what is left of a budget for each day, hour or month, which all runs share. Of one
    without a period, each run has the whole."""
    rule, place = settings.budget_rule, settings.ledger_place
    if rule.window is None or rule.cap is None:
        return None
    if "://" not in place and not Path(place).exists():
        return rule.cap

    async def room() -> int | None:
        ledger = open_ledger(place)
        try:
            found = await ledger.scope(ScopeId("runtime:default"), SteadyClock().now())
            return None if found is None else found.settled + found.reserved
        finally:
            await ledger.aclose()

    return max(0, rule.cap - (asyncio.run(room()) or 0))


def known_run(
    checked: Checked, root: Path, arguments: Sequence[str], command: str
) -> KnownRun | None:
    """Return what is known of a run with these arguments; None where `main` takes some and none are
    given. A value that does not fit is refused as `vega run` refuses it."""
    params = main_params(checked)
    if params and not arguments:
        return None
    given = arguments_of(params, arguments)
    if isinstance(given, Problem):
        usage = "".join(f" <{name}>" for name, _ in params)
        raise UserError(f"{given}; type: {command}{usage}")
    return KnownRun(tuple(given), ProjectWorld(root))


class _Cost:
    """The quote, and beside it what recorded runs came to."""

    def __init__(
        self, chosen: argparse.Namespace, checked: Checked, known: KnownRun | None
    ) -> None:
        settings = load({})
        self._known = known
        self._checked, self._book = checked, PriceBook(settings, chosen.model)
        self._budget = None if chosen.budget is None else dollars(chosen.budget)
        self._ceiling = settings.budget_rule if self._budget is None else None
        self._left = _left_of_period(settings) if self._ceiling else None
        self._default = settings.budget.default
        self._repeats = settings.bounds.paid_repeats
        self.quoted = self._quote({})
        self._journal = _journal(chosen)
        runs = [] if self._journal is None else runs_of(chosen.file, self._journal)
        self._typical = typical_cost(runs)
        self._tuned: list[TokenAdvice] | None = None
        if chosen.tune:
            agents = [row.name for row in manifest_of(checked).agents]
            self._tuned = token_advice(runs, self._journal, agents) if self._journal else []

    def _quote(self, max_tokens: Mapping[str, int]) -> Quote:
        book, known, repeats = self._book, self._known, self._repeats
        return quote(
            self._checked, book, self._budget, self._cap, max_tokens, known, repeats, typical=True
        )

    @property
    def _cap(self) -> int | None:
        """Return the cap of the settings, where that refuses what goes beyond it, and is not for
        each day anew."""
        rule = self._ceiling
        if rule is None or rule.window is not None or rule.on_exceed not in _HOLDS:
            return None
        return rule.cap

    def told(self, name: str, look: Look) -> str:
        lines = [render_quote(self.quoted, name, look)]
        if self._cap is not None and self.quoted.total == self._cap:
            lines.append(f"the budget of your settings caps it: {money(self._cap)}")
        if self._left is not None:
            left = money(self._left, rounding=Rounding.DOWN)
            lines.append(f"of your budget of ${self._default.lstrip('$')}, {left} is left")
        if self._typical is not None:
            lines += ["", *look.fold(render_typical_cost(self._typical), "  ")]
        if self._tuned is not None:
            lines += ["", *self._tuning(look)]
        return "\n".join(lines)

    def _tuning(self, look: Look) -> list[str]:
        if not self._tuned:
            return look.fold(_NO_RUNS, "  ")
        told = render_token_advice(self._tuned).splitlines()
        lines = [line for one in told for line in look.fold(one, "  ")]
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
                "expected_usd": to_usd(one.mean),
                "p95_usd": to_usd(one.p95),
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
    parser = CommandParser(
        prog="vega cost",
        description="Quote a program, or the file of a pipeline: the most that it may spend, "
        "whatever the models answer. "
        "Needs no key and asks no model. Beside it, where runs are recorded, what they came to.",
    )
    parser.add_argument("file", type=Path, metavar="FILE.vega")
    parser.add_argument(
        "arguments",
        nargs="*",
        metavar="ARGUMENT",
        help="of its main, as in `vega run`: the quote is then of a run with these",
    )
    parser.add_argument(
        "--max", type=amount, metavar="'$5'", help="exit with 1 if it may cost more"
    )
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
    parser.add_argument(
        "--why", type=int, metavar="LINE", help="what makes the bound of a line, and what to write"
    )
    parser.add_argument("--json", action="store_true", help="for machines, with the manifest")
    return parser


def _compared(quoted: Quote, limit: Money) -> int:
    if quoted.total is not None and quoted.total <= limit:
        return 0
    may = "without any bound" if quoted.total is None else _amount(quoted.total)
    told = (
        f"it may cost {may}, which is more than {format_money(limit)}; give its agents, functions "
        "or sessions a budget, or bound its lists, such as [str; 10]"
    )
    tell_error(told)
    return 1


def render_quote(quoted: Quote, name: str, look: Look = PIPE) -> str:
    """Return a quote for people."""
    lines = [_summary(quoted, name, look), *_typical(quoted, look)]
    if quoted.lines:
        lines += ["", _table(quoted.lines, name, look)]
    if quoted.unbounded:
        lines += ["", *(line for gap in quoted.unbounded for line in _gap(gap, name, look))]
    return "\n".join(lines)


def _summary(quoted: Quote, name: str, look: Look) -> str:
    calls = "calls without bound" if quoted.calls is None else count(quoted.calls, "call")
    if quoted.calls is not None and quoted.paid_repeats is not None:
        repeats = count(quoted.paid_repeats, "paid repeat") if quoted.calls else ""
        calls = count(quoted.calls, "send") + (repeats and f", at most {repeats}")
    if quoted.total is None:
        bound = look.paint(_NO_BOUND, Tone.BAD)
        return f"{one_line(name)}: {bound} on what it may spend, in {calls}"
    most = look.paint(_amount(quoted.total), Tone.STRONG)
    processes = quoted.processes and f", {count(quoted.processes, 'process', 'processes')}"
    return f"{one_line(name)}: at most {most} in {calls}{processes or ''}"


def _typical(quoted: Quote, look: Look) -> list[str]:
    """Return what it usually spends, and why calls are more than sends."""
    if quoted.typical is None or not quoted.calls:
        return []
    sends = quoted.sends
    sent = "" if sends is None else f" for {count(sends, 'send')}, each answered at once"
    told = f"typical {_amount(quoted.typical)}{sent} (no promise)"
    if sends and quoted.calls > sends:
        more = quoted.calls - sends
        told += f"; the other {count(more, 'call is a repeat', 'calls are repeats')}"
    return look.fold(told, "  ", "  ")


def _table(lines: Sequence[QuotedLine], name: str, look: Look) -> str:
    most_expensive = max(lines, key=_expense_of)
    places = decimals_of(*(line.worst for line in lines))
    rows: list[tuple[Cell | str, ...]] = []
    for line in lines:
        is_marked = line is most_expensive and len(lines) > 1
        tone = Tone.STRONG if is_marked else Tone.PLAIN
        cells = [Cell(text, tone) for text in _row(line, name, places)]
        note = Cell("◂ most expensive" if is_marked else "", tone)
        rows.append((Cell("▸" if is_marked else "", tone), *cells, note))
    return table(_COLUMNS, rows, look)


def _expense_of(line: QuotedLine) -> tuple[bool, int]:
    return line.worst is None, line.worst or 0


def _row(line: QuotedLine, name: str, places: int) -> tuple[str, ...]:
    calls = "–" if line.calls is None else f"{line.calls:,}"
    most = _NO_BOUND if line.worst is None else money(line.worst, places, Rounding.UP)
    if line.calls == 0:
        most = _NEVER
    return _where(line, name), one_line(line.what), calls, most


def _where(place: QuotedLine | Unbounded, name: str) -> str:
    return str(place.line) if place.file == name else f"{one_line(place.file)}:{place.line}"


def _gap(gap: Unbounded, name: str, look: Look) -> list[str]:
    capped = "capped by nothing" if gap.cap is None else f"capped by {_amount(gap.cap)}"
    sign, tone = (Sign.FAILED, Tone.BAD) if gap.cap is None else (Sign.HELD, Tone.ASK)
    told = f"unbounded at line {_where(gap, name)}, {capped}: {gap.why}"
    return look.marked(sign, tone, told)


def render_typical_cost(known: TypicalCost) -> str:
    """Return the typical cost for people, never in one line with the quote: it is no promise."""
    many = f"95 of 100 to {_amount(known.p95)} or less"
    most = many if known.runs >= FEW_CALLS else f"the most expensive to {_amount(known.p95)}"
    runs, mean = count(known.runs, "recorded run"), _amount(known.mean)
    return f"typical: {runs} came to {mean} on average, {most} (no promise)"


def render_token_advice(rows: Sequence[TokenAdvice]) -> str:
    """Return the advice on agents for people."""
    return "\n".join(map(_advice_line, rows))


def _advice_line(row: TokenAdvice) -> str:
    name = one_line(row.agent)
    if row.max_tokens is not None:
        rests = f"99 of 100 of {count(row.calls, 'answer')} had {row.p99:,} tokens or less"
        return f"{name}: max_tokens {row.max_tokens} – {rests}"
    if row.cut:
        return f"{name}: raise max_tokens – {count(row.cut, 'answer')} of {row.calls} were cut off"
    have = count(row.calls, "recorded answer")
    return f"{name}: too little to say, {have}; {FEW_CALLS} are needed"


def _amount(nanos: int) -> str:
    """Return an amount, never less than it is."""
    return money(nanos, rounding=Rounding.UP)


def _as_json(quoted: Quote) -> dict[str, Any]:
    return {
        "total_usd": to_usd(quoted.total),
        "typical_usd": to_usd(quoted.typical),
        "sends": quoted.sends,
        "calls": quoted.calls,
        "paid_repeats": quoted.paid_repeats,
        "processes": quoted.processes,
        "lines": [
            {"file": one.file, "line": one.line, "what": one.what}
            | {"calls": one.calls, "sends": one.sends, "worst_usd": to_usd(one.worst)}
            for one in quoted.lines
        ],
        "unbounded": [
            {"file": one.file, "line": one.line, "why": one.why, "capped_by_usd": to_usd(one.cap)}
            for one in quoted.unbounded
        ],
    }
