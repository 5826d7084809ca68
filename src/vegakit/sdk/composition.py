"""Settings become the arguments of a runtime here, in the only place where its parts are joined."""

import re
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

from vegakit.config import Settings, environment_secrets
from vegakit.host import LimiterRules, PermissionPolicy
from vegakit.policy import PermissionMode
from vegakit.ports import Journal, Ledger, Model
from vegakit.providers import ProviderAccess, build_model, key_formats, provider_of
from vegakit.sdk.control_server import ControlServer
from vegakit.store import RetentionRule, SqliteAudit, open_journal, open_ledger
from vegakit.telemetry import Redactor, open_sink


def runtime_arguments(settings: Settings) -> dict[str, Any]:
    """The arguments of `Runtime`."""
    redactor = Redactor(content=settings.telemetry.content, formats=key_formats())
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


def user_journal(settings: Settings) -> Journal | None:
    """The one that all runs of a user are recorded in, unless the settings say that none are."""
    if not settings.journal.enabled:
        return None
    keep = RetentionRule(settings.journal_keep_ms, settings.journal_bytes)
    return open_journal(settings.journal_place, shared=True, keep=keep)


def _ledger(settings: Settings) -> Ledger | None:
    """Return None if the ledger is where the journal is, so that an answer is recorded and settled
    in one transaction."""
    shares = settings.journal.enabled and settings.ledger_place == settings.journal_place
    return None if shares else open_ledger(settings.ledger_place)


def _permission_policy(settings: Settings) -> PermissionPolicy | None:
    rules = settings.permission_rules
    if rules is None:
        return None
    mode = settings.permissions.mode or PermissionMode.ASK
    return PermissionPolicy(rules, mode, settings.answer_within_ms)


def _audit(settings: Settings, redactor: Redactor) -> SqliteAudit | None:
    """Return the audit of the settings; it hides the keys that this runtime has read."""
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
    """Return the keys that were read, and the values of the variables that the settings name."""
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
