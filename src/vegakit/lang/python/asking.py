"""A demand on types as it is asked, and what is said where it is not met."""

import ast

from msgspec import Struct

from vegakit.lang.checked import Checked
from vegakit.lang.python.context import Demand
from vegakit.lang.python.places import Places
from vegakit.lang.tree import Expr
from vegakit.lang.types import Type

__all__ = ["Asked", "Said"]


class Said(Struct, frozen=True):
    code: str
    message: str
    help: str
    written: str = ""


class Asked:
    """One demand with the types of its program and the text of its file."""

    def __init__(self, demand: Demand, checked: Checked, places: Places) -> None:
        self.node, self.is_proven = demand.node, demand.is_proven
        self.text = places.source(demand.place)
        self.place = demand.place
        self._types, self._places = checked.types, places

    def type(self, node: Expr) -> Type | None:
        return self._types.get(id(node))

    def source(self, node: ast.AST) -> str:
        return self._places.source(node)
