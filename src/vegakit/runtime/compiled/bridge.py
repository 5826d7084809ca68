"""Functions and types of Python that a program uses: `load("x.vega", tools=[look], types=[Found])`.

The checker knows what each function takes and gives. A function is called with what Python expects,
its result is held to its hint, and models come back as their instances.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, cast

from vegakit.errors import ToolFailed, UserError
from vegakit.lang import (
    ANY,
    NOTHING,
    NULL,
    ListOf,
    MapOf,
    OptionalOf,
    Parameter,
    Problem,
    RecordOf,
    Signature,
    Type,
    value_of,
)
from vegakit.ports import Tool
from vegakit.records import to_json
from vegakit.runtime.authored import RunProgram
from vegakit.runtime.compiled.hints import type_in, without_defaults
from vegakit.runtime.compiled.values import python_value
from vegakit.tools import FunctionTool, Rights, function_tool

__all__ = ["PYTHON", "Bridge", "PythonTool", "ToolLike"]

ToolLike: TypeAlias = FunctionTool | RunProgram | Callable[..., Any]

PYTHON = "python:"
"""Before the names of these functions in bytecode."""


class PythonTool:
    """One as a program calls it: it gives a value, in JSON. `tool` is the one that models call."""

    def __init__(self, tool: FunctionTool) -> None:
        self.tool = tool
        self.spec, self.timeout_ms = tool.spec, tool.timeout_ms
        self.repeatable, self.audit = tool.repeatable, tool.audit
        self.signature = _signature(tool)

    def rights(self, arguments: Mapping[str, Any]) -> Rights:
        return self.tool.rights(self._given(arguments))

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        from pydantic_core import to_jsonable_python

        gave = to_jsonable_python(await self.tool.value(self._given(arguments), deps))
        result = self.signature.result
        made = value_of(NULL if result == NOTHING else result, gave)
        if isinstance(made, Problem):
            raise ToolFailed(f"{self.spec.name} gave something else than it says: {made}")
        return to_json(made).decode()

    def _given(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        plain = python_value(dict(arguments))
        return cast("dict[str, Any]", without_defaults(self.spec.parameters, plain))


class Bridge:
    def __init__(self, tools: Iterable[ToolLike] = (), types: Iterable[Any] = ()) -> None:
        given = list(tools)
        authors = {one.spec.name: one for one in given if isinstance(one, RunProgram)}
        made = [PythonTool(_tool(one)) for one in given if not isinstance(one, RunProgram)]
        self.tools: dict[str, Tool] = {tool.spec.name: tool.tool for tool in made}
        self.tools |= authors
        self.called: dict[str, Tool] = {f"{PYTHON}{tool.spec.name}": tool for tool in made}
        self.signatures = {tool.spec.name: tool.signature for tool in made}
        self.signatures |= {name: Signature(name, (), NOTHING) for name in authors}
        self.types: dict[str, Type] = {}
        self._adapters: dict[str, Any] = {}
        for one in types:
            self._take(one)

    def result(self, kind: Type, value: Any) -> Any:  # noqa: ANN401
        """A value of Python with the models that were given."""
        match kind:
            case _ if value is None:
                return None
            case OptionalOf(inner=inner):
                return self.result(inner, value)
            case ListOf(inner=inner):
                return [self.result(inner, item) for item in value]
            case MapOf(inner=inner):
                return {key: self.result(inner, item) for key, item in value.items()}
            case RecordOf(name=name) if self.types.get(name) == kind:
                adapter = self._adapters[name]
                return adapter.validate_python(without_defaults(adapter.json_schema(), value))
            case _:
                return value

    def _take(self, model: Any) -> None:  # noqa: ANN401
        from pydantic import TypeAdapter

        adapter: TypeAdapter[Any] = TypeAdapter(model)
        name = getattr(model, "__name__", repr(model))
        kind = type_in(adapter.json_schema(), f"the type {name}")
        if not isinstance(kind, RecordOf) or not kind.name.isidentifier():
            raise UserError(f"types=[{name}]: a program is given types with fields and a name")
        self.types[kind.name] = kind
        self._adapters[kind.name] = adapter


def _tool(one: FunctionTool | Callable[..., Any]) -> FunctionTool:
    return one if isinstance(one, FunctionTool) else function_tool(one)


def _signature(tool: FunctionTool) -> Signature:
    from pydantic import TypeAdapter

    name, schema = tool.spec.name, tool.spec.parameters
    if not name.isidentifier():
        raise UserError(f"a program cannot call {name!r}; give the tool a name without signs")
    record = type_in({"title": name, "properties": {}, **schema}, f"a parameter of {name}")
    assert isinstance(record, RecordOf)
    params = tuple(
        Parameter(
            field, kind, isinstance(kind, OptionalOf) and field not in schema.get("required", ())
        )
        for field, kind in record.fields
    )
    if tool.result is None or tool.result is type(None):
        return Signature(name, params, NOTHING)
    result = (
        ANY
        if tool.result is Any
        else type_in(TypeAdapter(tool.result).json_schema(), f"the result of {name}")
    )
    return Signature(name, params, result)
