"""Programs in Python, from inside Python: `@program` gives an object that runs under Vega.

    @program
    def main(paths: list[str]) -> list[Finding]: ...

    findings = await main(["a.py", "b.py"])

The file that holds the function is read, not run: its functions mean what they mean to Vega. Only
functions with `@tool` are called as they are.
"""

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import timedelta
from decimal import Decimal
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, get_type_hints

from vegakit.errors import ProgramFailed, UserError
from vegakit.runtime.askable import only_in_program
from vegakit.runtime.compiled.bridge import Bridge
from vegakit.runtime.compiled.loading import VegaProgram, compiled
from vegakit.tools import FunctionTool

__all__ = [
    "Failed",
    "Max",
    "PythonProgram",
    "bridge_at",
    "parallel",
    "program",
    "session",
    "spawn",
    "tools_at",
    "vega",
]

Failed = ProgramFailed
"""As a program raises it: `raise Failed("no")`."""


def Max(most: int) -> Any:  # noqa: ANN401, N802  (reads as a type: Annotated[list[str], Max(20)])
    """At most so many items: known to the quote, and held to by pydantic."""
    from pydantic import Field

    return Field(max_length=most)


class PythonProgram:
    """`main` of a file: await it, or `main.run(...)` where nothing is awaited."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        self._loaded: VegaProgram | None = None

    @property
    def path(self) -> Path:
        return Path(self.function.__code__.co_filename)

    @property
    def loaded(self) -> VegaProgram:
        """Checked and compiled when it is first wanted."""
        if self._loaded is None:
            tools = _tools_in(self.function.__globals__)
            bridge = Bridge(tools)
            module, root = compiled(self.path, bridge)
            self._loaded = VegaProgram(module, root, bridge=bridge)
        return self._loaded

    async def __call__(self, *args: Any) -> Any:  # noqa: ANN401
        return self._result(await self.loaded.call("main", args))

    def run(self, *args: Any) -> Any:  # noqa: ANN401
        return asyncio.run(self(*args))

    def _result(self, value: Any) -> Any:  # noqa: ANN401
        """Records come back as instances of their classes."""
        hint = get_type_hints(self.function, include_extras=True).get("return")
        if hint is None or hint is type(None):
            return None
        from pydantic import TypeAdapter

        return TypeAdapter[Any](hint).validate_python(value)


class _Program:
    """`@program`, `@program(may=[…], budget="$5")`, and what marks the other functions of it."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        """The room of the same name: `import vegakit.program as p`."""
        return getattr(sys.modules["vegakit.program"], name)

    def __call__(self, function: Callable[..., Any] | None = None, **_: Any) -> Any:  # noqa: ANN401
        return PythonProgram if function is None else PythonProgram(function)

    def function(self, **_: Any) -> Callable[..., Any]:  # noqa: ANN401
        """`@program.function(may=["fs::read"])`: with rights or a budget of its own."""
        return _unchanged

    def tool(self, **_: Any) -> Callable[..., Any]:  # noqa: ANN401
        """`@program.tool(capabilities=["fs::read"])`: agents may call it, and it runs in Vega."""
        return _unchanged


def _unchanged(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


program = _Program()


def session(budget: Any = None, **_: Any) -> AbstractContextManager[None]:  # noqa: ANN401
    """`with session(budget="$1"):` what is in it spends at most so much."""
    only_in_program(f"session({budget!r})")


def parallel() -> AbstractContextManager[None]:
    """`with parallel():` its statements run at the same time."""
    only_in_program("parallel()")


def spawn(_agent: Any, **_: Any) -> Any:  # noqa: ANN401
    """`spawn(agent, wallet="$2")`: a process that stays."""
    only_in_program("spawn(…)")


class _Word:
    """`vega.file.read`: any path of names. What declares (`vega.retry(…)`) may be called anywhere;
    what does something only in a program."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        if name.startswith("__"):
            raise AttributeError(name)
        path = f"{self._path}.{name}"
        return _TYPES[path] if path in _TYPES else _Word(path)

    def __call__(self, *args: Any, **named: Any) -> Any:  # noqa: ANN401
        if self._path in _DECLARING:
            return {"of": self._path, "given": args, **named}
        return only_in_program(f"{self._path}(…)")

    def __repr__(self) -> str:
        return self._path


_TYPES: dict[str, Any] = {
    "vega.Money": Decimal,
    "vega.Duration": timedelta,
    "vega.File": Path,
    "vega.Process": object,
    "vega.Response": object,
}
"""What values of these types are when they come back to Python."""
_DECLARING = frozenset(
    f"vega.{name}"
    for name in "retry circuit_breaker rate_limit exponential constant mcp yaml supervisor".split()
)

vega: Any = _Word("vega")
"""The library by its own names: `vega.file.read(path)`, `vega.list.unique(xs)`."""


def bridge_at(path: Path) -> Bridge | None:
    return Bridge(tools_at(path)) if path.suffix == ".py" else None


def tools_at(path: Path) -> list[FunctionTool]:
    """The functions of a file that stay Python: only where there are some, the file is run."""
    from vegakit.lang import lower

    if not lower(path.read_text(encoding="utf-8"), path.name).tools:
        return []
    return list(_tools_in(_names_at(path)))


def _names_at(path: Path) -> dict[str, Any]:
    name = f"vega_program_{path.stem}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UserError(f"{path} cannot be loaded as Python; give the path of a .py file")
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return dict(vars(module))


def _tools_in(names: dict[str, Any]) -> Iterator[FunctionTool]:
    return (one for one in list(names.values()) if isinstance(one, FunctionTool))
