"""Settings become the arguments of a runtime here, in the only place where its parts are joined."""

import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from os import PathLike
from threading import Lock
from typing import TYPE_CHECKING, Any, TypedDict

from msgspec import structs

from vegakit.config import (
    LogFormat,
    OnCutOff,
    PromptCache,
    ResumeTarget,
    Settings,
    UserBudget,
    environment_secrets,
    load,
)
from vegakit.errors import SettingsError
from vegakit.host import Agent, LimiterRules, Limits, PermissionPolicy, mode_of, rule_of
from vegakit.money import dollars
from vegakit.policy import OnExceed, PermissionMode, RateRule, ScopeRule, Secrets
from vegakit.ports import Audit, Clock, Journal, Ledger, Memory, Model, Sink, Store
from vegakit.program import DEFAULT_WINDOW, Bounds
from vegakit.providers import (
    ProviderAccess,
    build_model,
    check_provider_tables,
    key_formats,
    parts_of_agent,
    provider_of,
)
from vegakit.sdk.control_server import ControlServer
from vegakit.store import ReplyCache, RetentionRule, SqliteAudit, open_journal, open_ledger
from vegakit.telemetry import Redactor, open_sink

if TYPE_CHECKING:
    from vegakit.sdk.monitoring import Observer


class RuntimeOptions(TypedDict, total=False):
    """The arguments of `Runtime` by name, which `Runtime.from_config` takes, too: what is given
    replaces what the settings say."""

    budget: str | float | ScopeRule | None
    name: str
    ledger: Ledger | str | PathLike[str] | None
    trace: Sink | None
    limits: Limits | None
    models: Callable[[str], Model | tuple[Model, ...]] | None
    clock: Clock | None
    journal: Journal | str | PathLike[str] | None
    cache: ReplyCache | str | PathLike[str] | None
    on_exceed: str
    memory: Memory | None
    bounds: Bounds | None
    lookahead: int | None
    observable: bool | ControlServer
    permissions: PermissionPolicy | Sequence[str] | None
    mode: str | None
    audit: Audit | str | PathLike[str] | None
    store: Store | None
    pins: str | PathLike[str] | None
    sandbox: str
    lease_ms: int
    secrets: Callable[[], Secrets]
    user_budget: Callable[[], UserBudget | None]
    observers: "Sequence[Observer]"
    keeps_budget: bool
    resume: ResumeTarget | None
    on_cut_off: OnCutOff | str | None


def runtime_arguments(settings: Settings, options: RuntimeOptions | None = None) -> dict[str, Any]:
    """The arguments of `Runtime`: the options that are given, and the settings for the rest. What
    an option replaces is not made, so that no file is opened which nobody uses."""
    given: dict[str, Any] = {**(options or {})}
    redactor = Redactor(content=settings.telemetry.content, formats=key_formats())
    _complete(given, settings)
    made: Mapping[str, Callable[[], Any]] = {
        "budget": lambda: settings.budget_rule,
        "journal": lambda: user_journal(settings),
        "cache": lambda: _cache(settings),
        "ledger": lambda: _ledger(settings, given["budget"], given.get("journal", "") is not None),
        "trace": lambda: open_sink(settings, redactor),
        "limits": lambda: partial(_limiter_rules, settings),
        "models": lambda: _model_finder(settings, redactor),
        "observable": lambda: _control_server(settings, redactor),
        "permissions": lambda: _permission_policy(settings, given.get("mode")),
        "audit": lambda: _audit(settings, redactor),
        "bounds": lambda: _bounds(settings, given.get("lookahead")),
        "secrets": lambda: partial(_secrets, settings, redactor),
        "user_budget": lambda: lambda: settings.user_budget,
        "observers": lambda: [*_observers(settings, redactor)],
        "on_cut_off": lambda: settings.budget.on_cut_off,
    }
    return {name: make() for name, make in made.items() if name not in given} | given


def _complete(given: dict[str, Any], settings: Settings) -> None:
    """Join the options that change one part of what a setting says."""
    given.setdefault("keeps_budget", "budget" not in given)
    on_exceed = OnExceed(given.pop("on_exceed", settings.budget.on_exceed))
    if "budget" in given:
        given["budget"] = rule_of(given["budget"], on_exceed)
    else:
        given["budget"] = structs.replace(settings.budget_rule, on_exceed=on_exceed)
    if given.get("observable") is True:
        # Asked for here, so it is opened in the usual place even if the settings name none.
        del given["observable"]
        if settings.sockets_path is None:
            given["observable"] = True


class NamedModels:
    """The models that settings name, for a runtime that was made without settings: `vega.toml` and
    `VEGA_*` are read when an agent first names one. So `Agent(model="fast")` works in a plain
    `Runtime()`, with the price and the limits of that model."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._settings: Settings | None = None
        self._rules: dict[str, LimiterRules] = {}
        self._reading = Lock()

    def names_of(self, name: str) -> tuple[str, ...]:
        """Return the models of an alias."""
        return self._read().models_of(name)

    def _read(self) -> Settings:
        with self._reading:
            self._settings = self._settings or load()
        return self._settings

    def __call__(self, name: str) -> tuple[Model, ...]:
        """Return the models that a name stands for, in order. Models are built in threads."""
        settings = self._read()
        models = _model_finder(settings, self._redactor)(name)
        self._rules |= {one.name: _limiter_rules(settings, one.name) for one in models}
        return models

    def limits(self, model: str) -> LimiterRules:
        """Return the rules of a model: those of the settings if they named it, none for a model
        that is an object of the program."""
        return self._rules.get(model) or LimiterRules(RateRule())


def user_journal(settings: Settings) -> Journal | None:
    """The one that all runs of a user are recorded in, unless the settings say that none are."""
    if not settings.journal.enabled:
        return None
    keep = RetentionRule(settings.journal_keep_ms, settings.journal_bytes)
    return open_journal(settings.journal_place, shared=True, keep=keep)


def _ledger(settings: Settings, budget: ScopeRule, is_recorded: bool) -> Ledger | None:
    """Return None if the ledger is where the journal is, so that an answer is recorded and settled
    in one transaction. Of a run that is recorded nowhere the cap is its own, too: only a budget
    with a period, or a ledger that the settings name, is there for other runs as well."""
    shares = settings.ledger_place == settings.journal_place
    if not (is_recorded and settings.journal.enabled):
        shares = shares and budget.period is None
    return None if shares else open_ledger(settings.ledger_place)


def _cache(settings: Settings) -> ReplyCache | None:
    path = settings.cache_path
    if path is None:
        return None
    return ReplyCache(path, keep_ms=settings.cache_keep_ms, entries=settings.cache.entries)


def _permission_policy(settings: Settings, given: str | None) -> PermissionPolicy | None:
    rules = settings.permission_rules
    if rules is None and given is None:
        return None
    mode = mode_of(given) if given else settings.permissions.mode or PermissionMode.ASK
    return PermissionPolicy(rules or (), mode, settings.answer_within_ms)


def _audit(settings: Settings, redactor: Redactor) -> SqliteAudit | None:
    """Return the audit of the settings; it hides the keys that this runtime has read."""
    path = settings.audit_path
    if path is None:
        return None
    path.parent.mkdir(parents=True, exist_ok=True)
    return SqliteAudit(path, redactor.redact_json)


def _control_server(settings: Settings, redactor: Redactor) -> ControlServer | bool:
    directory = settings.sockets_path
    if directory is None or not hasattr(socket, "AF_UNIX"):
        return False
    return ControlServer(directory, redactor)


def _observers(settings: Settings, redactor: Redactor) -> "Iterator[Observer]":
    table = settings.telemetry
    if table.logs or table.prometheus:
        from vegakit.sdk.monitoring import MetricsServer, RuntimeLog

        if table.logs:
            yield RuntimeLog(redactor, table.level, json=table.logs is LogFormat.JSON)
        if table.prometheus:
            yield MetricsServer(table.prometheus)


def _bounds(settings: Settings, lookahead: int | None) -> Bounds:
    table = settings.bounds
    guesses = settings.speculate
    chosen = settings.lookahead if lookahead is None else lookahead
    return Bounds(
        table.depth,
        table.width,
        table.living,
        table.repeats,
        window=DEFAULT_WINDOW if chosen is None else chosen,
        paid_repeats=table.paid_repeats,
        guesses=None if guesses.limit is None else dollars(guesses.limit),
        agent_guesses={name: dollars(limit) for name, limit in guesses.agents.items()},
    )


def _secrets(settings: Settings, redactor: Redactor) -> dict[str, str]:
    """Return the keys that were read, and the values of the variables that the settings name."""
    servers = settings.mcp.values()
    named = {variable for server in servers for variable in (*server.env, server.bearer or "")}
    return redactor.named() | environment_secrets(named)


def _key_name(provider: str) -> str:
    return re.sub(r"[^A-Z0-9_]", "_", f"{provider.upper()}_API_KEY")


def _limiter_rules(settings: Settings, model: str) -> LimiterRules:
    try:
        provider = provider_of(model)
    except SettingsError:  # a model of the program's own
        provider = ""
    limits = settings.limits_for(model, provider)
    return LimiterRules(limits.rate, limits.breaker, limits.retry_budget, limits.retry)


class ModelFinder:
    """Finds models by name as settings have them."""

    def __init__(self, settings: Settings, find_all: Callable[[str], tuple[Model, ...]]) -> None:
        self._find_all = find_all
        self.names_of = settings.models_of

    def __call__(self, name: str) -> tuple[Model, ...]:
        return self._find_all(name)


def _model_finder(settings: Settings, redactor: Redactor) -> ModelFinder:
    check_provider_tables(settings)

    def find(model: str) -> Model:
        provider = provider_of(model)
        table, source = settings.provider(provider), settings.key(provider)

        async def read_key() -> str:
            key = await source.read()
            redactor.add(key, _key_name(provider))
            return key

        access = ProviderAccess(
            read_key,
            table.base_url,
            table.headers,
            table.proxy,
            settings.price(model),
            table.ca_bundle,
            cache=table.cache is PromptCache.AUTO,
        )
        return build_model(model, access)

    def find_all(name: str) -> tuple[Model, ...]:
        try:
            return tuple(map(find, settings.models_of(name)))
        except SettingsError as error:
            raise settings.unknown_model(name, error) from None

    return ModelFinder(settings, find_all)


# An agent of another library as one of ours.


def adopt(agent: object, *, name: str = "", model: str = "") -> Agent[Any]:
    """Return an agent of pydantic-ai as one of Vega's: the same model, instructions, tools and
    output type, under the gate and within budgets. Give it a `name` if it has none, and a `model`
    to ask another one. What cannot be carried over is a `UserError` that names all of it. A
    function that takes a `RunContext` finds what `rt.ask(…, deps=…)` is given as `ctx.deps`."""
    return Agent(**parts_of_agent(agent, name=name, model=model)._asdict())
