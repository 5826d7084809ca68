"""Spells what a path or a comparison is, so that its version changes when its answers could.

Evidence is of one version, so what is left out here lets evidence of one thing count for another,
and what is put in and differs from process to process lets it begin anew each time. So only what
is written in code or settings is looked at, as it is when the rollout is declared:

| of                 | in its version                                                              |
|--------------------|-----------------------------------------------------------------------------|
| an agent           | the models that its names stand for, instructions, type of the answer,      |
|                    | settings, and the code of its tools; not what they close over: that is      |
|                    | often where this process finds the world, such as a port                    |
| a function         | code, defaults, what it closes over; functions and constants of its own     |
|                    | package that it names, and so on from there                                 |
| `functools.partial`| the function and its arguments                                              |
| a bound method     | the function, and the constants in its object                               |
| anything else      | its type: a client or a dictionary may change while the program runs        |

Functions of other packages, methods of other objects and what is read from files are not seen: who
changes these changes the name of the rollout.
"""

import functools
import inspect
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any, cast

from vegakit.errors import UserError
from vegakit.host import Agent
from vegakit.records import digest128
from vegakit.sdk import Runtime

_CONSTANTS = (str, bytes, int, float, complex, bool, type(None))


def function_version(function: object) -> str:
    """Return the version of a function."""
    return digest128(_Spelling().of(function))


def agent_version(runtime: Runtime, agent: Agent[Any], specs: object) -> str:
    """Return the version of an agent with the tools of these specs."""
    settings = [agent.temperature, agent.max_tokens, agent.effort, agent.max_steps]
    tools = [_code_of(tool) for tool in agent.tools]
    asked = [agent.instructions, agent.answer.spec, specs, settings]
    return digest128([models_of(runtime, agent), asked, tools])


def models_of(runtime: Runtime, agent: Agent[Any]) -> list[str]:
    """Return the names of the models that an agent asks, not those that settings know them by: an
    edit of the settings makes `fast` another model."""
    try:
        return [model.name for model in runtime.model_registry.models_of(agent)]
    except UserError:  # whoever asks it is told
        return _named(agent)


def _code_of(tool: object) -> object:
    function = inspect.unwrap(tool) if callable(tool) else None
    return _parts_of(function.__code__) if isinstance(function, FunctionType) else None


def _named(agent: Agent[Any]) -> list[str]:
    return [one if isinstance(one, str) else one.name for one in agent.models]


class _Spelling:
    """Spells values as JSON. A function that is met again is spelled by its name."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def of(self, value: object) -> object:
        """Return how a value is spelled."""
        if isinstance(value, _CONSTANTS):
            return [type(value).__name__, repr(value)]
        if isinstance(value, tuple | frozenset):
            items = [self.of(each) for each in cast("tuple[object, ...]", value)]
            return sorted(items, key=repr) if isinstance(value, frozenset) else items
        if isinstance(value, functools.partial):
            made = cast("functools.partial[Any]", value)
            named = [[name, self.of(each)] for name, each in sorted(made.keywords.items())]
            return ["partial", self.of(made.func), [self.of(each) for each in made.args], named]
        if inspect.ismethod(value):
            return ["method", self.of(value.__func__), self._state(value.__self__)]
        if isinstance(value, Agent):
            agent = cast("Agent[Any]", value)
            return ["agent", _named(agent), agent.instructions, agent.max_tokens]
        function = inspect.unwrap(value) if callable(value) else None
        if isinstance(function, FunctionType):
            return self._function(function)
        return ["type", type(value).__qualname__]

    def _state(self, owner: object) -> object:
        facts = cast("Mapping[str, object]", getattr(owner, "__dict__", {}))
        constants = sorted((key, each) for key, each in facts.items() if _is_constant(each))
        return [type(owner).__qualname__, [[key, self.of(each)] for key, each in constants]]

    def _function(self, function: FunctionType) -> object:
        name = function.__qualname__
        if id(function) in self._seen:
            return ["again", name]
        self._seen.add(id(function))
        defaults = [self.of(each) for each in function.__defaults__ or ()]
        named = sorted((function.__kwdefaults__ or {}).items())
        closed = [self.of(each) for each in _contents(function)]
        read = [[key, self.of(each)] for key, each in sorted(_globals_of(function), key=_first)]
        code = _parts_of(function.__code__)
        return [name, code, defaults, [[key, self.of(each)] for key, each in named], closed, read]


def _is_constant(value: object) -> bool:
    if isinstance(value, tuple | frozenset):
        return all(map(_is_constant, cast("tuple[object, ...]", value)))
    return isinstance(value, _CONSTANTS)


def _first(pair: tuple[str, object]) -> str:
    return pair[0]


def _contents(function: FunctionType) -> Iterator[object]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not bound yet
            yield None


def _globals_of(function: FunctionType) -> Iterator[tuple[str, object]]:
    """Yield the constants, agents and functions of its own package that a function names."""
    package = function.__module__.partition(".")[0] if function.__module__ else ""
    for name in _names_in(function.__code__):
        value = function.__globals__.get(name)
        own = getattr(value, "__module__", None) or ""
        is_function = callable(value) and isinstance(inspect.unwrap(value), FunctionType)
        if is_function and own.partition(".")[0] != package:
            continue
        if is_function or isinstance(value, Agent) or (_is_constant(value) and value is not None):
            yield name, value


def _names_in(code: CodeType) -> set[str]:
    inner = (each for each in code.co_consts if isinstance(each, CodeType))
    return {*code.co_names}.union(*map(_names_in, inner))


def _parts_of(code: CodeType) -> list[object]:
    """Return what a function does, without the file and the address where it stands."""
    constants = [
        _parts_of(each) if isinstance(each, CodeType) else _repr_of(each) for each in code.co_consts
    ]
    return [code.co_code.hex(), code.co_names, constants]


def _repr_of(constant: object) -> str:
    """Return a constant as text. The order of a set differs from process to process."""
    if isinstance(constant, frozenset):
        return f"frozenset({sorted(map(repr, cast('frozenset[object]', constant)))})"
    return repr(constant)
