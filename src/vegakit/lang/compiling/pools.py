"""Constants, types and rights of a module, each stored once."""

from collections.abc import Hashable
from typing import Any, Generic, TypeVar

from vegakit.lang.bytecode import Rights
from vegakit.lang.tree import Grants, Text
from vegakit.lang.types import Type
from vegakit.records import canonical

__all__ = ["Pool", "Pools", "literal", "rights_of"]

T = TypeVar("T")


class Pool(Generic[T]):
    def __init__(self) -> None:
        self.rows: list[T] = []
        self._places: dict[Hashable, int] = {}

    def place(self, row: T, key: Hashable) -> int:
        place = self._places.setdefault(key, len(self.rows))
        if place == len(self.rows):
            self.rows.append(row)
        return place


class Pools:
    def __init__(self) -> None:
        self.constants = Pool[Any]()
        self.types = Pool[Type]()
        self.rights = Pool[Rights]()

    def constant(self, value: object) -> int:
        """`1`, `1.0` and `true` are equal in Python and not here."""
        return self.constants.place(value, (type(value), canonical(value)))

    def type(self, of: Type) -> int:
        return self.types.place(of, of)

    def right(self, rights: Rights) -> int:
        return self.rights.place(rights, rights)


def rights_of(grants: Grants | None) -> Rights | None:
    if grants is None or grants.capabilities is None:
        return None
    return Rights(
        tuple(capability.name for capability in grants.capabilities),
        _texts(grants.paths),
        _texts(grants.commands),
        _texts(grants.hosts),
    )


def _texts(texts: tuple[Text, ...] | None) -> tuple[str, ...] | None:
    return None if texts is None else tuple(literal(text) for text in texts)


def literal(text: Text | None) -> str:
    return "" if text is None else "".join(part for part in text.parts if isinstance(part, str))
