"""From settings to the arguments of a runtime: the only place where its parts are joined."""

import re
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

from vegakit.config import Settings, environment_secrets
from vegakit.host import LimiterRules, PermissionPolicy
from vegakit.policy import PermissionMode
from vegakit.ports import Model
from vegakit.providers import ProviderAccess, build_model, provider_of
from vegakit.sdk.control_server import ControlServer
from vegakit.store import RetentionRule, SqliteAudit, SqliteJournal, SqliteLedger
from vegakit.telemetry import Redactor, open_sink


def runtime_arguments(settings: Settings) -> dict[str, Any]:
    """The arguments of `Runtime`."""
    redactor = Redactor(content=settings.telemetry.content)
    return {
        "budget": settings.budget_rule,
        "journal": user_journal(settings),
        "ledger": _ledger(settings),
        "trace": open_sink(settings, redactor),
        "limits": partial(_limiter_rules, settings),
        "models": _model_finder(settings, redactor),
        "view": _view(settings, redactor),
        "permissions": _permission_policy(settings),
        "audit": _audit(settings, redactor),
        "window": settings.window,
        "secrets": partial(_secrets, settings, redactor),
    }


def user_journal(settings: Settings) -> SqliteJournal | None:
    """The one that all runs of a user are recorded in, unless the settings say that none are."""
    path = settings.journal_path
    if path is None:
        return None
    keep = RetentionRule(settings.journal_keep_ms, settings.journal_bytes)
    return SqliteJournal(path, shared=True, keep=keep)


def _ledger(settings: Settings) -> SqliteLedger | None:
    """None: it is in the file of the journal, so that an answer is recorded and settled in one
    transaction."""
    shares = settings.ledger_path == settings.journal_path
    return None if shares else SqliteLedger(settings.ledger_path)


def _permission_policy(settings: Settings) -> PermissionPolicy | None:
    rules = settings.permission_rules
    if rules is None:
        return None
    mode = settings.permissions.mode or PermissionMode.ASK
    return PermissionPolicy(rules, mode, settings.answer_within_ms)


def _audit(settings: Settings, redactor: Redactor) -> SqliteAudit | None:
    """It hides the keys that this runtime has read."""
    path = settings.audit_path
    if path is None:
        return None
    path.parent.mkdir(parents=True, exist_ok=True)
    return SqliteAudit(path, redactor.redact_json)


def _view(settings: Settings, redactor: Redactor) -> ControlServer | bool:
    directory = settings.sockets_path
    if directory is None or not hasattr(socket, "AF_UNIX"):
        return False
    return ControlServer(directory, redactor)


def _secrets(settings: Settings, redactor: Redactor) -> dict[str, str]:
    """Keys that were read, and what variables hold that the settings name."""
    servers = settings.mcp.values()
    named = {variable for server in servers for variable in (*server.env, server.bearer or "")}
    return redactor.named() | environment_secrets(named)


def _key_name(provider: str) -> str:
    return re.sub(r"[^A-Z0-9_]", "_", f"{provider.upper()}_API_KEY")


def _limiter_rules(settings: Settings, model: str) -> LimiterRules:
    limits = settings.limits_for(model)
    return LimiterRules(limits.rate, limits.breaker, limits.retry_budget, limits.retry)


def _model_finder(settings: Settings, redactor: Redactor) -> Callable[[str], Model]:
    def find(name: str) -> Model:
        model = settings.model(name)
        provider = provider_of(model)
        table, source = settings.provider(provider), settings.key(provider)

        async def read_key() -> str:
            key = await source.read()
            redactor.add(key, _key_name(provider))
            return key

        access = ProviderAccess(
            read_key, table.base_url, table.headers, table.proxy, settings.price(model)
        )
        return build_model(model, access)

    return find
