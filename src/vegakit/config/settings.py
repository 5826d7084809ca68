"""All settings of one run, frozen, each with the place it came from."""

from pathlib import Path

from vegakit.config.keys import KeyFinder, KeySource
from vegakit.config.rules import Limits, budget_rule, limits_for, price_row
from vegakit.config.sources import Source
from vegakit.config.tables import ProviderTable, Tables
from vegakit.policy import ScopeRule
from vegakit.prices import PriceRow

__all__ = ["Settings"]


class Settings(Tables, frozen=True, kw_only=True):
    """Made by `load`. Holds no key, and knows how to read one."""

    sources: dict[str, Source]
    """By dotted name, such as `budget.default`."""
    keys: KeyFinder

    def model(self, name: str) -> str:
        """What an alias stands for; any other name stands for itself."""
        return self.models.get(name, name)

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
    def data_path(self) -> Path:
        return Path(self.data_dir or ".vega")

    @property
    def ledger_path(self) -> Path:
        return Path(self.ledger.path or "ledger.db")

    @property
    def traces_path(self) -> Path | None:
        return Path(self.telemetry.jsonl) if self.telemetry.jsonl else None
