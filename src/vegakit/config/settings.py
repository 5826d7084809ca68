"""All settings of one run, frozen, each with the place it came from."""

from pathlib import Path

from vegakit.config.keys import KeyFinder, KeySource
from vegakit.config.names import show_name
from vegakit.config.rules import (
    Limits,
    budget_rule,
    limits_for,
    permission_rules,
    price_row,
)
from vegakit.config.sources import Source, SourceKind
from vegakit.config.tables import ProviderTable, Tables
from vegakit.config.texts import parse_duration_ms, parse_size
from vegakit.policy import PermissionRule, ScopeRule
from vegakit.prices import PriceRow

__all__ = ["Settings"]

_FILES = {SourceKind.USER, SourceKind.PROJECT}


class Settings(Tables, frozen=True, kw_only=True):
    """Made by `load`. Holds no key, and knows how to read one."""

    sources: dict[str, Source]
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

    def limits_for(self, model: str) -> Limits:
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
