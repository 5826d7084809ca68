"""The settings of one run, frozen: the rules and prices they stand for, and where each of them came
from.
"""

import os
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import reduce
from itertools import pairwise
from operator import getitem
from pathlib import Path
from typing import Any, NamedTuple, TextIO, TypeVar, cast

from msgspec import Struct

from vegakit.config.names import (
    KeyFinder,
    KeySource,
    Name,
    SettingSource,
    SourceKind,
    hide_secrets_of_url,
    is_key,
    is_secret,
    parse_name,
    plain,
    show_name,
    toml_of,
)
from vegakit.config.tables import (
    BudgetTable,
    LimitTable,
    LongInputPrices,
    PermissionsTable,
    PriceTable,
    ProviderTable,
    Table,
    Tables,
    parse_backoff,
    parse_duration_ms,
    parse_rate,
    parse_size,
)
from vegakit.errors import SettingsError
from vegakit.money import dollars, parse_allowance
from vegakit.policy import (
    BreakerRule,
    PermissionRule,
    RateRule,
    RetryBudgetRule,
    RetryRule,
    ScopeRule,
    WindowRule,
    parse_permission,
)
from vegakit.prices import PriceRow, PriceTier

# Which recorded run a program that is started again belongs to: it is replayed, or goes on.
#
# Not settings: each holds for one start of one program, and no file may say it.


_REPLAY = "VEGA_JOURNAL_REPLAY"
_RESUME = "VEGA_JOURNAL_RESUME"


class CutOffTools(StrEnum):
    """What a person has decided about tool calls that were cut off and may not be repeated."""

    ASK = "ask"
    """Nothing yet: the run stops when it comes to one."""
    RESEND = "resend"
    SKIP = "skip"


class ReplayTarget(NamedTuple):
    """`run` is empty for the last one."""

    journal: Path
    run: str = ""


class ResumeTarget(NamedTuple):
    """`run` is empty for the unfinished run of a journal that holds one at a time."""

    journal: Path
    run: str = ""
    tools: CutOffTools = CutOffTools.ASK


def replay_target(environment: Mapping[str, str] | None = None) -> ReplayTarget | None:
    variables = os.environ if environment is None else environment
    run, colon, path = variables.get(_REPLAY, "").partition(":")
    return ReplayTarget(Path(path), run) if colon else None


def replay_variables(which: ReplayTarget) -> dict[str, str]:
    """For a program that is to be replayed."""
    return {_REPLAY: f"{which.run}:{which.journal.resolve()}"}


def resume_target(environment: Mapping[str, str] | None = None) -> ResumeTarget | None:
    variables = os.environ if environment is None else environment
    run, colon, rest = variables.get(_RESUME, "").partition(":")
    if not colon:
        return None
    tools, pid, path = rest.split(":", 2)
    # What the program starts inherits our variables, and is not the program.
    return ResumeTarget(Path(path), run, CutOffTools(tools)) if int(pid) == os.getpid() else None


def resume_variables(which: ResumeTarget) -> dict[str, str]:
    """For a program that takes the place of this process, and is to go on."""
    return {_RESUME: f"{which.run}:{which.tools}:{os.getpid()}:{which.journal.resolve()}"}


def environment_with(variables: Mapping[str, str]) -> dict[str, str]:
    """What a program that takes our place gets."""
    return {**os.environ, **variables}


# What the environment says about the terminal.


def wants_colour(stream: TextIO, environment: Mapping[str, str] | None = None) -> bool:
    """On a terminal, unless NO_COLOR is set to anything or the terminal is dumb."""
    variables = os.environ if environment is None else environment
    return stream.isatty() and not variables.get("NO_COLOR") and variables.get("TERM") != "dumb"


# Tables as the rules and prices that the runtime works with.


Rule = TypeVar("Rule", RateRule, RetryRule, RetryBudgetRule, BreakerRule)

_PARSED = {
    "backoff": ("backoff", parse_backoff),
    "requests": ("requests", parse_rate),
    "reset_after": ("reset_after_ms", parse_duration_ms),
    "slot_lease": ("slot_lease_ms", parse_duration_ms),
    "tokens": ("tokens", parse_rate),
    "total": ("total_ms", parse_duration_ms),
}
"""Words that a rule knows by another name or as another type."""


class ModelLimits(Struct, frozen=True):
    """What holds for the calls to one model."""

    rate: RateRule
    retry: RetryRule
    retry_budget: RetryBudgetRule
    breaker: BreakerRule


def limits_for(tables: Mapping[str, LimitTable], model: str) -> ModelLimits:
    """Each word from the narrowest of `provider:model`, `provider` and `default` that has it."""
    names = ("default", model.partition(":")[0], model)
    chosen = [tables[name] for name in names if name in tables]
    return ModelLimits(
        rate=_rule(RateRule, chosen),
        retry=_rule(RetryRule, [table.retry for table in chosen]),
        retry_budget=_rule(RetryBudgetRule, [table.retry_budget for table in chosen]),
        breaker=_rule(BreakerRule, [table.breaker for table in chosen]),
    )


def _rule(kind: type[Rule], tables: Iterable[Table]) -> Rule:
    words: dict[str, Any] = {}
    for table in tables:
        for word in table.__struct_fields__:
            value = getattr(table, word)
            if value is not None and not isinstance(value, Table):
                name, parse = _PARSED.get(word, (word, None))
                words[name] = parse(value) if parse else value
    return kind(**words)


def permission_rules(table: PermissionsTable) -> tuple[PermissionRule, ...] | None:
    """None: nothing is written, so tools run within their own grants."""
    if table.mode is None and not table.rules:
        return None
    return tuple(map(parse_permission, table.rules))


def price_row(model: str, table: PriceTable) -> PriceRow:
    tiers = (_tier(table), *(_tier(tier, tier.above_input_tokens) for tier in table.tiers))
    if any(one.above_input_tokens >= next_.above_input_tokens for one, next_ in pairwise(tiers)):
        raise SettingsError("tiers must rise by above_input_tokens; sort them and drop doubles")
    return PriceRow(model, tiers, dollars(table.per_call))


def _tier(written: PriceTable | LongInputPrices, above_input_tokens: int = 0) -> PriceTier:
    return PriceTier(
        input=dollars(written.input),
        output=dollars(written.output),
        cache_read=dollars(written.cache_read or written.input),
        cache_write=dollars(written.cache_write or written.input),
        above_input_tokens=above_input_tokens,
    )


def budget_rule(table: BudgetTable) -> ScopeRule:
    allowance = parse_allowance(table.default)
    window = WindowRule(allowance.period) if allowance.period else None
    return ScopeRule(allowance.amount, table.on_exceed, window)


# All settings of one run, frozen, each with the place it came from.


_FILES = {SourceKind.USER, SourceKind.PROJECT}


class Settings(Tables, frozen=True, kw_only=True):
    """Made by `load`. Holds no key, and knows how to read one."""

    sources: dict[str, SettingSource]
    """By dotted name, such as `budget.default`."""
    keys: KeyFinder

    def model(self, name: str) -> str:
        """What an alias stands for; any other name stands for itself. The path of a script starts
        at the directory of the file that names it."""
        model, source = self.models.get(name, name), self.sources.get(show_name(("models", name)))
        prefix, _, path = model.partition(":")
        if prefix == "scripted" and source is not None and source.kind in _FILES:
            return f"{prefix}:{Path(source.place).parent / path}"
        return model

    def provider(self, name: str) -> ProviderTable:
        return self.providers.get(name) or ProviderTable()

    def key(self, provider: str) -> KeySource:
        return self.keys.find(provider, self.provider(provider).key)

    def price(self, model: str) -> PriceRow | None:
        """The user's own price, which goes before every list."""
        table = self.prices.get(model)
        return price_row(model, table) if table else None

    def limits_for(self, model: str) -> ModelLimits:
        return limits_for(self.limits, model)

    @property
    def budget_rule(self) -> ScopeRule:
        return budget_rule(self.budget)

    @property
    def permission_rules(self) -> tuple[PermissionRule, ...] | None:
        return permission_rules(self.permissions)

    @property
    def answer_within_ms(self) -> int | None:
        """How long a person may take."""
        within = self.permissions.answer_within
        return parse_duration_ms(within) if within else None

    @property
    def audit_path(self) -> Path | None:
        return Path(self.audit.path) if self.audit.path else None

    @property
    def data_path(self) -> Path:
        return Path(self.data_dir or ".vega")

    @property
    def ledger_path(self) -> Path:
        return Path(self.ledger.path or "vega.db")

    @property
    def journal_path(self) -> Path | None:
        """None: nothing is recorded."""
        return Path(self.journal.path or "vega.db") if self.journal.enabled else None

    @property
    def journal_keep_ms(self) -> int:
        """How long runs that have ended are kept."""
        return parse_duration_ms(self.journal.keep)

    @property
    def journal_bytes(self) -> int:
        """How large the journal may become by runs that have ended."""
        return parse_size(self.journal.size)

    @property
    def pins_path(self) -> Path:
        """What was accepted of MCP servers."""
        return self.data_path / "mcp.pins.json"

    @property
    def traces_path(self) -> Path | None:
        return Path(self.telemetry.jsonl) if self.telemetry.jsonl else None

    @property
    def sockets_path(self) -> Path | None:
        return Path(self.view.sockets) if self.view.sockets else None


# Each setting, its value as far as it may be shown, and where it came from.


_TABLES = Tables.__struct_fields__


class SettingRow(Struct, frozen=True):
    name: str
    value: str
    source: str


def explain(settings: Settings) -> list[SettingRow]:
    """By name; no key, header or password is in it."""
    tree = {table: plain(getattr(settings, table)) for table in _TABLES}
    return [
        SettingRow(name, _shown(settings, tree, parse_name(name)), str(source))
        for name, source in settings.sources.items()
    ]


def _shown(settings: Settings, tree: dict[str, Any], name: Name) -> str:
    if is_key(name):
        return repr(settings.key(name[1]))
    if name[2:3] == ("headers",):
        return "…"
    value = reduce(getitem, name, cast("Any", tree))
    if is_secret(name):
        return hide_secrets_of_url(value)
    if isinstance(value, str):
        return value if value.isprintable() else ascii(value)
    return toml_of(value)
