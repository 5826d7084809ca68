"""A `.vega` file as a Python object: its functions are called like functions.

    review = load("review.vega")
    findings = await review.main(["a.py", "b.py"])

Without a runtime each call opens one as vega.toml says; `rt.load(path)` binds it to a runtime.
The language is loaded with the first program.
"""

from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vegakit.errors import UserError
from vegakit.runtime.compiled.values import python_value
from vegakit.runtime.sources import built_at, look_at, root_of

if TYPE_CHECKING:
    from vegakit.lang import Diagnostic, Function, Module
    from vegakit.runtime.compiled.bridge import Bridge, ToolLike
    from vegakit.runtime.runtime import Runtime

__all__ = ["ProgramRefused", "VegaFunction", "VegaProgram", "compiled", "load"]


class ProgramRefused(UserError):  # noqa: N818
    """What is wrong with it, as `vega check` shows it."""

    def __init__(self, diagnostics: "Sequence[Diagnostic]", texts: dict[str, str]) -> None:
        from vegakit.lang import render

        super().__init__(render(diagnostics, texts))
        self.diagnostics = tuple(diagnostics)


def compiled(path: Path, bridge: "Bridge | None" = None) -> "tuple[Module, Path]":
    """The module and its project's folder; of a `.vgb` file as it was built."""
    from vegakit.lang import compile_program

    if path.suffix == ".vgb":
        return built_at(path), root_of(path)
    found = look_at(path) if bridge is None else look_at(path, bridge.signatures, bridge.types)
    if found.checked is None or not found.is_sound:
        raise ProgramRefused(found.diagnostics, found.source.texts)
    return compile_program(found.checked), found.source.root


class VegaFunction:
    def __init__(self, program: "VegaProgram", function: "Function") -> None:
        self._program = program
        self.name = function.name
        self.function = function

    async def __call__(self, *args: Any) -> Any:  # noqa: ANN401
        return await self._program.call(self.name, args)


class VegaProgram:
    """Its functions are its attributes."""

    def __init__(
        self,
        module: "Module",
        root: Path,
        runtime: "Runtime | None" = None,
        bridge: "Bridge | None" = None,
    ) -> None:
        self.module = module
        self.root = root
        self.bridge = bridge
        self._runtime = runtime

    def __getattr__(self, name: str) -> VegaFunction:
        try:
            return VegaFunction(self, self.function(name))
        except UserError as error:
            raise AttributeError(str(error)) from None

    def function(self, name: str) -> "Function":
        """`main` is also what stands at the top of the file."""
        for function in self.module.functions:
            if function.name == name:
                return function
        known = ", ".join(f.name for f in self.module.functions if "." not in f.name)
        raise UserError(f"{self.module.name} has no function {name!r}; it has: {known}")

    def result(self, name: str, value: Any) -> Any:  # noqa: ANN401
        """Of the function `name`, as a value of Python."""
        plain = python_value(value)
        if self.bridge is None:
            return plain
        return self.bridge.result(self.function(name).result, plain)

    async def call(self, name: str, args: Sequence[Any]) -> Any:  # noqa: ANN401
        if self._runtime is not None:
            return await self._runtime.run(self, *args, function=name)
        from vegakit.runtime.runtime import Runtime

        async with Runtime.from_config() as rt:
            return await rt.run(self, *args, function=name)


def load(
    path: str | PathLike[str],
    runtime: "Runtime | None" = None,
    *,
    tools: "Iterable[ToolLike]" = (),
    types: Iterable[Any] = (),
) -> VegaProgram:
    """`tools` are functions of Python that the program may call and give to its agents, `types`
    models that it knows as records, and whose instances its functions return."""
    from vegakit.runtime.compiled.bridge import Bridge

    if Path(path).suffix == ".py":
        from vegakit.runtime.compiled.python import tools_at

        tools = [*tools, *tools_at(Path(path))]
    bridge = Bridge(tools, types)
    module, root = compiled(Path(path), bridge)
    return VegaProgram(module, root, runtime, bridge)
