"""What a function of the library takes and gives, in few letters."""

import re
from collections.abc import Callable

from msgspec import Struct

from vegakit.lang.library import Row

__all__ = ["Shape", "shape_of"]

_SIGNATURE = re.compile(r"[\w:]+\((?P<params>.*)\)(?: -> (?P<result>.+))?")
_PARAMETER = re.compile(r"(\w+): ([^,]+?)( = null)?(?:, |$)")


class Shape(Struct, frozen=True):
    name: str
    params: tuple[str, ...]
    result: str
    capability: str


def shape_of(row: Row, spell: Callable[[str], str]) -> Shape:
    """`spell` gives a type another spelling."""
    match = _SIGNATURE.fullmatch(row.signature)
    assert match is not None
    params = tuple(
        f"{name}{'?' if optional else ''}: {spell(kind)}"
        for name, kind, optional in _PARAMETER.findall(match["params"])
    )
    result = spell(match["result"]) if match["result"] else ""
    return Shape(row.name.rpartition("::")[2], params, result, row.capability)
