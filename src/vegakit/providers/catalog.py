"""The models that are known by name: what they cost, which fields they take and how much they read.

The table is `catalog.json`, which `tools/make_catalog.py` writes from the list in genai-prices and
from pydantic-ai's profiles, so that neither is loaded to answer. Nothing is ever fetched. A model
is the first of its provider, or else of the providers that it falls back to, whose match fits its
name. A match is a text, any of a list, or `{"all": …}`:

| text    | fits a name that          |
|---------|---------------------------|
| `=text` | is it                     |
| `^text` | begins with it            |
| `$text` | ends with it              |
| `*text` | has it anywhere           |
| `~text` | this regex finds          |

The standard tier of service is what calls ask for, so its prices hold. A model that is not in the
table, or has no price for input or output, has no price. Where a price changes with the hour, the
table has the highest. Features are by the longest beginning of a name that has any; a provider
without features has models that answer in a shape only by calling a tool, which all of them can.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import ROUND_CEILING, Decimal
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import Struct, field

from vegakit.money import NANOS, Money
from vegakit.prices import PriceRow, PriceTier
from vegakit.wires import EffortForm, ModelFeatures

_Tiers: TypeAlias = list[tuple[int, Decimal, Decimal, Decimal, Decimal]]
_Prices: TypeAlias = _Tiers | dict[str, _Tiers | None] | None
"""Dollars per million tokens for input, output, cache read and cache write, each tier after the
size it begins above; or such tiers by the day from which they hold."""

_FILE = Path(__file__).with_name("catalog.json")
_COMPACT_DATE = re.compile(r"-(20\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?=-|:|$)")
_UNKNOWN = ModelFeatures(json_output=False)
_EFFORT_FORMS = {"e": EffortForm.LEVEL, "b": EffortForm.BUDGET}


def _regex_finds(name: str, regex: str) -> bool:
    return re.search(regex, name) is not None


_MARKS: Mapping[str, Callable[[str, str], bool]] = {
    "=": str.__eq__,
    "^": str.startswith,
    "$": str.endswith,
    "*": str.__contains__,
    "~": _regex_finds,
}


class _Model(Struct, frozen=True, array_like=True):
    """Without a match it is the model of this very name."""

    name: str
    context_tokens: int | None
    prices: msgspec.Raw
    match: Any = None

    def fits(self, name: str) -> bool:
        return _fits(self.match, name) if self.match else name == self.name.lower()


class _Provider(Struct, frozen=True):
    """`strip` finds what is no part of a model's name where its features are looked up."""

    models: list[_Model]
    fallback: list[str] = field(default_factory=list[str])
    strip: str = r"(?!)"
    features: dict[str, str] | None = None


class _Catalog(Struct, frozen=True):
    date: str
    made_from: dict[str, str]
    other_names: dict[str, Any]
    providers: dict[str, msgspec.Raw]


def listed_price(provider: str, model: str, *, day: date | None = None) -> PriceRow | None:
    """Return the price of a model by the table, on a day or today; None if the table does not know
    it."""
    listed = _find(provider, model)
    tiers = None if listed is None else _tiers_on(listed, day or datetime.now(tz=UTC).date())
    if tiers is None:
        return None
    return PriceRow(
        f"{provider}:{model}",
        tuple(
            PriceTier(*map(_money, amounts), above_input_tokens=size) for size, *amounts in tiers
        ),
    )


_RUNS_TOOLS = re.compile(
    r"search-(?:preview|api)|deep-research|(?:^|/|:)compound|sonar|[:-]online$"
)


def runs_provider_tools(model: str) -> bool:
    """Return whether a provider searches or runs something by itself when it is asked for this
    model. That is billed for each search, not by tokens, and no request says how many there are."""
    return _RUNS_TOOLS.search(model.lower()) is not None


def capped_price(provider: str, model: str) -> PriceRow | None:
    """Return the listed price of a model where it caps what a call can cost: not where the provider
    bills for more than tokens."""
    return None if runs_provider_tools(model) else listed_price(provider, model)


def features_of(provider: str, model: str) -> ModelFeatures:
    """Return which fields a model takes, and how much it reads at once."""
    listed = _find(provider, model)
    context_tokens = None if listed is None else listed.context_tokens
    name = _provider_id(provider)
    rules = None if name is None else _provider(name).features
    if name is None or rules is None:
        return msgspec.structs.replace(_UNKNOWN, context_tokens=context_tokens)
    short = re.sub(_provider(name).strip, "", model.lower())
    flags = next(rules[one] for one in _beginnings(short) if one in rules)
    effort = next((form for flag, form in _EFFORT_FORMS.items() if flag in flags), None)
    return ModelFeatures("j" in flags, "t" in flags, "r" in flags, context_tokens, effort=effort)


def known_models(provider: str) -> tuple[str, ...]:
    """Return the models of a provider that the table has a price for, in its order."""
    name = _provider_id(provider)
    models = [] if name is None else _provider(name).models
    return tuple(one.name for one in models if listed_price(provider, one.name) is not None)


def known_providers() -> tuple[str, ...]:
    """Return the providers of the table."""
    return tuple(_catalog().providers)


def catalog_date() -> date:
    """Return a day that the prices are at least as new as."""
    return date.fromisoformat(_catalog().date)


def catalog_sources() -> Mapping[str, str]:
    """Return the versions of the libraries that the table was made from."""
    return _catalog().made_from


# Which model a name means.


@cache
def _catalog() -> _Catalog:
    return msgspec.json.decode(_FILE.read_bytes(), type=_Catalog)


@cache
def _provider(name: str) -> _Provider:
    return msgspec.json.decode(_catalog().providers[name], type=_Provider)


@lru_cache(1_024)
def _provider_id(name: str) -> str | None:
    """By its own name, or else the first whose match fits."""
    name = name.lower().strip()
    if name in _catalog().providers:
        return name
    others = _catalog().other_names.items()
    return next((one for one, match in others if _fits(match, name)), None)


@lru_cache(1_024)
def _find(provider: str, model: str) -> _Model | None:
    """Gateways write a date without dashes, which is tried only when nothing else fits."""
    name = _provider_id(provider)
    if name is None:
        return None
    model = model.lower()
    spelled = _COMPACT_DATE.sub(r"-\1-\2-\3", model)
    found = _first(name, model)
    return found if found is not None or spelled == model else _first(name, spelled)


def _first(provider: str, model: str) -> _Model | None:
    fallback = _provider(provider).fallback
    return next(
        (
            one
            for name in (provider, *fallback)
            for one in _provider(name).models
            if one.fits(model)
        ),
        None,
    )


def _fits(match: Any, name: str) -> bool:  # noqa: ANN401
    if isinstance(match, str):
        return _MARKS[match[0]](name, match[1:])
    if isinstance(match, list):
        return any(_fits(one, name) for one in cast("list[Any]", match))
    return all(_fits(one, name) for one in match["all"])


def _beginnings(name: str) -> Iterator[str]:
    return (name[:size] for size in range(len(name), -1, -1))


# What it costs.


def _tiers_on(model: _Model, day: date) -> _Tiers | None:
    """A day from which a price holds is written as ISO 8601 has it, so texts compare as days."""
    prices: _Prices = msgspec.json.decode(model.prices, type=_Prices)
    if not isinstance(prices, dict):
        return prices
    return prices[max(start for start in prices if start <= day.isoformat())]


def _money(amount: Decimal) -> Money:
    """Nano-dollars, rounded up."""
    return Money(int((amount * NANOS).to_integral_value(ROUND_CEILING)))


def saves_by_cache(price: PriceRow | None) -> bool:
    """Return whether reading from a cache is cheaper than input by the price that holds. Of a price
    that says nothing about caches nobody knows what writing to one would cost."""
    return price is not None and all(tier.cache_read < tier.input for tier in price.tiers)
