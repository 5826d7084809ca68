"""`vega models`: the models that are known by name, what they cost and how much they read.

No provider's library is loaded and nothing is asked: prices are those of the table that comes with
Vega, and those that the settings write, which go first.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from typing import Any

from msgspec import Struct

from vegakit.cli.display import PLAIN, one_line, terminal_width
from vegakit.config import Settings, explain, load, wants_colour
from vegakit.errors import SettingsError, UserError
from vegakit.money import NANOS, Money, format_money
from vegakit.prices import PriceRow, PriceTier
from vegakit.providers import (
    catalog_date,
    features_of,
    known_models,
    known_providers,
    listed_price,
    provider_names,
    provider_of,
)
from vegakit.wires import ModelFeatures

_BOLD, _DIM = "\x1b[1m", "\x1b[2m"
_OLD_DAYS = 120
_LIST = "list"
_GAP = "  "
_AMOUNTS = ("input", "output", "cache_read", "cache_write")
_HEAD = ("MODEL", "ABOVE", "INPUT", "OUTPUT", "CACHE READ", "CACHE WRITE", "WINDOW", "PRICE FROM")
_TEXTS = {"MODEL", "PRICE FROM"}


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
    chosen = _parser().parse_args(arguments)
    settings, today = load(), datetime.now(tz=UTC).date()
    models = list(priced_models(settings, _providers(chosen.provider)))
    if chosen.json:
        print(json.dumps(_as_json(models, today), indent=2, ensure_ascii=False))
    else:
        width = terminal_width(sys.stdout)
        print(table(models, colour=wants_colour(sys.stdout), width=width))
        print(f"\n{price_age(today)}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vega models",
        description="List the models that are known by name: dollars per million tokens, and how "
        "many tokens they read at once. Asks nobody. What vega.toml says of a price goes first.",
    )
    parser.add_argument("--provider", metavar="NAME", help="of this provider only")
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")
    return parser


def _providers(wanted: str | None) -> tuple[str, ...]:
    if wanted is None:
        return provider_names()
    if wanted not in provider_names() and wanted not in known_providers():
        names = ", ".join(sorted({*provider_names(), *known_providers()}))
        raise UserError(f"there is no provider {one_line(wanted)!r}; there are: {names}")
    return (wanted,)


def priced_models(settings: Settings, providers: Sequence[str]) -> Iterator[KnownModel]:
    """Yield the models of providers that have a price, those of the settings last."""
    aliases: dict[str, tuple[str, ...]] = {}
    for alias, name in sorted(settings.models.items()):
        aliases[name] = (*aliases.get(name, ()), alias)
    shown: set[str] = set()
    for provider in providers:
        for model in known_models(provider):
            name = f"{provider}:{model}"
            own, listed = settings.price(name), listed_price(provider, model)
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
    told = f"dollars per million tokens; the list is of {day}, {days} {_plural(days)} old"
    return f"{told}; a newer Vega has a newer list" if days > _OLD_DAYS else told


def _plural(days: int) -> str:
    return "day" if days == 1 else "days"


def table(models: Sequence[KnownModel], *, colour: bool = False, width: int | None = None) -> str:
    """Return the models as a table, a line for each tier of a price. `width` leaves the last
    columns out for which there is no room."""
    rows = [_HEAD, *(row for model in models for row in _rows(model))]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEAD))]
    columns = _fitting(widths, width)
    lines = [
        _GAP.join(
            row[i].ljust(widths[i]) if _HEAD[i] in _TEXTS else row[i].rjust(widths[i])
            for i in range(columns)
        ).rstrip()
        for row in rows
    ]
    if not colour:
        return "\n".join(lines)
    marks = [_DIM, *(_mark(model) for model in models for _ in model.price.tiers)]
    return "\n".join(
        f"{mark}{line}{PLAIN}" if mark else line for mark, line in zip(marks, lines, strict=True)
    )


def _fitting(widths: Sequence[int], width: int | None) -> int:
    columns = len(widths)
    while width is not None and columns > 4 and _total(widths[:columns]) > width:
        columns -= 1
    return columns


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _mark(model: KnownModel) -> str:
    """What the settings say stands out."""
    return _BOLD if model.source != _LIST or model.aliases else ""


def _rows(model: KnownModel) -> Iterator[tuple[str, ...]]:
    window = model.features.context_tokens
    alias = f" ({', '.join(model.aliases)})" if model.aliases else ""
    for number, tier in enumerate(model.price.tiers):
        yield (
            one_line(f"{model.name}{alias}") if number == 0 else "",
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
                "per_call_usd": one.price.per_call / NANOS,
                "tiers": [_tier(tier) for tier in one.price.tiers],
                "context_tokens": one.features.context_tokens,
                "json_output": one.features.json_output,
                "temperature": one.features.temperature,
                "reasons": one.features.reasons,
            }
            for one in models
        ],
    }


def _tier(tier: PriceTier) -> dict[str, float]:
    amounts = {f"{word}_usd": getattr(tier, word) / NANOS for word in _AMOUNTS}
    return {"above_input_tokens": tier.above_input_tokens, **amounts}
