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
    TRACES_ENDPOINT,
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
    OtlpProtocol,
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
from vegakit.errors import SettingsError, did_you_mean
from vegakit.money import Money, dollars, parse_allowance
from vegakit.policy import (
    BreakerRule,
    PermissionRule,
    RateRule,
    RetryBudgetRule,
    RetryRule,
    ScopeRule,
    parse_permission,
)
from vegakit.prices import PriceRow, PriceTier
from vegakit.records import from_json, to_json

# Which recorded run a program that is started again belongs to: it is replayed, or goes on.
#
# Not settings: each holds for one start of one program, and no file may say it.


_REPLAY = "VEGA_JOURNAL_REPLAY"
_RESUME = "VEGA_JOURNAL_RESUME"


class CutOffTools(StrEnum):
    """Says what a person has decided about tool calls that were cut off and may not be repeated."""

    ASK = "ask"
    """Nothing yet: the run stops when it comes to one."""
    RESEND = "resend"
    SKIP = "skip"


class ReplayTarget(NamedTuple):
    """`run` is empty for the last one."""

    journal: str
    run: str = ""


class BudgetChange(Struct, frozen=True):
    """A change of the budget of a resumed run: an amount to add, or the new cap."""

    amount: Money
    is_more: bool


class ResumeTarget(Struct, frozen=True):
    """`run` is empty for the unfinished run of a journal that holds one at a time. `alone` says
    that it is this very run, and not the runs of a program whose first it was. The decisions
    of a person are about the run `decided`: a new `budget`, to `accept` the cost of resuming, and
    to use the `current_settings`."""

    run: str = ""
    tools: CutOffTools = CutOffTools.ASK
    alone: bool = False
    decided: str = ""
    budget: BudgetChange | None = None
    accept: bool = False
    current_settings: bool = False


def replay_target(environment: Mapping[str, str] | None = None) -> ReplayTarget | None:
    """Return which recorded run this process replays; None if it does not."""
    variables = os.environ if environment is None else environment
    run, colon, path = variables.get(_REPLAY, "").partition(":")
    return ReplayTarget(path, run) if colon else None


def replay_variables(which: ReplayTarget) -> dict[str, str]:
    """Return the variables for a program that is to be replayed."""
    # The program is started in another folder; a URL means the same everywhere.
    is_url = "://" in which.journal
    place = which.journal if is_url else str(Path(which.journal).resolve())
    return {_REPLAY: f"{which.run}:{place}"}


def take_resume() -> ResumeTarget | None:
    """Return the recorded run that this process was started to resume, and forget it. None if the
    process begins a new run."""
    # `vega resume` starts the recorded command in place of itself. A Python script has arguments
    # and constructors of its own, so its environment is the only channel that reaches it. The
    # variable is taken once, and names the process, because child processes inherit it.
    pid, colon, which = os.environ.pop(_RESUME, "").partition(":")
    return from_json(ResumeTarget, which) if colon and int(pid) == os.getpid() else None


def resume_variables(which: ResumeTarget) -> dict[str, str]:
    """Return the variables for a program that replaces this process and resumes a run."""
    return {_RESUME: f"{os.getpid()}:{to_json(which).decode()}"}


def environment_with(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a program that takes our place."""
    return {**os.environ, **variables}


# What the environment says about the terminal.


def wants_colour(
    stream: TextIO, when: str = "auto", environment: Mapping[str, str] | None = None
) -> bool:
    """Return whether to use colour on a stream. `when` is what `--color` says, `always` or `never`;
    otherwise NO_COLOR set to anything says no, FORCE_COLOR set to anything but 0 says yes, and
    without both a terminal that is not dumb has colour."""
    variables = os.environ if environment is None else environment
    if when in ("always", "never"):
        return when == "always"
    if variables.get("NO_COLOR"):
        return False
    if variables.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return variables.get("TERM") != "dumb" and stream.isatty()


def has_light_background(environment: Mapping[str, str] | None = None) -> bool:
    """Return whether a terminal says that its background is light: COLORFGBG ends with the number
    of that colour."""
    variables = os.environ if environment is None else environment
    return variables.get("COLORFGBG", "").rpartition(";")[2] in {"7", "15"}


# Tables as the rules and prices that the runtime works with.


Rule = TypeVar("Rule", RateRule, RetryRule, RetryBudgetRule, BreakerRule)

_PARSED = {
    "backoff": ("backoff", parse_backoff),
    "max_wait": ("max_wait_ms", parse_duration_ms),
    "requests": ("requests", parse_rate),
    "reset_after": ("reset_after_ms", parse_duration_ms),
    "slot_lease": ("slot_lease_ms", parse_duration_ms),
    "tokens": ("tokens", parse_rate),
    "total": ("total_ms", parse_duration_ms),
}
"""Words that a rule knows by another name or as another type."""


class ModelLimits(Struct, frozen=True):
    """The limits that hold for the calls to one model."""

    rate: RateRule
    retry: RetryRule
    retry_budget: RetryBudgetRule
    breaker: BreakerRule


def limits_for(tables: Mapping[str, LimitTable], model: str, provider: str = "") -> ModelLimits:
    """Return the limits of a model: each word from the narrowest of `provider:model`, `provider`
    and `default` that has it. A name may begin with a format of its `provider` instead, such as
    `openai-chat`, which is narrower than the provider."""
    names = dict.fromkeys(("default", provider, model.partition(":")[0], model))
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
    """Return the rules for tools; None: nothing is written, so tools run within their own
    grants."""
    if table.mode is None and not table.rules:
        return None
    return tuple(map(parse_permission, table.rules))


def price_row(model: str, table: PriceTable) -> PriceRow:
    """Return the price of a model as its table says."""
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
    """Return the rule of a budget as its table says."""
    allowance = parse_allowance(table.default)
    return ScopeRule(allowance.amount, table.on_exceed, allowance.period)


# Where spans are sent.


_GRPC_PORT = ":4317"


class OtlpTarget(Struct, frozen=True):
    """A collector of OpenTelemetry. `is_whole` says that the endpoint is the address of its traces,
    `is_required` that the user asked for it in Vega's own settings, and not only by a variable
    that is meant for all programs."""

    endpoint: str
    protocol: OtlpProtocol = OtlpProtocol.HTTP
    headers: dict[str, str] = {}
    resource: dict[str, str] = {}
    is_whole: bool = False
    is_required: bool = True

    def __repr__(self) -> str:
        return f"OtlpTarget({hide_secrets_of_url(self.endpoint)}, {self.protocol})"


# All settings of one run, frozen, each with the place it came from.


_FILES = {SourceKind.USER, SourceKind.PROJECT}


def _in_folder(model: str, folder: Path | None) -> str:
    prefix, _, path = model.partition(":")
    return f"{prefix}:{folder / path}" if prefix == "scripted" and folder else model


class UserBudget(Struct, frozen=True):
    """A budget with a period in the user's own file, and the ledger that counts what all runs of
    the user spend. No project file, variable, flag or argument replaces it."""

    rule: ScopeRule
    ledger: str


class Settings(Tables, frozen=True, kw_only=True):
    """Made by `load`. Holds no key, and knows how to read one."""

    sources: dict[str, SettingSource]
    """By dotted name, such as `budget.default`."""
    keys: KeyFinder
    user_rule: ScopeRule | None = None
    """The budget of the user's own file, if it has a period."""
    unreadable: tuple[str, ...] = ()
    """What is wrong with variables that are meant for all programs, and so does not stop this one:
    it is a warning where it matters."""

    def models_of(self, name: str) -> tuple[str, ...]:
        """Return the models that an alias stands for, in the order in which they are asked; any
        other name stands for itself. The path of a script starts at the directory of the file that
        names it."""
        found, source = self.models.get(name, name), self.sources.get(show_name(("models", name)))
        folder = Path(source.place).parent if source and source.kind in _FILES else None
        return tuple(
            _in_folder(one, folder) for one in ((found,) if isinstance(found, str) else found)
        )

    def unknown_model(self, name: str, error: SettingsError) -> SettingsError:
        """Return what is wrong with a name that stands for no model: there is an alias like it, or
        else the error that it came to."""
        near = "" if ":" in name or name in self.models else did_you_mean(name, self.models, "")
        return SettingsError(f"there is no model {name!r}; {near}") if near else error

    def sources_in(self, table: str) -> dict[str, SettingSource]:
        """Return the names that are written in a table of free names, each with its last source."""
        kinds = [*SourceKind]
        sources = sorted(self.sources.items(), key=lambda item: kinds.index(item[1].kind))
        names = ((parse_name(name), source) for name, source in sources)
        return {name[1]: source for name, source in names if name[0] == table}

    def provider(self, name: str) -> ProviderTable:
        """Return how a provider is reached."""
        return self.providers.get(name) or ProviderTable()

    def key(self, provider: str) -> KeySource:
        """Return where the key of a provider is read."""
        return self.keys.find(provider, self.provider(provider).key)

    def price(self, model: str) -> PriceRow | None:
        """Return the user's own price of a model, which goes before every list."""
        table = self.prices.get(model)
        return price_row(model, table) if table else None

    def limits_for(self, model: str, provider: str = "") -> ModelLimits:
        """Return the limits that hold for the calls to a model of a provider."""
        return limits_for(self.limits, model, provider)

    @property
    def budget_rule(self) -> ScopeRule:
        """Return the rule of the budget that a runtime has if nobody names one."""
        return budget_rule(self.budget)

    @property
    def user_budget(self) -> UserBudget | None:
        """Return the budget that holds for all runs of this user together, whatever else each of
        them has; None: the user's own file has none with a period."""
        return None if self.user_rule is None else UserBudget(self.user_rule, self.ledger_place)

    @property
    def permission_rules(self) -> tuple[PermissionRule, ...] | None:
        """Return the rules for tools; None: nothing is written."""
        return permission_rules(self.permissions)

    @property
    def answer_within_ms(self) -> int | None:
        """Return how long a person may take; None: as long as they like."""
        within = self.permissions.answer_within
        return parse_duration_ms(within) if within else None

    @property
    def audit_path(self) -> Path | None:
        """Return the file of the audit; None: there is none."""
        return Path(self.audit.path) if self.audit.path else None

    @property
    def data_path(self) -> Path:
        """Return the folder of the user's data."""
        return Path(self.data_dir or ".vega")

    @property
    def ledger_place(self) -> str:
        """Return the URL of a server or the path of a file, which is the journal's if none is
        written."""
        return self.ledger.url or self.ledger.path or self.journal_place

    @property
    def journal_place(self) -> str:
        """Return the URL of a server or the path of a file, also while nothing is recorded."""
        return self.journal.url or self.journal.path or "vega.db"

    @property
    def journal_keep_ms(self) -> int:
        """Return how long runs that have ended are kept."""
        return parse_duration_ms(self.journal.keep)

    @property
    def journal_bytes(self) -> int:
        """Return how large the journal may become by runs that have ended."""
        return parse_size(self.journal.size)

    @property
    def kernel_place(self) -> str:
        """Return the file or the URL of the kernel's state."""
        return self.serve.store or "kernel.db"

    @property
    def drain_ms(self) -> int:
        """Return how long the calls of a server may take when it ends."""
        return parse_duration_ms(self.serve.drain)

    @property
    def cache_path(self) -> Path | None:
        """Return the file of cached replies; None: there is none."""
        return Path(self.cache.path) if self.cache.path else None

    @property
    def cache_keep_ms(self) -> int:
        """Return how long a cached reply is given again."""
        return parse_duration_ms(self.cache.keep)

    @property
    def pins_path(self) -> Path:
        """Return the file of what was accepted of MCP servers."""
        return self.data_path / "mcp.pins.json"

    @property
    def traces_path(self) -> Path | None:
        """Return the file of traces that is read; None: there is none."""
        file = self.telemetry.sqlite or self.telemetry.jsonl
        return Path(file) if file else None

    @property
    def traces_keep_ms(self) -> int:
        """Return how long runs are kept in a SQLite file of traces."""
        return parse_duration_ms(self.telemetry.keep)

    @property
    def traces_bytes(self) -> int:
        """Return how large a file of JSON lines may become before it is set aside."""
        return parse_size(self.telemetry.size)

    @property
    def otlp_target(self) -> OtlpTarget | None:
        """Return where spans are sent; None: nowhere."""
        table = self.telemetry
        if not table.otlp:
            return None
        place = self.sources["telemetry.otlp"].place
        is_grpc = table.otlp.split("/")[2].endswith(_GRPC_PORT)
        named = {"service.name": table.service_name} if table.service_name else {}
        return OtlpTarget(
            table.otlp,
            table.otlp_protocol or (OtlpProtocol.GRPC if is_grpc else OtlpProtocol.HTTP),
            table.otlp_headers,
            table.resource_attributes | named,
            is_whole=place == TRACES_ENDPOINT,
            is_required=not place.startswith("OTEL_"),
        )

    @property
    def sockets_path(self) -> Path | None:
        """Return the folder of the sockets of running runtimes; None: there are none."""
        return Path(self.observable.sockets) if self.observable.sockets else None


# Each setting, its value as far as it may be shown, and where it came from.


_TABLES = Tables.__struct_fields__


class SettingRow(Struct, frozen=True):
    """A setting as it may be shown, and where it came from."""

    name: str
    value: str
    source: str


def explain(settings: Settings) -> list[SettingRow]:
    """Return each setting by name, its value without keys, headers and passwords, and its
    source."""
    tree = {table: plain(getattr(settings, table)) for table in _TABLES}
    return [
        SettingRow(name, _shown(settings, tree, parse_name(name)), str(source))
        for name, source in settings.sources.items()
    ]


def _shown(settings: Settings, tree: dict[str, Any], name: Name) -> str:
    if is_key(name):
        return repr(settings.key(name[1]))
    if name[2:3] == ("headers",) or name[:2] == ("telemetry", "otlp_headers"):
        return "…"
    value = reduce(getitem, name, cast("Any", tree))
    if is_secret(name):
        return hide_secrets_of_url(value) if "://" in value else value
    if isinstance(value, str):
        return value if value.isprintable() else ascii(value)
    return toml_of(value)
