"""From settings to the parts of a runtime; here they are joined, and nowhere else."""

import socket
from collections.abc import Callable
from functools import partial
from typing import Any

from vegakit.config import Settings
from vegakit.models import ProviderAccess, build_model, provider_of
from vegakit.policy import PermissionMode
from vegakit.ports import Model
from vegakit.runtime.lanes import LaneRules
from vegakit.runtime.oversight import Permitting
from vegakit.runtime.viewing import ViewServer
from vegakit.store import SqliteAudit, SqliteLedger
from vegakit.telemetry import Redactor, open_sink

__all__ = ["parts_from"]


def parts_from(settings: Settings) -> dict[str, Any]:
    """The arguments of `Runtime`."""
    redactor = Redactor(content=settings.telemetry.content)
    settings.ledger_path.parent.mkdir(parents=True, exist_ok=True)
    return {
        "budget": settings.budget_rule,
        "ledger": SqliteLedger(settings.ledger_path),
        "trace": open_sink(settings, redactor),
        "limits": partial(_lane_rules, settings),
        "models": _catalogue(settings, redactor),
        "view": _view(settings, redactor),
        "permissions": _permitting(settings),
        "audit": _audit(settings, redactor),
        "window": settings.window,
    }


def _permitting(settings: Settings) -> Permitting | None:
    rules = settings.permission_rules
    if rules is None:
        return None
    mode = settings.permissions.mode or PermissionMode.ASK
    return Permitting(rules, mode, settings.answer_within_ms)


def _audit(settings: Settings, redactor: Redactor) -> SqliteAudit | None:
    """It hides the keys that this runtime has read."""
    path = settings.audit_path
    if path is None:
        return None
    path.parent.mkdir(parents=True, exist_ok=True)
    return SqliteAudit(path, redactor.redact_json)


def _view(settings: Settings, redactor: Redactor) -> ViewServer | bool:
    directory = settings.sockets_path
    if directory is None or not hasattr(socket, "AF_UNIX"):
        return False
    return ViewServer(directory, redactor)


def _lane_rules(settings: Settings, model: str) -> LaneRules:
    limits = settings.limits_for(model)
    return LaneRules(limits.rate, limits.breaker, limits.retry_budget)


def _catalogue(settings: Settings, redactor: Redactor) -> Callable[[str], Model]:
    def find(name: str) -> Model:
        model = settings.model(name)
        provider = provider_of(model)
        table, source = settings.provider(provider), settings.key(provider)

        async def read_key() -> str:
            key = await source.read()
            redactor.add(key)
            return key

        access = ProviderAccess(
            read_key, table.base_url, table.headers, table.proxy, settings.price(model)
        )
        return build_model(model, access)

    return find
