"""`vega cost`: the most a program can spend, before its first call, and what its recorded runs
typically spent.

The quote is a promise; figures from recorded runs are not, and are never printed on the same
line.
"""

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from vegakit.cli.compiler import checked_at, nodes_at, show, signatures_of
from vegakit.cli.cost_reasons import (
    Tightened,
    compared,
    counting_json,
    is_held,
    left_in_period,
    most_expensive,
    reasons_page,
    refusal,
    render_counting,
    render_reasons,
    tightened,
)
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
)
from vegakit.cli.main import CommandParser, amount
from vegakit.cli.pipeline_cost import quote_pipeline
from vegakit.cli.recorded_cost import (
    TokenAdvice,
    TypicalCost,
    render_token_advice,
    render_typical_cost,
    runs_of,
    token_advice,
    typical_cost,
)
from vegakit.cli.runs import journal_of_user
from vegakit.config import Settings, load
from vegakit.errors import SettingsError, StoreError, UserError
from vegakit.host import place_of, scope_of_agent
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
    check_program,
    in_order,
    kill_cost,
    main_params,
    manifest_of,
    quote,
)
from vegakit.money import Dollars, Money, Period, dollars, format_money, to_usd
from vegakit.policy import EVERYBODY, OnExceed, ScopeRule
from vegakit.ports import Model, tokenizer_of
from vegakit.program import DEFAULT_WINDOW
from vegakit.providers import (
    InputCounting,
    ProviderAccess,
    build_model,
    check_provider_tables,
    provider_of,
)
from vegakit.sdk import (
    PIPELINE_SUFFIXES,
    CheckedSource,
    ProjectWorld,
    pipeline_module,
    read_pipeline,
)
from vegakit.store import (
    RunSummary,
    journal_size,
)

# What is known of the models that a program names, without a key and without a call.


class PriceBook:
    """The models of a program and their prices. `model`, where given, stands in for that of every
    agent."""

    def __init__(self, settings: Settings, model: str | None = None) -> None:
        check_provider_tables(settings)
        self._settings = settings
        self._model = model
        self._asked: dict[str, Model | None] = {}
        self.periods: dict[str, AgentSpec] = {}
        """The agents that were asked for whose budget is for a period."""

    def __call__(self, spec: AgentSpec) -> ModelTerms | None:
        if spec.period:
            self.periods[spec.name] = spec
        return in_order(map(self._terms, self._names(spec)))

    def check(self, spec: AgentSpec) -> None:
        """Refuse an agent whose model no provider has."""
        for model in self._names(spec):
            provider_of(model)

    def _terms(self, name: str) -> ModelTerms | None:
        if name not in self._asked:
            self._asked[name] = self._build(name)
        model = self._asked[name]
        if model is None or model.price is None:
            return None
        return ModelTerms(
            model.price,
            model.context_tokens,
            model.default_max_tokens,
            model.bound_input,
            self._settings.limits_for(model.name, provider_of(name)).retry.max_attempts,
            tokenizer=tokenizer_of(model),
        )

    @property
    def counted(self) -> list[InputCounting]:
        """Return how the input of each model is counted that was asked for so far."""
        models = filter(None, self._asked.values())
        found = (getattr(model, "counting", None) for model in models)
        return [one for one in found if isinstance(one, InputCounting)]

    def _names(self, spec: AgentSpec) -> Iterable[str]:
        names = (self._model,) if self._model else spec.models
        return (model for name in names for model in self._settings.models_of(name))

    def _build(self, name: str) -> Model | None:
        """Return a model, or None if nobody knows its name, and so its price."""
        settings = self._settings
        try:
            table = settings.provider(provider_of(name))
            price = settings.price(name)
            return build_model(name, ProviderAccess(lambda: "", table.base_url, price=price))
        except SettingsError:
            return None


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
_ABOVE = "above the budget of main"
_ABOVE_OTHERS = "above the budgets around it"
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
    cost = _Cost(chosen, found.checked, known, place_of(found.source.root, found.source.name))
    if chosen.why is not None:
        name, look = found.source.name, look_of(sys.stdout)
        tighten = partial(cost.tightened, found)
        if chosen.json:
            print_json(reasons_page(cost.quoted, name, chosen.why, tighten))
        else:
            print(render_reasons(cost.quoted, name, chosen.why, look, tighten, cost.cap))
    elif chosen.json:
        print_json(cost.as_json())
    else:
        print(cost.told(found.source.name, look_of(sys.stdout)))
    return 0 if limit is None else compared(cost.quoted, limit, cost.refused)


def _cost_of_pipeline(chosen: argparse.Namespace, limit: Money | None) -> int:
    file, prices = read_pipeline(chosen.file), PriceBook(load({}), chosen.model)
    # What `vega run` refuses has no price.
    for spec in pipeline_module(chosen.file, file).agents:
        prices.check(spec)
    found = quote_pipeline(chosen.file, file, prices)
    if chosen.json:
        counted = counting_json(prices.counted)
        print_json(_as_json(found.quoted) | {"decided_by": found.decided_by} | counted)
    else:
        print(render_quote(found.quoted, chosen.file.name, look_of(sys.stdout)))
        print(f"how often stages run is bounded by {found.decided_by}")
        for line in render_counting(prices.counted):
            print(line)
    return 0 if limit is None else compared(found.quoted, limit)


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


def _allowance(rule: ScopeRule) -> str:
    period = f"/{rule.period}" if rule.period else ""
    return f"{Dollars.of_nanos(rule.cap or 0)}".removesuffix(".00") + period


def window_of(settings: Settings) -> int:
    """Return how many calls a program may begin before it comes to them."""
    return DEFAULT_WINDOW if settings.lookahead is None else settings.lookahead


class _Cost:
    """The quote, and beside it what recorded runs came to."""

    def __init__(
        self, chosen: argparse.Namespace, checked: Checked, known: KnownRun | None, place: str
    ) -> None:
        settings = load({})
        self._known = known
        self._checked, self._book = checked, PriceBook(settings, chosen.model)
        self._budget = None if chosen.budget is None else dollars(chosen.budget)
        self._ceiling = settings.budget_rule if self._budget is None else None
        self._repeats = settings.bounds.paid_repeats
        self.refused = refusal(checked, self._budget)
        self.quoted = self._quote({})
        is_told = any(one.is_refused for one in self.quoted.lines)
        if self.refused is None and self._budget and not (self.quoted.calls or is_told):
            self._refuse_what_never_fits(self._budget)
        self._kill = kill_cost(checked, self.quoted, window_of(settings))
        self._left = self._left_in_periods(settings, place)
        self._journal = _journal(chosen)
        runs = list[RunSummary]()
        try:
            runs = [] if self._journal is None else runs_of(chosen.file, self._journal)
        except (UserError, StoreError):
            # The usual file may hold a ledger only, of somebody who has never run a program.
            if chosen.journal is not None:
                raise
            self._journal = None
        self._typical = typical_cost(runs)
        self._tuned: list[TokenAdvice] | None = None
        if chosen.tune:
            agents = [row.name for row in manifest_of(checked).agents]
            self._tuned = token_advice(runs, self._journal, agents) if self._journal else []

    def _left_in_periods(self, settings: Settings, place: str) -> dict[str, int]:
        """Return what is left of budgets that all runs share. They bound no run: one may last from
        one period into the next."""
        rule = settings.user_rule
        own = self._ceiling
        shared, said = dict[ScopeId, ScopeRule](), dict[ScopeId, str]()
        if rule is not None:
            shared[EVERYBODY], said[EVERYBODY] = rule, f"your budget of {_allowance(rule)}"
        if own is not None and own.period is not None and own != rule:
            scope = ScopeId("runtime:default")
            shared[scope], said[scope] = own, f"your budget of {_allowance(own)}"
        for spec in self._book.periods.values():
            scope = scope_of_agent("default", f"{place}/{spec.name}")
            shared[scope] = ScopeRule(Money(spec.budget or 0), period=Period(spec.period))
            said[scope] = f"the {spec.allowance} of {spec.name} in all runs"
        return {said[scope]: left for scope, left in left_in_period(settings, shared).items()}

    def _quote(self, max_tokens: Mapping[str, int]) -> Quote:
        return self._of(self._checked, self.cap, max_tokens)

    def _of(
        self,
        checked: Checked,
        cap: int | None,
        max_tokens: Mapping[str, int] | None = None,
        *,
        is_refused: bool = False,
    ) -> Quote:
        book, known, repeats = self._book, self._known, self._repeats
        tokens, budget = max_tokens or {}, self._budget
        if is_refused or self.refused:  # what it costs nevertheless, where its budget is raised
            budget, cap = None, budget
        return quote(checked, book, budget, cap, tokens, known, repeats, typical=True)

    def _refuse_what_never_fits(self, budget: Money) -> None:
        """Quote a program that sends nothing only because nothing of it fits the budget as one that
        is always refused."""
        again = self._of(self._checked, self.cap, is_refused=True)
        if again.calls:
            self.refused = f"always refused: none of its sends fits --budget {format_money(budget)}"
            self.quoted = again

    def tightened(self, found: CheckedSource, line: QuotedLine) -> Tightened | None:
        """Return what to write for a lower bound; of a file that another uses nothing is told."""

        def again(text: str) -> Quote | None:
            source = found.source
            checked, _ = check_program(text, source.name, source.read, tools=signatures)
            return None if checked is None else self._of(checked, None)

        if line.file != found.source.name:
            return None
        signatures = signatures_of(nodes_at(found.source.root / found.source.name))
        # The budget of the settings would hide what an edit changes.
        return tightened(self._checked, self._of(self._checked, None), line, again, self.cap)

    @property
    def cap(self) -> int | None:
        """Return the cap of the settings, where that refuses what goes beyond it, and is not for
        each day anew."""
        rule = self._ceiling
        if rule is None or rule.period is not None or rule.on_exceed not in _HOLDS:
            return None
        return rule.cap

    def told(self, name: str, look: Look) -> str:
        total = self.quoted.total
        is_capped = total is None or total == self.cap  # then a kill adds nothing
        kill = None if is_capped else self._kill
        lines = [render_quote(self.quoted, name, look, self._typical, kill)]
        lines += look.marked(Sign.HELD, Tone.ASK, self.refused) if self.refused else []
        if self.cap is not None and self.quoted.total == self.cap:
            lines.append(f"the budget of your settings caps it: {money(self.cap)}")
        for what, left in self._left.items():
            lines.append(f"of {what}, {money(left, rounding=Rounding.DOWN)} is left")
        lines += (line for told in render_counting(self._book.counted) for line in look.fold(told))
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
        page = _as_json(self.quoted) | {"always_refused": self.refused is not None}
        page["each_kill_usd"] = to_usd(self._kill)
        page["manifest"] = to_builtins(manifest_of(self._checked))
        if (one := self._typical) is not None:
            page["recorded"] = {
                "runs": one.runs,
                "expected_usd": to_usd(one.mean),
                "p95_usd": to_usd(one.p95),
            }
        if self._tuned is not None:
            page["tune"] = [to_builtins(row) for row in self._tuned]
        return page | counting_json(self._book.counted)


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


def render_quote(
    quoted: Quote,
    name: str,
    look: Look = PIPE,
    recorded: TypicalCost | None = None,
    kill: int | None = None,
) -> str:
    """Return a quote for people. What recorded runs came to stands beside what is typical: they may
    have had other arguments, and `vega run` says the same as this."""
    lines = [_summary(quoted, name, look), *_typical(quoted, look)]
    if recorded is not None:
        lines += look.fold(render_typical_cost(recorded), "  ", "  ")
    if kill:
        lines += look.fold(f"each kill may add at most {_amount(kill)}", "  ", "  ")
    if quoted.lines:
        lines += ["", _table(quoted, name, look)]
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
    if quoted.calls == 0 and quoted.lines:
        told = "nothing that it sends ever fits its budget, so all of it is refused"
        return look.marked(Sign.HELD, Tone.ASK, told)
    if quoted.typical is None or not quoted.calls:
        return []
    sends = quoted.sends
    sent = "" if sends is None else f" for {count(sends, 'send')}, each answered at once"
    told = f"typical {_amount(quoted.typical)}{sent} (no promise)"
    if sends and quoted.calls > sends:
        more = quoted.calls - sends
        told += f"; the other {count(more, 'call is a repeat', 'calls are repeats')}"
    return look.fold(told, "  ", "  ")


def _table(quoted: Quote, name: str, look: Look) -> str:
    lines = quoted.lines
    costliest = most_expensive(lines)
    places = decimals_of(*(line.worst for line in lines))
    rows: list[tuple[Cell | str, ...]] = []
    for line in lines:
        is_marked = line is costliest and len(lines) > 1
        notes = ["◂ most expensive"] if is_marked else []
        notes += [_ABOVE] if line.uncut is not None else []
        notes += [_ABOVE_OTHERS] if is_held(line, quoted.total) else []
        tone = Tone.STRONG if is_marked else Tone.PLAIN
        cells = [Cell(text, tone) for text in _row(line, name, places)]
        note = Cell(", ".join(notes), tone)
        rows.append((Cell("▸" if is_marked else "", tone), *cells, note))
    return table(_COLUMNS, rows, look)


def _row(line: QuotedLine, name: str, places: int) -> tuple[str, ...]:
    calls = "–" if line.calls is None else f"{line.calls:,}"
    worst = line.worst if line.uncut is None else line.uncut
    most = _NO_BOUND if worst is None else money(worst, places, Rounding.UP)
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
            | {"uncut_usd": to_usd(one.uncut), "never_fits": one.calls == 0}
            for one in quoted.lines
        ],
        "unbounded": [
            {"file": one.file, "line": one.line, "why": one.why, "capped_by_usd": to_usd(one.cap)}
            for one in quoted.unbounded
        ],
    }
