"""Names of a package that are loaded when they are first used (base, pure).

    __getattr__, __dir__ = lazy_exports(__name__, {"runtime": "Runtime run"})

A command that only checks a program must not load the runtime, and `import vegakit` must cost
nothing. Type checkers read the imports under `TYPE_CHECKING` beside the table. Written as
`X as X` they count as exports, so such a package needs no `__all__`; it is made of the table.
"""

from collections.abc import Callable, Mapping
from importlib import import_module

__all__ = ["lazy_exports"]


def lazy_exports(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package, given its names by module, with blanks
    between them. A module is named relative to the package, or in full when it lies in another
    one."""
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def load(name: str) -> object:
        if name == "__all__":
            return sorted(home_of)
        home = home_of.get(name)
        if home is None:
            known = ", ".join(sorted(home_of))
            raise AttributeError(f"{package} has no {name!r}; it has {known}")
        module = home if home.startswith("vegakit.") else f"{package}.{home}"
        value = getattr(import_module(module), name)
        # Kept in the package, so that the next use of the name does not come here.
        setattr(import_module(package), name, value)
        return value

    return load, lambda: sorted(home_of)
