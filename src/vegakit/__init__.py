"""Vega: supervised agent programs whose worst-case bill is known before the first call.

The front door: a hand-listed set of at most 40 names, each loaded when it is first used, so that
`import vegakit` costs nothing. What a running program tells (`rt.on(CostAlert, …)`, the pieces of a
stream) is in `vegakit.sdk`. Rooms never import it.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036  (from a clone nothing else says so)
    raise ImportError(
        f"vegakit needs Python 3.11 or newer, and this is {sys.version.split()[0]}; type: "
        "python3.11 -m venv .venv, and install it there"
    )

from vegakit.lazy import lazy_exports

TYPE_CHECKING = False
"""Type checkers take this for True. The import of `typing` takes most of the time in which Ctrl-C
at the start of a command still prints a traceback."""
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any
else:
    ModuleType = type(sys)

_load, _names = lazy_exports(__spec__)


def __getattr__(name: str) -> "Any":  # noqa: ANN401
    if name == "__version__":
        from importlib.metadata import version

        return version("vegakit")
    return _load(name)


def __dir__() -> list[str]:
    return [*_names(), "__version__"]


class _LazyPackage(ModuleType):
    """`program` is a room too, which the import system would put in place of what marks programs
    in Python; who wants the room imports from it."""

    @property
    def program(self) -> "Any":  # noqa: ANN401
        from vegakit.sdk import program

        return program

    @program.setter
    def program(self, room: "ModuleType") -> None:
        pass


sys.modules[__name__].__class__ = _LazyPackage
