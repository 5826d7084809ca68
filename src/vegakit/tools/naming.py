"""Names of tools, told apart as a reader would: no tool can be taken for another."""

import re
import unicodedata
from collections.abc import Iterable

from vegakit.errors import UserError
from vegakit.ports import Tool

__all__ = ["by_name", "folded"]


def by_name(tools: Iterable[Tool]) -> dict[str, Tool]:
    found: dict[str, Tool] = {}
    for tool in tools:
        name = tool.spec.name
        other = found.setdefault(folded(name), tool)
        if other is not tool:
            raise UserError(
                f"a model could take the tools {other.spec.name!a} and {name!a} for each "
                "other; rename one of them, or leave one out"
            )
    return {tool.spec.name: tool for tool in found.values()}


def folded(name: str) -> str:
    """Names that fold to the same could be taken for each other."""
    return re.sub("[-._]", "_", unicodedata.normalize("NFKC", name).casefold())
