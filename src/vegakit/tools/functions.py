"""A typed Python function as a tool: its schema from hints and docstring, its arguments validated.

Leading parameters called `ctx` and `deps` are not seen by the model: `ctx` is the tool's own
context (see `granted`), `deps` is what the caller of the agent passed. A plain `def` runs in a
thread, so that it cannot stall the loop. The function is the user's own code: it is trusted.
"""

import asyncio
import inspect
import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NotRequired, get_type_hints

from vegakit.conversation import ToolSpec
from vegakit.errors import UserError
from vegakit.policy import Grant
from vegakit.ports import AuditLevel
from vegakit.records import canonical
from vegakit.tools.rights import Rights, declared

if TYPE_CHECKING:
    from pydantic import ValidationError

__all__ = ["FunctionTool", "ToolArgumentsError", "function_tool", "problems_of"]

_DEFAULT_TIMEOUT_MS = 60_000


class ToolArgumentsError(UserError):
    pass


class FunctionTool:
    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        repeatable: bool = False,
        timeout_ms: int = _DEFAULT_TIMEOUT_MS,
        context: object = None,
        audit: str = AuditLevel.BASIC,
    ) -> None:
        from pydantic import TypeAdapter

        self._function = function
        self._context = context
        self.result: Any = get_type_hints(function, include_extras=True).get("return", Any)
        self._given = _given(function)
        self._arguments: TypeAdapter[Any] = TypeAdapter(_arguments_type(function))
        self.repeatable = repeatable
        self.audit = AuditLevel(audit)
        self.timeout_ms = timeout_ms
        self.spec = ToolSpec(
            name or function.__name__,
            inspect.getdoc(function) or "",
            self._arguments.json_schema(),
        )

    def rights(self, arguments: Mapping[str, Any]) -> Rights:
        """Those it was declared with; of a plain function nobody knows."""
        grant: Grant | None = getattr(self._context, "grant", None)
        return Rights() if grant is None else declared(grant)

    @property
    def brings_text(self) -> bool:
        """A function that may read files, fetch or run commands gives on what others wrote."""
        grant: Grant | None = getattr(self._context, "grant", None)
        return grant is not None and bool(grant.capabilities)

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        result = await self._value(arguments, deps)
        return result if isinstance(result, str) else canonical(_plain(result)).decode()

    async def value(self, arguments: Mapping[str, Any], deps: object) -> object:
        """What the function returned, as it is."""
        return await self._value(arguments, deps)

    async def _value(self, arguments: Mapping[str, Any], deps: object) -> object:
        checked = self._check(arguments)
        given = {"ctx": self._context, "deps": deps}
        before = [given[name] for name in self._given]
        if inspect.iscoroutinefunction(self._function):
            return await self._function(*before, **checked)
        return await asyncio.to_thread(self._function, *before, **checked)

    def _check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        from pydantic import ValidationError

        try:
            return self._arguments.validate_python(dict(arguments))
        except ValidationError as error:
            raise ToolArgumentsError(
                f"the arguments of {self.spec.name} are wrong: {problems_of(error)}"
            ) from error


def problems_of(error: "ValidationError") -> str:
    """What is wrong where, in words a model can act on."""
    found = [f"{'.'.join(map(str, e['loc'])) or 'answer'}: {e['msg']}" for e in error.errors()]
    return "; ".join(found[:10])


def function_tool(function: Callable[..., Any]) -> FunctionTool:
    return FunctionTool(function)


def _arguments_type(function: Callable[..., Any]) -> type:
    """A TypedDict of the function's parameters, which pydantic turns into schema and checks."""
    from pydantic import ConfigDict, with_config
    from typing_extensions import TypedDict  # typing's own is too old before 3.12

    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    given = len(_given(function))
    for parameter in list(inspect.signature(function).parameters.values())[given:]:
        if parameter.kind in {
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
            parameter.POSITIONAL_ONLY,
        }:
            raise UserError(
                f"tool {function.__name__}: parameter {parameter} cannot be described to a model; "
                "give the function named parameters only"
            )
        if parameter.name not in hints:
            raise UserError(
                f"tool {function.__name__}: parameter {parameter.name!r} has no type; "
                f"write for example `{parameter.name}: str`"
            )
        hint = hints[parameter.name]
        fields[parameter.name] = hint if parameter.default is parameter.empty else NotRequired[hint]
    made = TypedDict(function.__name__, fields)  # pyright: ignore[reportGeneralTypeIssues, reportArgumentType]
    return with_config(ConfigDict(extra="forbid"))(made)


def _given(function: Callable[..., Any]) -> list[str]:
    """The leading parameters that we fill in."""
    names = inspect.signature(function).parameters
    return list(itertools.takewhile(lambda name: name in ("ctx", "deps"), names))


def _plain(result: object) -> object:
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(result)
