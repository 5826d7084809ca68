"""The settings that hold when nothing is written, as one would write them."""

from itertools import groupby

from vegakit.config.layers import default_layer
from vegakit.config.names import show_name
from vegakit.config.sources import toml_of

__all__ = ["default_toml"]


def default_toml() -> str:
    tables = groupby(default_layer().items(), key=lambda item: item[0][:-1])
    return "\n\n".join(
        "\n".join(
            [
                f"[{show_name(table)}]",
                *(f"{show_name(name[-1:])} = {toml_of(setting.value)}" for name, setting in items),
            ]
        )
        for table, items in tables
    )
