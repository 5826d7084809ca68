"""Each setting, its value as far as it may be shown, and where it came from."""

from functools import reduce
from operator import getitem
from typing import Any, cast

from msgspec import Struct

from vegakit.config.names import Name, is_key, parse_name
from vegakit.config.schema import plain
from vegakit.config.secrecy import hide_secrets_of_url, is_secret
from vegakit.config.settings import Settings
from vegakit.config.sources import toml_of
from vegakit.config.tables import Tables

__all__ = ["Row", "explain"]

_TABLES = Tables.__struct_fields__


class Row(Struct, frozen=True):
    name: str
    value: str
    source: str


def explain(settings: Settings) -> list[Row]:
    """By name; no key, header or password is in it."""
    tree = {table: plain(getattr(settings, table)) for table in _TABLES}
    return [
        Row(name, _shown(settings, tree, parse_name(name)), str(source))
        for name, source in settings.sources.items()
    ]


def _shown(settings: Settings, tree: dict[str, Any], name: Name) -> str:
    if is_key(name):
        return repr(settings.key(name[1]))
    if name[2:3] == ("headers",):
        return "…"
    value = reduce(getitem, name, cast("Any", tree))
    if is_secret(name):
        return hide_secrets_of_url(value)
    if isinstance(value, str):
        return value if value.isprintable() else ascii(value)
    return toml_of(value)
