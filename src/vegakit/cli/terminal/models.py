"""Find which model a name stands for, what it costs, and whether it can be asked: by the settings
alone, nobody is asked."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from vegakit.cli.doctor import provider_finding
from vegakit.cli.look import Sign, Tone, count
from vegakit.cli.models import KnownModel, priced_models
from vegakit.cli.terminal.screens import Choice
from vegakit.config import Settings, load
from vegakit.errors import SettingsError
from vegakit.money import Money, format_money
from vegakit.providers import provider_names, provider_of

_KEYLESS = "no key"


class NamedModel(NamedTuple):
    """A model as the screen tells it. `real` is what is asked, `price` what a million tokens in and
    out cost, if that is known, and `problem` why it cannot be asked, with what to do."""

    real: str
    price: str = ""
    problem: str = ""


def read_settings(folder: Path) -> Settings:
    """Return the settings that a session of a folder has."""
    return load({"journal.enabled": True}, directory=folder)


def model_named(settings: Settings, name: str) -> NamedModel:
    """Return what a name stands for: the first model that is asked."""
    real, *others = settings.models_of(name)
    provider = _provider(real)
    known = {one.name: one for one in priced_models(settings, (provider,) if provider else ())}
    price = _price(known[real]) if real in known else ""
    more = f" (and {count(len(others), 'model')} if it is not available)" if others else ""
    return NamedModel(real, price + more, _problem(settings, provider))


def _provider(model: str) -> str:
    try:
        return provider_of(model)
    except SettingsError:
        return ""


def _problem(settings: Settings, provider: str) -> str:
    found = provider_finding(settings, provider) if provider in provider_names() else None
    if found is None or found.is_well is not False or not found.fix:
        return ""
    return (
        f"{provider} cannot be asked: {found.told}. Leave with Ctrl-Q, type {found.fix} and start "
        "again; or choose a model of another provider: /model"
    )


def _price(model: KnownModel) -> str:
    first = model.price.tiers[0]
    given, taken = (format_money(Money(one)) for one in (first.input, first.output))
    return f"{given} in, {taken} out"


def model_choices(settings: Settings, current: str) -> list[Choice]:
    """Return the models to choose from: by their names in the settings, then those of providers
    that have a key, then the others."""
    rows = [*_aliases(settings), *_known(settings)]
    wide = max(len(name) for name, _ in rows) + 2
    mark = {True: str(Sign.DONE), False: " "}
    return [
        Choice(name, f"{name:<{wide}}{told}", "", mark[name == current], Tone.OK)
        for name, told in rows
    ]


def _aliases(settings: Settings) -> Iterator[tuple[str, str]]:
    for alias in sorted(settings.models):
        found = model_named(settings, alias)
        told = (found.real, found.price, _KEYLESS if found.problem else "")
        yield alias, " · ".join(filter(None, told))


def _known(settings: Settings) -> list[tuple[str, str]]:
    keyless = {one for one in provider_names() if _problem(settings, one)}
    models = sorted(
        priced_models(settings, provider_names()), key=lambda one: one.provider in keyless
    )
    return [
        (one.name, _price(one) + (f" · {_KEYLESS}" if one.provider in keyless else ""))
        for one in models
    ]
