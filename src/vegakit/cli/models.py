"""`vega models`: the models that are known by name, what they cost and how much they read.

No provider's library is loaded and nothing is asked: prices are those of the table that comes with
Vega, and those that the settings write, which go first.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from typing import Any

from msgspec import Struct

from vegakit.cli.look import (
    PIPE,
    Cell,
    Column,
    Look,
    Tone,
    count,
    look_of,
    one_line,
    print_json,
    table,
)
from vegakit.cli.main import JSON, Argument, CommandParser
from vegakit.config import Settings, explain, load
from vegakit.errors import SettingsError, UserError, did_you_mean
from vegakit.money import Money, format_money, to_usd
from vegakit.prices import PriceRow, PriceTier
from vegakit.providers import (
    capped_price,
    catalog_date,
    check_provider_tables,
    features_of,
    known_models,
    known_providers,
    provider_names,
    provider_of,
)
from vegakit.wires import ModelFeatures

_OLD_DAYS = 120
_LIST = "list"
_AMOUNTS = ("input", "output", "cache_read", "cache_write")
_COLUMNS = (
    Column("Model"),
    Column("Above", right=True),
    Column("Input", right=True),
    Column("Output", right=True),
    Column("Cache read", right=True, drop=1),
    Column("Cache write", right=True, drop=2),
    Column("Window", right=True, drop=3),
    Column("Price from", drop=4),
)


class KnownModel(Struct, frozen=True):
    """A model as it is shown. `source` says where its price is written, `aliases` are the names
    that the settings give it."""

    name: str
    provider: str
    price: PriceRow
    features: ModelFeatures
    source: str = _LIST
    aliases: tuple[str, ...] = ()


def models_command(arguments: Sequence[str]) -> int:
    """Run `vega models`."""
    chosen = CommandParser(
        prog="vega models",
        description="List the models that are known by name: dollars per million tokens, and how "
        "many tokens they read at once. Asks nobody. What vega.toml says of a price goes first.",
        arguments=[
            Argument("--provider", metavar="NAME", help="of this provider only"),
            JSON,
        ],
    ).parse_args(arguments)
    settings, today = load(), datetime.now(tz=UTC).date()
    check_provider_tables(settings)
    models = list(priced_models(settings, _providers(chosen.provider)))
    if chosen.json:
        print_json(_as_json(models, today))
    else:
        look = look_of(sys.stdout)
        print(render_models(models, look))
        print("\n" + "\n".join(look.fold(price_age(today))))
    return 0


def _providers(wanted: str | None) -> tuple[str, ...]:
    if wanted is None:
        return provider_names()
    if wanted not in provider_names() and wanted not in known_providers():
        names = sorted({*provider_names(), *known_providers()})
        raise UserError(f"there is no provider {one_line(wanted)!r}; {did_you_mean(wanted, names)}")
    return (wanted,)


def priced_models(settings: Settings, providers: Sequence[str]) -> Iterator[KnownModel]:
    """Yield the models of providers that have a price, those of the settings last."""
    aliases: dict[str, tuple[str, ...]] = {}
    for alias in sorted(settings.models):
        for name in settings.models_of(alias):
            aliases[name] = (*aliases.get(name, ()), alias)
    shown: set[str] = set()
    for provider in providers:
        for model in known_models(provider):
            name = f"{provider}:{model}"
            own, listed = settings.price(name), capped_price(provider, model)
            shown.add(name)
            if price := own or listed:
                yield KnownModel(
                    name,
                    provider,
                    price,
                    features_of(provider, model),
                    _source(settings, name) if own else _LIST,
                    aliases.get(name, ()),
                )
    for name in sorted({*settings.prices} - shown):
        provider, price = _provider_of(name), settings.price(name)
        if price and (provider in providers or provider is None):
            model = name.partition(":")[2] or name
            features = features_of(provider or "", model)
            source = _source(settings, name)
            yield KnownModel(name, provider or "", price, features, source, aliases.get(name, ()))


def _provider_of(name: str) -> str | None:
    try:
        return provider_of(name)
    except SettingsError:
        return None


def _source(settings: Settings, model: str) -> str:
    """The place that a price is written in, which may be under a bare word or a quoted one."""
    starts = (f"prices.{json.dumps(model)}.", f"prices.{model}.")
    return next((row.source for row in explain(settings) if row.name.startswith(starts)), "set")


def price_age(today: date) -> str:
    """Return how old the prices of the table are, for people."""
    day = catalog_date()
    days = max(0, (today - day).days)
    told = f"dollars per million tokens; the list is of {day}, {count(days, 'day')} old"
    return f"{told}; a newer Vega has a newer list" if days > _OLD_DAYS else told


def render_models(models: Sequence[KnownModel], look: Look = PIPE) -> str:
    """Return the models as a table, a line for each tier of a price. What the settings say stands
    out. A price per million tokens is shown with all its digits: it is multiplied."""
    return table(_COLUMNS, [row for model in models for row in _rows(model)], look)


def _rows(model: KnownModel) -> Iterator[tuple[Cell | str, ...]]:
    window = model.features.context_tokens
    alias = f" ({', '.join(model.aliases)})" if model.aliases else ""
    tone = Tone.STRONG if model.source != _LIST or model.aliases else Tone.PLAIN
    for number, tier in enumerate(model.price.tiers):
        yield (
            Cell(one_line(f"{model.name}{alias}") if number == 0 else "", tone),
            f"{tier.above_input_tokens:,}" if tier.above_input_tokens else "",
            *(format_money(Money(getattr(tier, word))) for word in _AMOUNTS),
            f"{window:,}" if window and number == 0 else "",
            one_line(model.source) if number == 0 else "",
        )


def _as_json(models: Sequence[KnownModel], today: date) -> dict[str, Any]:
    day = catalog_date()
    return {
        "prices_of": day.isoformat(),
        "age_days": max(0, (today - day).days),
        "models": [
            {
                "model": one.name,
                "provider": one.provider,
                "aliases": [*one.aliases],
                "price_from": one.source,
                "per_call_usd": to_usd(one.price.per_call),
                "tiers": [_tier(tier) for tier in one.price.tiers],
                "context_tokens": one.features.context_tokens,
                "json_output": one.features.json_output,
                "temperature": one.features.temperature,
                "reasons": one.features.reasons,
            }
            for one in models
        ],
    }


def _tier(tier: PriceTier) -> dict[str, float | None]:
    amounts = {f"{word}_usd": to_usd(getattr(tier, word)) for word in _AMOUNTS}
    return {"above_input_tokens": tier.above_input_tokens, **amounts}
