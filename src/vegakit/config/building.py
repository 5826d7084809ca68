"""Checked values by name, put together; what is wrong only together is found here."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import asdict, fields

from vegakit.config.keys import KeyFinder
from vegakit.config.layers import Layer
from vegakit.config.names import Name, show_name
from vegakit.config.settings import Settings
from vegakit.config.sources import SourceKind
from vegakit.config.tables import PriceTable, Tables
from vegakit.errors import SettingsError, UserError

__all__ = ["settings_of"]


def settings_of(layer: Layer, environment: Mapping[str, str]) -> Settings:
    functions = {name[1]: layer[name].value for name in layer if callable(layer[name].value)}
    tree = _tree({name: s.value for name, s in layer.items() if not callable(s.value)})
    for model, table in tree.get("prices", {}).items():
        _check_complete(layer, ("prices", model), table)
    settings = Settings(
        **asdict(msgspec.convert(tree, Tables)),
        sources={show_name(name): layer[name].source for name in sorted(layer)},
        keys=KeyFinder(environment, functions),
    )
    _check_rules(settings, layer)
    return settings


def _tree(values: Mapping[Name, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for name, value in values.items():
        table = tree
        for word in name[:-1]:
            table = table.setdefault(word, {})
        table[name[-1]] = value
    return tree


def _check_complete(layer: Layer, name: Name, table: Mapping[str, Any]) -> None:
    for field in fields(PriceTable):
        if field.required and field.name not in table:
            raise SettingsError(
                f"{_place_of(layer, name)}: {show_name((*name, field.name))} is missing; "
                f'write {field.name} = "$2.50", in dollars per million tokens'
            )


def _check_rules(settings: Settings, layer: Layer) -> None:
    """Numbers that are right one by one may be wrong together; the rules themselves know."""
    for name in settings.limits:
        _check(layer, ("limits", name), lambda name=name: settings.limits_for(name))
    for model in settings.prices:
        _check(layer, ("prices", model), lambda model=model: settings.price(model))
    _check(layer, ("budget",), lambda: settings.budget_rule)
    _check(layer, ("permissions", "rules"), lambda: settings.permission_rules)


def _check(layer: Layer, name: Name, build: Callable[[], object]) -> None:
    try:
        build()
    except UserError as error:
        raise SettingsError(f"{_place_of(layer, name)}: {show_name(name)}: {error}") from error


def _place_of(layer: Layer, name: Name) -> str:
    sources = [setting.source for at, setting in layer.items() if at[: len(name)] == name]
    written = [source for source in sources if source.kind is not SourceKind.DEFAULT]
    return str((written or sources)[-1])
