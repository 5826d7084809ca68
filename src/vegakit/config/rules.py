"""Tables as the rules and prices that the runtime works with."""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, TypeVar

from msgspec import Struct

from vegakit.config.tables import (
    BudgetTable,
    LimitTable,
    LongInputPrices,
    PermissionsTable,
    PriceTable,
    Table,
)
from vegakit.config.texts import parse_backoff, parse_duration_ms, parse_rate
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

__all__ = ["Limits", "budget_rule", "limits_for", "permission_rules", "price_row"]

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


class Limits(Struct, frozen=True):
    """What holds for the calls to one model."""

    rate: RateRule
    retry: RetryRule
    retry_budget: RetryBudgetRule
    breaker: BreakerRule


def limits_for(tables: Mapping[str, LimitTable], model: str) -> Limits:
    """Each word from the narrowest of `provider:model`, `provider` and `default` that has it."""
    names = ("default", model.partition(":")[0], model)
    chosen = [tables[name] for name in names if name in tables]
    return Limits(
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
