"""Python functions as tools and Python types as answers: their schema and validation, the rights a
tool declares, and unambiguous tool names.
"""

import asyncio
import inspect
import itertools
import re
import unicodedata
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from copy import deepcopy
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, NotRequired, Protocol, cast, get_type_hints

from msgspec import Struct
from typing_extensions import ParamSpec, TypeVar

from vegakit.conversation import OutputSpec, ToolSpec
from vegakit.errors import UserError
from vegakit.ids import Digest
from vegakit.policy import AccessRequest, Grant, Use
from vegakit.ports import AuditLevel, Tool
from vegakit.records import canonical, digest128

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError


# Names of tools, told apart as a reader would: no tool can be taken for another.


def by_name(tools: Iterable[Tool]) -> dict[str, Tool]:
    """Return tools by name, or raise `UserError` if a model could take two for each other."""
    found: dict[str, Tool] = {}
    for tool in tools:
        name = tool.spec.name
        other = found.setdefault(fold_name(name), tool)
        if other is not tool:
            raise UserError(
                f"a model could take the tools {other.spec.name!a} and {name!a} for each "
                "other; rename one of them, or leave one out"
            )
    return {tool.spec.name: tool for tool in found.values()}


def fold_name(name: str) -> str:
    """Names that fold to the same could be taken for each other."""
    return re.sub("[-._]", "_", unicodedata.normalize("NFKC", name).casefold())


# A tool describes a call before it is made, for whoever permits and audits it.
#
# A tool may have a method `rights(arguments) -> ToolRights`, an attribute `audit` and a method
# `contents(arguments)`. One that has none of them may want anything of the world, and says
# nothing. One with a true attribute `returns_untrusted_text` gives a model text that others
# wrote.


current_effect: ContextVar[str] = ContextVar("vega_effect", default="")
"""The key of the tool call that is running; empty outside of one."""


class ToolRights(Struct, frozen=True):
    """`wanted` is None where nothing is declared; `grant` is what the tool may use at most."""

    wanted: tuple[AccessRequest, ...] | None = None
    grant: Grant = Grant()
    sandboxed: bool = False


def declared_rights(grant: Grant) -> ToolRights:
    """Return the rights of a tool whose arguments do not tell what of its grant a call will use."""
    return ToolRights(tuple(map(Use, grant.capabilities)), grant)


def rights_of(tool: Tool, arguments: Mapping[str, Any]) -> ToolRights:
    """Return what a tool says that a call wants; a tool that says nothing may want anything."""
    tell: Callable[[Mapping[str, Any]], ToolRights] | None = getattr(tool, "rights", None)
    return ToolRights() if tell is None else tell(arguments)


def audit_level(tool: Tool) -> AuditLevel:
    """Return how much of a tool's calls is recorded."""
    return AuditLevel(getattr(tool, "audit", AuditLevel.BASIC))


def returns_untrusted_text(tool: Tool) -> bool:
    """Whether what it says is marked as text that is not to be trusted, result or error. Tools of
    servers and commands mark what is not their own words themselves."""
    return bool(getattr(tool, "returns_untrusted_text", False))


async def contents_of(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Digest]:
    """Digests of the files that it would run or send, by path."""
    tell: Callable[[Mapping[str, Any]], Awaitable[dict[str, Digest]]] | None
    tell = getattr(tool, "contents", None)
    return {} if tell is None else await tell(arguments)


# A typed Python function as a tool: its schema from hints and docstring, its arguments validated.
#
# Leading parameters called `ctx` and `deps` are not seen by the model: `ctx` is the tool's own
# context (see `granted`), `deps` is what the caller of the agent passed. A plain `def` runs in a
# thread, so that it cannot stall the loop. The function is the user's own code: it is trusted.


P = ParamSpec("P", default=...)
R = TypeVar("R", default=Any)

_NOTHING = Grant()
_DEFAULT_TIMEOUT_MS = 60_000


class ToolArgumentsError(UserError):
    """The arguments do not fit the tool."""


class FunctionTool(Generic[P, R]):
    """A Python function as a tool. Called, it is the function, as in a test of it."""

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        idempotent: bool = False,
        timeout_ms: int = _DEFAULT_TIMEOUT_MS,
        context: object = None,
        audit: str = AuditLevel.BASIC,
    ) -> None:
        from pydantic import TypeAdapter

        update_wrapper(self, function)
        self._function = function
        self._context = context
        self.result: Any = get_type_hints(function, include_extras=True).get("return", Any)
        self._given = _given(function)
        self._arguments: TypeAdapter[Any] = TypeAdapter(_arguments_type(function))
        self.idempotent = idempotent
        self.audit = AuditLevel(audit)
        self.timeout_ms = timeout_ms
        self.spec = ToolSpec(
            name or function.__name__,
            inspect.getdoc(function) or "",
            self._arguments.json_schema(),
        )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself, with every argument it names, `ctx` and `deps` too."""
        return self._function(*args, **kwargs)

    def rights(self, arguments: Mapping[str, Any]) -> ToolRights:
        """Those it was declared with; of one that says nothing, as a plain function, nobody knows:
        its code may do more than the handles that it is given."""
        grant: Grant = getattr(self._context, "grant", _NOTHING)
        is_declared = getattr(self._context, "is_declared", False)
        return declared_rights(grant) if is_declared else ToolRights(grant=grant)

    @property
    def returns_untrusted_text(self) -> bool:
        """A function that may read files, fetch or run commands gives on what others wrote."""
        grant: Grant | None = getattr(self._context, "grant", None)
        return grant is not None and bool(grant.capabilities)

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        result = await self._value(arguments, deps)
        return result if isinstance(result, str) else canonical(_plain(result)).decode()

    async def value(self, arguments: Mapping[str, Any], deps: object) -> object:
        """Call the function and return its result as it is."""
        return await self._value(arguments, deps)

    async def _value(self, arguments: Mapping[str, Any], deps: object) -> object:
        checked = self._check(arguments)
        given = {"ctx": self._context, "deps": deps}
        before = [given[name] for name in self._given]
        function = cast("Callable[..., Any]", self._function)
        if inspect.iscoroutinefunction(function):
            return await function(*before, **checked)
        return await asyncio.to_thread(function, *before, **checked)

    def _check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        from pydantic import ValidationError

        try:
            return self._arguments.validate_python(dict(arguments))
        except ValidationError as error:
            raise ToolArgumentsError(
                f"the arguments of {self.spec.name} are wrong: {problems_of(error)}"
            ) from error


def problems_of(error: "ValidationError") -> str:
    """Return what is wrong where, in words a model can act on."""
    found = [f"{'.'.join(map(str, e['loc'])) or 'answer'}: {e['msg']}" for e in error.errors()]
    return "; ".join(found[:10])


def function_tool(function: Callable[P, R]) -> FunctionTool[P, R]:
    """Return a function as a tool that declares no rights."""
    if not callable(function):
        raise UserError(
            f"a tool is a function, not {function!r:.60}; write its name without calling it, such "
            "as tools=[search] and not tools=[search()]"
        )
    return FunctionTool(function)


def as_tools(given: Sequence[Tool | Callable[..., Any]]) -> list[Tool]:
    """Return the tools of an agent, functions among them as tools that declare no rights."""
    if callable(given):
        name = getattr(given, "__name__", "search")
        raise UserError(f"tools is one function; write a list: tools=[{name}]")
    return [
        cast("Tool", one)
        if hasattr(one, "spec") and hasattr(one, "call")
        else function_tool(cast("Callable[..., Any]", one))
        for one in given
    ]


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


# A tool that a person must approve, as those of an MCP server that says nothing of itself.


class Proposal(Struct, frozen=True):
    """A proposal is a call as it would be made now. `schema` covers all that the tool says of
    itself; `contents` are digests of the files it runs or sends, by path."""

    tool: str
    arguments: Mapping[str, Any]
    schema: Digest
    wanted: AccessRequest
    contents: dict[str, Digest] = {}


class Approver(Protocol):
    """An approver asks a person about a call."""

    def approve(self, propose: Callable[[], Awaitable[Proposal]]) -> Awaitable[None]:
        """Return when the call may be made, once, now; raise `CapabilityDenied` if it may not.
        The call may change while a person thinks: propose again before returning."""
        ...


class ApprovedTool:
    """A tool that waits for an approval before each call, at most `wait_ms` longer than the tool
    itself may take. `wanted` is what a call asks of the world."""

    def __init__(
        self, inner: Tool, approver: Approver, wanted: AccessRequest, wait_ms: int = 3_600_000
    ) -> None:
        self._inner, self._approver, self._wanted = inner, approver, wanted
        self.idempotent, self.audit = inner.idempotent, audit_level(inner)
        self.timeout_ms = inner.timeout_ms + wait_ms

    @property
    def spec(self) -> ToolSpec:
        """Return the inner tool's own. A server may change it while a person thinks."""
        return self._inner.spec

    def rights(self, arguments: Mapping[str, Any]) -> ToolRights:
        """Return what the inner tool says that this call wants."""
        return rights_of(self._inner, arguments)

    async def contents(self, arguments: Mapping[str, Any]) -> dict[str, Digest]:
        """Return the digests of the files that this call runs or sends."""
        return await contents_of(self._inner, arguments)

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        """Call the tool once its approver allows it."""
        # A copy, so that nobody can change the arguments between the approval and the call; and
        # the approver is shown a copy of that, so that it cannot change them either.
        own = deepcopy(dict(arguments))

        async def propose() -> Proposal:
            shown, schema = deepcopy(own), Digest(digest128(self.spec))
            contents = await self.contents(shown)
            return Proposal(self.spec.name, shown, schema, self._wanted, contents)

        await self._approver.approve(propose)
        return await self._inner.call(own, deps)


# A Python type as the shape of an answer: its schema for the model, its check for what came back.
#
# Models answer with objects, so a type that is not one (bool, a list, a union) is wrapped in
# `{"result": …}` on the way out and unwrapped on the way in.


OutputT = TypeVar("OutputT")


class OutputType(Generic[OutputT]):
    """The type of an agent's answers, with its schema."""

    def __init__(self, kind: type[OutputT]) -> None:
        self._kind = kind
        self._adapter: TypeAdapter[Any] | None = None
        self._wrapped = False
        self._found: tuple[str, OutputT] | None = None
        """The answer that was looked at last, for whoever wants its value next."""
        self.spec: OutputSpec | None = None
        if kind is not str:
            self._prepare()

    def _prepare(self) -> None:
        from pydantic import TypeAdapter

        adapter = TypeAdapter(self._kind)
        schema = adapter.json_schema()
        self._wrapped = schema.get("type") != "object"
        if self._wrapped:
            definitions = schema.pop("$defs", None)
            schema = {
                "type": "object",
                "properties": {"result": schema},
                "required": ["result"],
                "additionalProperties": False,
            } | ({"$defs": definitions} if definitions else {})
        self._adapter = adapter
        self.spec = OutputSpec(getattr(self._kind, "__name__", "Output"), schema)

    def problem(self, text: str) -> str | None:
        """Return what is wrong with an answer, in words the model can act on."""
        from pydantic import ValidationError

        try:
            self._found = text, self.value(text)
        except ValidationError as error:
            return problems_of(error)
        return None

    def value(self, text: str) -> OutputT:
        """Return an answer as a value of the type."""
        if self._adapter is None:
            return text  # pyright: ignore[reportReturnType]
        # Given out once: nobody else may hold a value that its owner can change.
        found, self._found = self._found, None
        if found is not None and found[0] is text:
            return found[1]
        if not self._wrapped:
            return self._adapter.validate_json(text)
        from pydantic import TypeAdapter

        whole = TypeAdapter(dict[str, Any]).validate_json(text)
        return self._adapter.validate_python(whole.get("result"))
