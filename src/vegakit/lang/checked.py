"""What the checker found out: the tree stays as it is, its meaning stands beside it.

The tables are keyed by `id(node)`; the sources here keep the nodes alive.
"""

from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from vegakit.lang.tree import Source
from vegakit.lang.types import Type

__all__ = ["Callee", "CalleeKind", "Checked", "NameKind", "Unit"]


class CalleeKind(StrEnum):
    FUNCTION = "function"  # name: `unit::fn`, the unit empty for the main file
    TOOL = "tool"  # the same, of a tool declared in the program
    LIBRARY = "library"  # name: `str::trim`, `print`, `len`
    RECORD = "record"  # the type of the call says which
    MCP = "mcp"  # name: `server.tool`
    PYTHON = "python"  # name of a Python function passed in as a tool


class NameKind(StrEnum):
    VARIABLE = "variable"
    AGENT = "agent"
    SUPERVISOR = "supervisor"


class Callee(Struct, frozen=True):
    kind: CalleeKind
    name: str


class Unit(Struct):
    """One file of the program. `uses` maps the names its `use` gives to the paths of files; `name`
    stands before `::` in full names: the file's stem, numbered where two are alike, and empty for
    the main file."""

    path: str
    text: str
    source: Source
    uses: dict[str, str]
    name: str = ""
    _line_ends: list[int] | None = None

    @property
    def line_ends(self) -> list[int]:
        """Where its lines end, found once: every function of the file asks."""
        if self._line_ends is None:
            self._line_ends = [at for at, char in enumerate(self.text) if char == "\n"]
        return self._line_ends


class Checked(Struct):
    """`units` maps paths to files, the main one first.

    - `types`: of every expression (of an `Ask`: of its answer when it is not `later` or a stream),
      and of every parameter, `let`, type declaration and type as written, keyed by the node. A
      whole number where a float is wanted (`let x: float = 1`, `x * 2`) has the type float
    - `callees`: of every Call; args are reordered and filled by `arguments` (for records in the
      order of fields, None where a field is left to null)
    - `names`: of every Name that is an expression
    - `full_names`: of Names of agents and supervisors, of their declarations, of functions, tools
      and `ToolRef`s: `unit::Name`, or `Name` in the main file; a tool inside an agent is
      `Agent.tool`
    - `kept`: what was made of it, by who made it, for the phases that need it again
    """

    main: str
    units: dict[str, Unit]
    types: dict[int, Type]
    callees: dict[int, Callee]
    arguments: dict[int, tuple[int | None, ...]]
    names: dict[int, NameKind]
    full_names: dict[int, str]
    kept: dict[str, Any] = field(default_factory=dict[str, Any])
