"""Programs as Python objects: `load("review.vega")`, and `@program` for programs written in Python.

The file of a `@program` is read, not run: its functions mean what they mean to Vega. Without a
runtime each call opens one as vega.toml says.
"""

import asyncio
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from decimal import Decimal
from importlib import import_module
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    cast,
    get_type_hints,
    overload,
)

from vegakit.errors import ProgramFailed, UserError, did_you_mean
from vegakit.host import PythonInterop, only_in_program, python_value
from vegakit.sdk.sources import check_source, load_bytecode, project_root, python_functions
from vegakit.tools import FunctionTool

if TYPE_CHECKING:
    from vegakit.host import Agent, AgentStandIn, ToolLike
    from vegakit.lang import AgentSpec, Diagnostic, Function, Module
    from vegakit.policy import PipelineDefinition


# A `.vega` file as a Python object: its functions are called like functions.
#
# Without a runtime each call opens one as vega.toml says; `rt.load(path)` binds it to a runtime.
# The language is loaded with the first program.


P = ParamSpec("P")
R = TypeVar("R")
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


class ProgramRefused(UserError):  # noqa: N818
    """A program has mistakes. The text is what `vega check` shows."""

    def __init__(self, diagnostics: "Sequence[Diagnostic]", texts: dict[str, str]) -> None:
        from vegakit.lang import render

        super().__init__(render(diagnostics, texts))
        self.diagnostics = tuple(diagnostics)


def compiled(path: Path, interop: "PythonInterop | None" = None) -> "tuple[Module, Path]":
    """The module and its project's folder; of a `.vgb` file as it was built."""
    from vegakit.lang import compile_program

    if path.suffix == ".vgb":
        return load_bytecode(path), project_root(path)
    found = (
        check_source(path)
        if interop is None
        else check_source(path, interop.signatures, interop.types)
    )
    if found.checked is None or not found.is_sound:
        raise ProgramRefused(found.diagnostics, found.source.texts)
    return compile_program(found.checked), found.source.root


class ProgramRunner(Protocol):
    """A runtime, as far as a program needs one to run in."""

    async def run(self, program: Any, *args: Any, function: str = "main") -> Any:  # noqa: ANN401
        """Run a function of a program to its end."""
        ...


class VegaFunction:
    """A function of a program, which runs when it is called and awaited."""

    def __init__(self, program: "VegaProgram", function: "Function") -> None:
        self._program = program
        self.name = function.name
        self.function = function

    async def __call__(self, *args: Any) -> Any:  # noqa: ANN401
        return await self._program.call(self.name, args)


class VegaProgram:
    """A compiled program. Its functions are its attributes."""

    def __init__(
        self,
        module: "Module",
        root: Path,
        runtime: "ProgramRunner | None" = None,
        interop: "PythonInterop | None" = None,
        pipeline: "PipelineDefinition | None" = None,
        stand_ins: "Mapping[str, AgentStandIn] | None" = None,
    ) -> None:
        self.module = module
        self.root = root
        self.interop = interop
        self.pipeline = pipeline
        self.stand_ins = stand_ins or {}
        self._runtime = runtime

    def __getattr__(self, name: str) -> VegaFunction:
        try:
            return VegaFunction(self, self.function(name))
        except UserError as error:
            raise AttributeError(str(error)) from None

    def function(self, name: str) -> "Function":
        """Return the signature of a function. `main` is also the code at the top of the file."""
        for function in self.module.functions:
            if function.name == name:
                return function
        known = ", ".join(f.name for f in self.module.functions if "." not in f.name)
        raise UserError(f"{self.module.name} has no function {name!r}; it has: {known}")

    def agent(self, name: str) -> "Agent[str]":
        """Return an agent of the program, as a path of a rollout: ask another model as
        `dataclasses.replace(program.agent("Reviewer"), model="fast")`."""
        from vegakit.host import agent_of, place_of, python_externals

        spec = self._agent_spec(name)
        tools = python_externals(self).given[name]
        if spec.mcp or spec.yaml or len(tools) < len(spec.tools):
            raise UserError(
                f"agent {name} has tools that only run inside of its program; give it functions of "
                "Python with @tool instead, as load(…, tools=[…]), or put an agent without tools "
                "under a rollout"
            )
        return agent_of(spec, tools, place_of(self.root, self.module.name), memory=False)

    def with_agents(self, stand_ins: "Mapping[str, AgentStandIn]") -> "VegaProgram":
        """Return the program with rollouts in place of some of its agents, by their names:
        `program.with_agents({"Reviewer": review})`. A send to one costs at most the budget of the
        agent, for all that is asked and compared: so the quote of the program stays as it is."""
        for name, stand_in in stand_ins.items():
            _check_stand_in(self._agent_spec(name), stand_in)
        given = {**self.stand_ins, **stand_ins}
        return VegaProgram(
            self.module, self.root, self._runtime, self.interop, self.pipeline, given
        )

    def _agent_spec(self, name: str) -> "AgentSpec":
        specs = {spec.name: spec for spec in self.module.agents}
        if name not in specs:
            raise UserError(
                f"{self.module.name} has no agent {name!r}; {did_you_mean(name, specs)}"
            )
        return specs[name]

    def result(self, name: str, value: Any) -> Any:  # noqa: ANN401
        """Return the result of the function `name` as a value of Python."""
        plain = python_value(value)
        if self.interop is None:
            return plain
        return self.interop.result(self.function(name).result, plain)

    async def call(self, name: str, args: Sequence[Any]) -> Any:  # noqa: ANN401
        """Run a function on the runtime the program was loaded by, or on one from the settings."""
        if self._runtime is not None:
            return await self._runtime.run(self, *args, function=name)
        # By its package and late: the runtime loads programs, and a program of its own accord opens
        # a runtime only when it is called without one.
        sdk: Any = import_module("vegakit.sdk")
        async with sdk.Runtime.from_config() as rt:
            return await rt.run(self, *args, function=name)


def _check_stand_in(spec: "AgentSpec", stand_in: "AgentStandIn") -> None:
    """Refuse a stand-in that could do or cost what the program does not say."""
    if not hasattr(stand_in, "tool_names"):
        raise UserError(
            f"{stand_in!r:.60} cannot stand in for agent {spec.name}; give a rollout: "
            "rollout(rt, …, reference=program.agent(…), candidate=…)"
        )
    if spec.memory:
        raise UserError(
            f"agent {spec.name} remembers what was said, which a candidate would not have heard; "
            "remove `memory conversation` from it, or leave it out of the rollout"
        )
    if spec.budget is None or spec.period or spec.on_exceed in ("warn", "allow"):
        raise UserError(
            f"agent {spec.name} has no budget that caps each send, so its comparisons could cost "
            "more than the program was quoted; give it one that holds both paths, such as: "
            "budget $0.05"
        )
    if more := sorted({*stand_in.tool_names} - {*spec.tools}):
        raise UserError(
            f"the rollout for agent {spec.name} has tools that the program does not give to it: "
            f"{', '.join(more)}; name them in the agent, or take them from the paths"
        )


def load(
    path: str | PathLike[str],
    runtime: "ProgramRunner | None" = None,
    *,
    tools: "Iterable[ToolLike]" = (),
    types: Iterable[Any] = (),
) -> VegaProgram:
    """Load a program from a file, or a pipeline, whose `main` takes the input. `tools` are
    functions of Python that the program may call and give to its agents, `types` models that it
    knows as records, and whose instances its functions return."""
    from vegakit.host import PythonInterop
    from vegakit.sdk.pipeline_files import PIPELINE_SUFFIXES, pipeline_module, read_pipeline

    if Path(path).suffix == ".py":
        tools = [*tools, *_program_tools(Path(path), None)]
    interop = PythonInterop(tools, types)
    if Path(path).suffix in PIPELINE_SUFFIXES:
        file = read_pipeline(Path(path))
        module = pipeline_module(Path(path), file)
        root = project_root(Path(path))
        return VegaProgram(module, root, runtime, interop, file.definition)
    module, root = compiled(Path(path), interop)
    return VegaProgram(module, root, runtime, interop)


# Programs in Python, from inside Python: `@program` gives an object that runs under Vega.
#
# The file that holds the function is read, not run: its functions mean what they mean to Vega.
# Only functions with `@tool` are called as they are.


LoadHook: TypeAlias = Callable[[Path, bytes], None]
"""Gets a file of Python and its content before the file is loaded; raises if it must not be."""

Failed = ProgramFailed
"""As a program raises it: `raise Failed("no")`."""


def MaxLen(most: int) -> Any:  # noqa: ANN401, N802  (reads as a type: Annotated[list[str], MaxLen(20)])
    """A limit on the items of a list, the keys of a dict or the characters of a str, which the
    quote knows and pydantic holds to."""
    from pydantic import Field

    return Field(max_length=most)


class PythonProgram(Generic[P, R]):
    """The `main` of a file of Python: await it, or call `main.run(...)` where nothing is
    awaited."""

    def __init__(self, function: Callable[P, R]) -> None:
        self.function: Any = function
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        self._loaded: VegaProgram | None = None

    @property
    def path(self) -> Path:
        """The file that the program is in."""
        return Path(self.function.__code__.co_filename)

    @property
    def loaded(self) -> VegaProgram:
        """Checked and compiled when it is first wanted."""
        if self._loaded is None:
            tools = _tools_in(self.function.__globals__)
            interop = PythonInterop(tools)
            module, root = compiled(self.path, interop)
            self._loaded = VegaProgram(module, root, interop=interop)
        return self._loaded

    async def __call__(self, *args: P.args, **named: P.kwargs) -> R:
        given = inspect.signature(self.function).bind(*args, **named)
        return self._result(await self.loaded.call("main", given.args))

    def run(self, *args: P.args, **named: P.kwargs) -> R:
        """Run the program to its end, where nothing is awaited."""
        return asyncio.run(self(*args, **named))

    def _result(self, value: Any) -> Any:  # noqa: ANN401
        """Records come back as instances of their classes."""
        hint = get_type_hints(self.function, include_extras=True).get("return")
        if hint is None or hint is type(None):
            return None
        from pydantic import TypeAdapter

        return TypeAdapter[Any](hint).validate_python(value)


class _Program:
    """The decorator `@program` or `@program(may=[…], budget="$5")`, and what marks the other
    functions of a program."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        """The room of the same name: `import vegakit.program as p`."""
        return getattr(sys.modules["vegakit.program"], name)

    @overload
    def __call__(self, function: Callable[P, R], /) -> PythonProgram[P, R]: ...
    @overload
    def __call__(
        self, /, *, may: Sequence[str] = ..., budget: str = ..., **settings: object
    ) -> "_Marker": ...
    def __call__(self, function: Callable[..., Any] | None = None, /, **_: object) -> Any:
        return PythonProgram if function is None else PythonProgram(function)

    def function(self, **_: object) -> "_Unchanged":
        """Mark a function that has rights or a budget of its own:
        `@program.function(may=["fs::read"])`."""
        return _unchanged

    def tool(self, **_: object) -> "_Unchanged":
        """Mark a function that agents may call, and that runs in Vega:
        `@program.tool(capabilities=["fs::read"])`."""
        return _unchanged


class _Marker(Protocol):
    """Makes a program of a function."""

    def __call__(self, function: Callable[P, R], /) -> PythonProgram[P, R]: ...


class _Unchanged(Protocol):
    """Leaves a function as it is."""

    def __call__(self, function: FunctionT, /) -> FunctionT: ...


def _unchanged(function: FunctionT, /) -> FunctionT:
    return function


program = _Program()


def session(budget: Any = None, **_: Any) -> AbstractContextManager[None]:  # noqa: ANN401
    """Cap what is spent in a block: `with session(budget="$1"):`."""
    only_in_program(f"session({budget!r})")


def parallel() -> AbstractContextManager[None]:
    """Run the statements of a block at the same time: `with parallel():`."""
    only_in_program("parallel()")


def spawn(_agent: Any, **_: Any) -> Any:  # noqa: ANN401
    """Start a process that stays: `spawn(agent, wallet="$2")`."""
    only_in_program("spawn(…)")


class _Word:
    """A path of names such as `vega.file.read`. A path that declares something (`vega.retry(…)`)
    may be called anywhere; one that does something only in a program."""

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
    "vega.Ran": object,
}
"""What values of these types are when they come back to Python."""
_DECLARING = frozenset(
    f"vega.{name}"
    for name in (
        "retry circuit_breaker rate_limit exponential constant mcp node yaml supervisor".split()
    )
)

vega: Any = _Word("vega")
"""The library by its own names: `vega.file.read(path)`, `vega.list.unique(xs)`."""


def interop_at(
    path: Path, loading: LoadHook | None = None, nodes: "Sequence[ToolLike]" = ()
) -> PythonInterop | None:
    """Return the Python side of a program: the functions of a file of Python, and the nodes that it
    declares. A file of Vega without nodes has none."""
    if path.suffix == ".py":
        return PythonInterop([*_program_tools(path, loading), *nodes])
    return PythonInterop(nodes) if nodes else None


def _program_tools(path: Path, loading: LoadHook | None) -> list[FunctionTool]:
    """Return the functions of a program that stay Python; without any, the file is not loaded."""
    content = _content_of(path)
    if not python_functions(_text_of(path, content), path.name):
        return []
    return list(_tools_in(_load_python(path, content, loading)))


def tools_at(path: Path, loading: LoadHook | None = None) -> list[FunctionTool]:
    """Load a file of Python, and return its functions with `@tool`."""
    return list(_tools_in(names_at(path, loading)))


def names_at(path: Path, loading: LoadHook | None = None) -> dict[str, Any]:
    """Load a file of Python, and return the names that it defines."""
    return _load_python(path, _content_of(path), loading)


def _content_of(path: Path) -> bytes:
    if path.suffix != ".py":
        raise UserError(f"{path} is not a .py file; give the path of a file of Python")
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error}; give the path of a .py file") from error


def _text_of(path: Path, content: bytes) -> str:
    """Return the text with the ends of lines that Python gives to a file it reads."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: {error.reason}; save it as UTF-8") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _load_python(path: Path, content: bytes, loading: LoadHook | None) -> dict[str, Any]:
    """Run a file of Python, and return the names that it defines. The file is compiled from the
    content that `loading` got: Python would read it again, in the encoding that it names."""
    try:
        code = compile(_text_of(path, content), str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise UserError(
            f"{path}, line {error.lineno}, is no Python: {error.msg}; correct it"
        ) from error
    if loading is not None:
        loading(path, content)
    module = ModuleType(f"vega_program_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    exec(code, vars(module))  # noqa: S102  (it is the user's program)
    return dict(vars(module))


def _tools_in(names: dict[str, Any]) -> Iterator[FunctionTool]:
    for one in list(names.values()):
        if isinstance(one, FunctionTool):
            yield cast("FunctionTool", one)
