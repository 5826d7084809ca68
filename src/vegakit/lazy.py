"""Names of a package that are loaded when they are first used (base, pure).

    __getattr__, __dir__ = lazy_exports(__spec__)

A command that only checks a program must not load the runtime, and `import vegakit` must cost
nothing. The stub of the package, `__init__.pyi`, is the one list of its names: type checkers read
the imports there, and so does this loader, when it is asked for the first name. It also makes
`__all__`.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from importlib.machinery import ModuleSpec
    from typing import Any

__all__ = ["lazy_exports"]


def lazy_exports(
    spec: "ModuleSpec | None",
) -> "tuple[Callable[[str], object], Callable[[], list[str]]]":
    """Return `__getattr__` and `__dir__` of the package with this spec."""
    assert spec is not None, "a package is imported, and not run"
    homes: dict[str, str] = {}

    def home_of() -> "Mapping[str, str]":
        if not homes:
            import re

            # Each loader that reads files has `get_data`, also that of an archive.
            loader: Any = spec.loader
            stub = loader.get_data(f"{spec.origin}i").decode()
            imports = re.findall(r"(?m)^from (\S+) import (?:\(([^)]*)\)|(.*))$", stub)
            for module, block, line in imports:
                names = (block or line).strip().rstrip(",").split(",")
                homes.update((name.split()[-1], module) for name in names)
        return homes

    def load(name: str) -> object:
        if name == "__all__":
            return sorted(home_of())
        from importlib import import_module

        home = home_of().get(name)
        if home is None:
            known = ", ".join(sorted(home_of()))
            raise AttributeError(f"{spec.name} has no {name!r}; it has {known}")
        is_module = home == spec.name
        value = import_module(f"{home}.{name}") if is_module else getattr(import_module(home), name)
        # Kept in the package, so that the next use of the name does not come here.
        setattr(import_module(spec.name), name, value)
        return value

    return load, lambda: sorted(home_of())
