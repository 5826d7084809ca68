"""Spells what a path or a comparison is, so that its version changes when its answers could.

Evidence is of one version, so what is left out here lets evidence of one thing count for another,
and what is put in and differs from process to process lets it begin anew each time. So what is
written in code or settings is looked at, as it is when the rollout is declared:

| of                              | in its version                                                 |
|---------------------------------|----------------------------------------------------------------|
| an agent                        | the models that its names stand for, instructions, type of the |
|                                 | answer, settings, and the code of its tools; not what they are |
|                                 | connected to, such as a port                                   |
| a function                      | instructions and constants, not file or line; defaults         |
| what it closes over, arguments  | their values                                                   |
| of a `partial`                  |                                                                |
| the object of a bound method    | its class and its attributes                                   |
| globals that it names           | functions and classes in turn, if the code is yours; constants |
|                                 | and, if they are named IN CAPITALS, lists, dicts and sets      |
| what is installed, and Python   | its name                                                       |

What is read from files, tables or services is not seen: who changes these changes the name of the
rollout. So does who has an attribute that differs in every process: each is a version of its own.
"""

import functools
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, cast

from vegakit.errors import UserError
from vegakit.host import Agent
from vegakit.records import digest128
from vegakit.sdk import Runtime
from vegakit.tools import as_tools

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_MAX_PARTS = 20_000
"""What is read of one path; a table that is longer is data, and known by its length."""
_INSTALLED = tuple(
    Path(path) for path in {sysconfig.get_path(key) for key in ("stdlib", "purelib", "platlib")}
)


def function_version(function: object) -> str:
    """Return the version of a function."""
    return identity_of(function)


def agent_version(runtime: Runtime, agent: Agent[Any]) -> str:
    """Return the version of an agent."""
    return digest128([models_of(runtime, agent), agent_parts(agent)])


def models_of(runtime: Runtime, agent: Agent[Any]) -> list[str]:
    """Return the models of an agent by the names that they have at their providers: an alias of the
    settings may stand for another one tomorrow."""
    try:
        return [model.name for model in runtime.model_registry.models_of(agent)]
    except UserError:  # whoever asks it is told
        return _named(agent)


def _named(agent: Agent[Any]) -> list[str]:
    return [one if isinstance(one, str) else one.name for one in agent.models]


def agent_parts(agent: Agent[Any]) -> list[object]:
    """Return what an agent is asked with but for its models: what is sent, what its tools do."""
    tools = as_tools(agent.tools)
    settings = [agent.temperature, agent.max_tokens, agent.effort, agent.max_steps]
    # A tool that is no function, as those of MCP servers are, is what it says of itself.
    # What one is connected to, a port or a table, may differ from process to process.
    bodies = [identity_of(getattr(tool, "__wrapped__", None), with_values=False) for tool in tools]
    specs = [tool.spec for tool in tools]
    return [agent.instructions, agent.answer.spec, specs, bodies, settings]


def identity_of(value: object, *, with_values: bool = True) -> str:
    """Return a digest of a function, or of a value, that is the same in every process; without
    values, of the code alone."""
    return digest128(_Reading(with_values).of(value))


def _is_installed(module: str) -> bool:
    """Return whether code is a library's, ours or Python's, so that it is known by its name. What
    an editable install or a script runs is the user's."""
    top = module.partition(".")[0]
    if top == "vegakit" or (top in sys.stdlib_module_names and top != "__main__"):
        return True
    place = getattr(sys.modules.get(module), "__file__", None)
    # Without a file there is nothing that a person could edit, but for what is typed or `exec`ed.
    if place is None:
        return module in sys.modules and top not in ("__main__", "builtins")
    return any(Path(place).is_relative_to(folder) for folder in _INSTALLED)


class _Reading:
    """One reading of a path. What was met before is named by the number at which it was."""

    def __init__(self, with_values: bool) -> None:
        self._with_values = with_values
        self._met: dict[int, int] = {}
        self._kept: list[object] = []
        """What was read, so that no address is that of another thing later."""
        self._parts = 0

    def of(self, value: object) -> object:
        """Return a value as plain lists and texts."""
        self._parts += 1
        if isinstance(value, _PLAIN) and not isinstance(value, Enum):
            return [type(value).__name__, repr(value)]
        if (known := self._met.get(id(value))) is not None:
            return ["again", known]
        self._met[id(value)] = len(self._met)
        self._kept.append(value)
        return self._whole(value)

    def _whole(self, value: object) -> object:
        for kinds, read in _READERS:
            if isinstance(value, kinds):
                return read(self, value)
        return self._object(value)

    def items(self, value: Any) -> object:  # noqa: ANN401  (any collection)
        name = type(value).__name__
        if self._parts + len(value) > _MAX_PARTS:
            return [name, len(value)]
        if isinstance(value, Mapping):
            held = cast("Mapping[object, object]", value)
            pairs = [[self.of(key), self.of(each)] for key, each in held.items()]
            return [name, sorted(pairs, key=digest128)]
        parts = [self.of(each) for each in value]
        return [name, sorted(parts, key=digest128) if isinstance(value, AbstractSet) else parts]

    def enum(self, value: Enum) -> object:
        return [_name_of(type(value)), value.name]

    def partial(self, value: "functools.partial[Any]") -> object:
        given = [self.of(value.args), self.of(value.keywords)] if self._with_values else None
        return ["partial", self.of(value.func), given]

    def method(self, value: MethodType) -> object:
        owner = value.__self__ if self._with_values else type(value.__self__)
        return ["method", self.of(value.__func__), self.of(owner)]

    def function(self, value: FunctionType) -> object:
        if len(self._met) > 1 and _is_installed(value.__module__ or ""):
            return _name_of(value)
        used = [
            ("defaults", value.__defaults__),
            ("named defaults", value.__kwdefaults__),
            *((f"cell {n}", _content(cell)) for n, cell in enumerate(value.__closure__ or ())),
            *_globals_of(value),
        ]
        kept = [
            [name, self.of(each)]
            for name, each in used
            if self._with_values or isinstance(each, (FunctionType, type))
        ]
        return [self._code(value.__code__), kept]

    def _code(self, code: CodeType) -> object:
        constants = [
            self._code(each) if isinstance(each, CodeType) else self.of(each)
            for each in code.co_consts
        ]
        return [code.co_code.hex(), code.co_names, constants]

    def class_(self, value: type) -> object:
        if _is_installed(value.__module__):
            return _name_of(value)
        bodies = [
            [name, self.of(_body(each))]
            for name, each in sorted(vars(value).items())
            if isinstance(_body(each), (FunctionType, *_PLAIN)) and name not in _OF_ITS_PLACE
        ]
        return [_name_of(value), [self.of(base) for base in value.__bases__], bodies]

    def module(self, value: ModuleType) -> object:
        return value.__name__

    def agent(self, value: Agent[Any]) -> object:
        return [_named(value), agent_parts(value)]

    def _object(self, value: object) -> object:
        """Return an object by its class and, if that is the user's, by its attributes."""
        if (wrapped := getattr(value, "__wrapped__", None)) is not None:  # a tool, a cached one
            return [_name_of(type(value)), self.of(wrapped)]
        if is_dataclass(value) and not isinstance(value, type):
            state = {each.name: getattr(value, each.name, None) for each in fields(value)}
        else:
            state = getattr(value, "__dict__", {})
        if _is_installed(type(value).__module__):
            return _name_of(type(value))
        return [self.of(type(value)), self.of(dict(state))]


_OF_ITS_PLACE = {
    "__module__",
    "__doc__",
    "__qualname__",
    "__firstlineno__",
    "__static_attributes__",
}
_READERS: Sequence[tuple[Any, Callable[[_Reading, Any], object]]] = (
    (Enum, _Reading.enum),
    (functools.partial, _Reading.partial),
    (MethodType, _Reading.method),
    (FunctionType, _Reading.function),
    (type, _Reading.class_),
    (ModuleType, _Reading.module),
    ((list, tuple, dict, set, frozenset), _Reading.items),
    (Agent, _Reading.agent),
)


def _name_of(value: Any) -> str:  # noqa: ANN401  (a function or a class)
    return f"{value.__module__}.{getattr(value, '__qualname__', '')}"


def _content(cell: Any) -> object:  # noqa: ANN401  (Python has no public name for it)
    try:
        return cell.cell_contents
    except ValueError:  # nothing yet: a name that is bound later
        return None


def _body(attribute: object) -> object:
    """Return the function behind what a class has under a name."""
    if isinstance(attribute, staticmethod | classmethod):
        return cast("object", attribute.__func__)
    return attribute.fget if isinstance(attribute, property) else attribute


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names_in(each)


def _globals_of(function: FunctionType) -> Iterator[tuple[str, object]]:
    """Yield the globals that a function names, and what it takes from modules of the user's."""
    names = sorted(set(_names_in(function.__code__)))
    for name in names:
        if name not in function.__globals__:
            continue
        found: object = function.__globals__[name]
        # A list that is no constant by its name may be one of what happened so far.
        if name.isupper() or not isinstance(found, (list, dict, set)):
            yield name, found
        if isinstance(found, ModuleType) and not _is_installed(found.__name__):
            for part in names:
                if part in vars(found):
                    yield f"{name}.{part}", vars(found)[part]
