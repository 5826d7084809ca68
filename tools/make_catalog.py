"""Writes src/vegakit/providers/catalog.json: prices, windows and features of the models we know.

python tools/make_catalog.py            write the file
python tools/make_catalog.py --check    exit 1 if the file is not what the installed libraries give

Prices and windows come from the list in genai-prices, features from pydantic-ai's profiles. A
profile is a function of a model's name: it is asked for every beginning of every known name, and
each beginning at which the answer changes becomes a rule. `catalog.py` says how the file is read.
"""

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias, cast

import genai_prices.data as price_list
from genai_prices import types as listed
from pydantic_ai.models import known_model_names
from pydantic_ai.profiles import DEFAULT_PROFILE
from pydantic_ai.providers._bedrock_model_names import (  # pyright: ignore[reportPrivateUsage]
    BEDROCK_GEO_PREFIXES,
)

FILE = Path(__file__).parents[1] / "src/vegakit/providers/catalog.json"
SOURCES = ("genai-prices", "pydantic-ai-slim")

Profile: TypeAlias = Mapping[str, Any]
ProfileOf: TypeAlias = Callable[[str], Profile | None]
Match: TypeAlias = "str | list[Match] | dict[str, list[Match]]"
Tiers: TypeAlias = list[list[Decimal | int]]


# Prices.


def prices_of(model: listed.ModelInfo) -> Tiers | dict[str, Tiers | None] | None:
    """Return the tiers of a model, or by the day from which they hold where the price changes."""
    constraints = (
        []
        if isinstance(model.prices, listed.ModelPrice)
        else [one.constraint for one in model.prices]
    )
    days = [date(1970, 1, 1)]
    times = [time(0, 0, tzinfo=UTC)]
    for one in constraints:
        if isinstance(one, listed.StartDateConstraint):
            days.append(one.start_date)
        elif isinstance(one, listed.TimeOfDateConstraint):
            times += [one.start_time, one.end_time]
    by_day: dict[str, Tiers | None] = {}
    for day in sorted(days):
        known = [model.get_prices(datetime.combine(day, hour)) for hour in times]
        tiers = most_expensive([_tiers(one) for one in known])
        if not by_day or tiers != [*by_day.values()][-1]:
            by_day[day.isoformat() if by_day else ""] = tiers
    return by_day if len(by_day) > 1 else by_day[""]


_SENT = ("input_mtok", "input_image_mtok")
_ANSWERED = ("output_mtok", "output_image_mtok", "output_audio_mtok", "output_video_mtok")


def _tiers(prices: listed.ModelPrice) -> Tiers | None:
    """Each is the size that it begins above, then input, output, cache read and cache write. A
    cache without a price costs what input costs; the standard tier of service is what calls ask
    for. Usage does not tell images, which are sent, from words, nor what a model that makes more
    than words has made: such a model costs what the most expensive of it costs."""
    if prices.input_mtok is None or prices.output_mtok is None:
        return None
    sent, answered = (
        [price for name in names if (price := getattr(prices, name, None)) is not None]
        for names in (_SENT, _ANSWERED)
    )
    four = (
        sent,
        answered,
        [prices.cache_read_mtok] if prices.cache_read_mtok else sent,
        [prices.cache_write_mtok] if prices.cache_write_mtok else sent,
    )
    tiered = [one for each in four for one in each if isinstance(one, listed.TieredPrices)]
    sizes = {tier.start for one in tiered for tier in one.tiers}
    return [
        [size, *(max(_at(one, size) for one in each) for each in four)]
        for size in sorted(sizes | {0})
    ]


def _at(price: Decimal | listed.TieredPrices, size: int) -> Decimal:
    if not isinstance(price, listed.TieredPrices):
        return price
    reached = [tier.price for tier in price.tiers if tier.start <= size]
    return reached[-1] if reached else price.base


def most_expensive(rows: list[Tiers | None]) -> Tiers | None:
    """Return the highest of prices that change with the hour: a row is kept for longer than one."""
    first = rows[0]
    if all(row == first for row in rows):
        return first
    known = [row for row in rows if row is not None]
    if len(known) < len(rows) or len({len(row) for row in known}) > 1:
        raise NotImplementedError("a price that changes with the hour changes its tiers too")
    return [
        [tiers[0][0], *(max(tier[i] for tier in tiers) for i in range(1, 5))]
        for tiers in zip(*known, strict=True)
    ]


_MARKS: tuple[tuple[type, str, str], ...] = (
    (listed.ClauseEquals, "equals", "="),
    (listed.ClauseStartsWith, "starts_with", "^"),
    (listed.ClauseEndsWith, "ends_with", "$"),
    (listed.ClauseContains, "contains", "*"),
)


def match_of(clause: Any) -> Match:  # noqa: ANN401
    """Return a clause as the file has it: a text after its mark, any of a list, or all of one."""
    if isinstance(clause, listed.ClauseOr):
        return [match_of(one) for one in clause.or_]
    if isinstance(clause, listed.ClauseAnd):
        return {"all": [match_of(one) for one in clause.and_]}
    if isinstance(clause, listed.ClauseRegex):
        return f"~{clause.regex}"
    for kind, field, mark in _MARKS:
        if isinstance(clause, kind):
            return mark + getattr(clause, field).lower()
    raise NotImplementedError(f"the list has a clause that is not known: {clause}")


def texts_of(match: Match) -> Iterator[str]:
    """Yield the names and beginnings of names in a match."""
    if isinstance(match, str):
        if match[0] in "=^*":
            yield match[1:]
        return
    for one in match["all"] if isinstance(match, dict) else match:
        yield from texts_of(one)


# Features.


def _provider(module: str, name: str) -> ProfileOf:
    return import_module(f"pydantic_ai.providers.{module}").__dict__[name].model_profile


def _bedrock() -> ProfileOf:
    """Its profiles need no AWS library, but its module imports one: empty ones stand in for it."""
    names = {
        "boto3": (),
        "botocore": (),
        "botocore.client": ("BaseClient",),
        "botocore.config": ("Config",),
        "botocore.exceptions": ("NoRegionError",),
        "botocore.session": ("Session",),
        "botocore.tokens": ("FrozenAuthToken",),
    }
    for name, needed in names.items():
        stand_in = ModuleType(name)
        for one in needed:
            setattr(stand_in, one, type(one, (), {}))
        sys.modules.setdefault(name, stand_in)
    return _provider("bedrock", "BedrockProvider")


def _google() -> ProfileOf:
    """What their provider hands on, without importing Google's library."""
    return import_module("pydantic_ai.profiles.google").google_model_profile


PROFILES: dict[str, Callable[[], ProfileOf]] = {
    "anthropic": partial(_provider, "anthropic", "AnthropicProvider"),
    "aws": _bedrock,
    "azure": partial(_provider, "azure", "AzureProvider"),
    "cerebras": partial(_provider, "cerebras", "CerebrasProvider"),
    "deepseek": partial(_provider, "deepseek", "DeepSeekProvider"),
    "fireworks": partial(_provider, "fireworks", "FireworksProvider"),
    "google": _google,
    "moonshotai": partial(_provider, "moonshotai", "MoonshotAIProvider"),
    "ollama": partial(_provider, "ollama", "OllamaProvider"),
    "openai": partial(_provider, "openai", "OpenAIProvider"),
    "ovhcloud": partial(_provider, "ovhcloud", "OVHcloudProvider"),
    "together": partial(_provider, "together", "TogetherProvider"),
    "zai": partial(_provider, "zai", "ZaiProvider"),
}
"""By the name of the provider in the list of prices."""

OTHER_ADAPTERS = {"anthropic", "aws", "google"}
"""All others speak Chat Completions, whose adapter drops sampling for models that reason."""

EFFORTS = frozenset({"low", "medium", "high"})
"""The words for how much to reason that we know."""

RENT_CLAUDE = {"azure", "google"}
"""Who serves it by the names and the API of Anthropic."""

_ARN = r"(?:arn:[^:]+:bedrock:[^:]*:[^:]*:(?:inference-profile|foundation-model)/)?"
_GEO = "|".join(re.escape(one) for one in sorted(BEDROCK_GEO_PREFIXES, key=len, reverse=True))
STRIPPED = {"aws": rf"^{_ARN}(?:(?:{_GEO})\.)?|-v\d+(?::\d+)?$", "google": r"^.*/"}
"""What is taken off a name before its features are looked up."""

PREFIXES = {
    "aws": ("bedrock",),
    "google": ("google", "google-cloud"),
    "openai": ("openai", "openai-chat"),
}
"""Prefixes of pydantic-ai's names, where they are not the provider's own."""

OTHER_NAMES = {
    "azure": "cohere-command-a deepseek-r1 deepseek-v3.1 grok-4 llama-4-maverick magistral-small "
    "meta-llama-3.3-70b-instruct ministral-3b mistral-large-3 mistralai-mixtral-8x7b phi-4",
    "ollama": "command-r deepseek-r1 deepseek-v3 gemma3 gemma4 glm-4.7 glm-5.3 gpt-oss:120b "
    "llama3.3 llama4 magistral mistral-small3.2 qwen2.5-coder qwen3 qwen3-coder qwen3.5 qwq",
}
"""Models that people run or rent themselves, of which the list of prices knows nothing."""


def flags_of(profile_of: ProfileOf, provider: str, name: str) -> str:
    """Return what a model takes: `j` for JSON by a schema, `t` for temperature; `r`: it reasons
    unless it is told not to; `e`: it is told how much by a word, `b`: by a number of tokens."""
    if provider in RENT_CLAUDE and name.startswith("claude"):
        return flags_of(PROFILES["anthropic"](), "anthropic", name)
    profile: Profile = {**DEFAULT_PROFILE, **(profile_of(name) or {})}
    reasons = profile.get("thinking_always_enabled") or profile.get("thinking_enabled_by_default")
    if provider == "google":  # their profiles do not say which think by default; nearly all do
        reasons = profile.get("supports_thinking")
    flags = "j" if profile.get("supports_json_schema_output") else ""
    flags += "t" if takes_temperature(profile, provider) else ""
    return flags + ("r" if reasons else "") + effort_of(profile, provider)


def effort_of(profile: Profile, provider: str) -> str:
    """Return how a model is told how much to reason, by the format that its provider is asked in:
    empty where it cannot be told."""
    if not profile.get("supports_thinking"):
        return ""
    if provider == "anthropic":
        return "e" if profile.get("anthropic_supports_adaptive_thinking") else "b"
    if provider == "google":
        return "e" if profile.get("google_supports_thinking_level") else "b"
    if provider == "aws":
        variant = profile.get("bedrock_thinking_variant")
        adaptive = profile.get("bedrock_supports_adaptive_thinking")
        return {"anthropic": "e" if adaptive else "b", "openai": "e"}.get(str(variant), "")
    if provider == "ollama":
        return "e"
    efforts = profile.get("openai_reasoning_efforts") or EFFORTS
    return "e" if profile.get("openai_supports_reasoning") and efforts >= EFFORTS else ""


def takes_temperature(profile: Profile, provider: str) -> bool:
    """Say if a model takes a temperature in a request that says nothing of reasoning."""
    refused = ("anthropic_disallows_sampling_settings", "bedrock_disallows_sampling_settings")
    if any(profile.get(word) for word in refused):
        return False
    if "temperature" in profile.get("openai_unsupported_model_settings", ()):
        return False
    if provider in OTHER_ADAPTERS or not profile.get("openai_supports_reasoning"):
        return True
    efforts = profile.get("openai_reasoning_efforts")
    can_stop = profile.get("openai_supports_reasoning_effort_none")
    if efforts is not None:
        can_stop = "none" in efforts
    return bool(can_stop) and not profile.get("thinking_enabled_by_default")


def prefix_rules(names: Iterable[str], flags: Callable[[str], str]) -> dict[str, str]:
    """Return flags by the beginning of a name; the longest that fits holds."""
    beginnings = {name[:size] for name in names for size in range(1, len(name) + 1)}
    rules = {"": flags("")}
    for one in sorted(beginnings):
        known = next(rules[one[:size]] for size in range(len(one), -1, -1) if one[:size] in rules)
        if (found := flags(one)) != known:
            rules[one] = found
    return rules


def names_for_features(provider: str, models: Iterable[listed.ModelInfo]) -> set[str]:
    """Return every name by which a model of a provider is known to the libraries."""
    names = {text for one in models for text in (one.id.lower(), *texts_of(match_of(one.match)))}
    prefixes = PREFIXES.get(provider, (provider,))
    for full in known_model_names():
        prefix, _, name = full.partition(":")
        if prefix in prefixes:
            names.add(name.lower())
    names |= {*OTHER_NAMES.get(provider, "").split()}
    return {re.sub(STRIPPED.get(provider, r"(?!)"), "", name) for name in names}


# The file.


def catalog(day: str) -> str:
    """Return the text of the file: a line for each model and each rule, so that a change shows."""
    providers = {one.id: one for one in price_list.providers}
    lines = ["{", f' "date": {_json(day)},']
    lines.append(f' "made_from": {_json({name: version(name) for name in SOURCES})},')
    others = {
        one.id: match_of(one.provider_match) for one in providers.values() if one.provider_match
    }
    lines.append(f' "other_names": {_json(others)},')
    lines.append(' "providers": {')
    lines.append(",\n".join(_entry(name, providers) for name in [*providers, "ollama"]))
    return "\n".join([*lines, " }", "}", ""])


def _entry(name: str, providers: Mapping[str, listed.Provider]) -> str:
    provider = providers.get(name) or listed.Provider(name, name, "")
    fallback = provider.fallback_model_providers or []
    parts: list[str] = []
    if fallback:
        parts.append(f'"fallback": {_json(fallback)}')
    if name in STRIPPED:
        parts.append(f'"strip": {_json(STRIPPED[name])}')
    if name in PROFILES:
        models = [
            model
            for one in (provider, *map(providers.get, fallback))
            if one
            for model in one.models
        ]
        flags = partial(flags_of, PROFILES[name](), name)
        rules = prefix_rules(names_for_features(name, models), flags)
        shown = ",\n    ".join(f"{_json(one)}: {_json(rules[one])}" for one in sorted(rules))
        parts.append(f'"features": {{\n    {shown}}}')
    rows = ",".join(f"\n    {_row(model)}" for model in provider.models)
    parts.append(f'"models": [{rows}]')
    return f"  {_json(name)}: {{\n   " + ",\n   ".join(parts) + "}"


def _row(model: listed.ModelInfo) -> str:
    match = match_of(model.match)
    row: list[Any] = [model.id, model.context_window, prices_of(model)]
    return _json(row if match == f"={model.id.lower()}" else [*row, match])


def _json(value: object) -> str:
    """As short as JSON can be; amounts are numbers with all of their digits."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_amount)
    return re.sub(r'"#([\d.]+)"', r"\1", text)


def _amount(value: object) -> str:
    amount = cast("Decimal", value)
    text = f"{amount:f}"
    return f"#{text.rstrip('0').rstrip('.') if '.' in text else text}"


def newest_day(today: date) -> str:
    """Return the last day that the list names and that has come: it is at least as new."""
    text = Path(price_list.__file__).read_text(encoding="utf-8")
    days = set(re.findall(r"\b20\d\d-[01]\d-[0-3]\d\b", text))
    return max(day for day in days if day <= today.isoformat())


def main() -> int:
    """Write or compare the file, and return the status. While the libraries stay the same, so does
    the day: else the file would change by itself."""
    written = FILE.read_text(encoding="utf-8") if FILE.exists() else "{}"
    known = json.loads(written)
    is_same = known.get("made_from") == {name: version(name) for name in SOURCES}
    day = known["date"] if is_same else newest_day(datetime.now(tz=UTC).date())
    text = catalog(day)
    if "--check" in sys.argv[1:]:
        if written == text:
            return 0
        print(f"{FILE.name} is not what the libraries give; type: python tools/make_catalog.py")
        return 1
    FILE.write_text(text, encoding="utf-8")
    print(f"{FILE}: {len(text):,} bytes, prices of {day}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
