"""What a program reaches outside of itself: functions of Python, MCP servers, files of tools.

All of it is found before the program runs, so that one that lacks something does nothing at all.
"""

from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vegakit.errors import BugError, SettingsError, UserError
from vegakit.lang import AgentSpec, Module, Op
from vegakit.policy import for_model, sanitise
from vegakit.ports import Launched, Ran, Tool
from vegakit.runtime.compiled.bridge import PYTHON
from vegakit.runtime.compiled.library import grant_of
from vegakit.runtime.compiled.values import python_value
from vegakit.tools import Place, Sandboxes

if TYPE_CHECKING:
    from vegakit.runtime.compiled.loading import VegaProgram
    from vegakit.runtime.runtime import Runtime

__all__ = ["Outside", "outside_of"]

_MCP = "mcp:"
_MARKED = for_model(sanitise("|")).split("|")


@dataclass(frozen=True)
class Outside:
    """`called` are by the names that bytecode has for them; `given` are the tools of agents beside
    those that are written in Vega, by the name of the agent."""

    called: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    given: Mapping[str, Mapping[str, Tool]] = field(default_factory=dict[str, Mapping[str, Tool]])


class _ServerTool:
    """A tool of a server as a program calls it: with plain JSON, and without the marks that a model
    needs around what it is told. What the program sends on is the program's own message."""

    def __init__(self, inner: Tool) -> None:
        self._inner = inner
        self.spec, self.timeout_ms = inner.spec, inner.timeout_ms
        self.repeatable = inner.repeatable

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        """What some tools have beside: rights, what is kept of its calls."""
        return getattr(self._inner, name)

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        from pydantic_core import to_jsonable_python

        plain = to_jsonable_python(python_value(dict(arguments)))
        said = await self._inner.call(plain, deps)
        return said.removeprefix(_MARKED[0]).removesuffix(_MARKED[1])


async def outside_of(
    program: "VegaProgram", runtime: "Runtime", allowed: Sequence[str] | None = None
) -> Outside:
    module = program.module
    python = {} if program.bridge is None else program.bridge.tools
    called = {} if program.bridge is None else dict(program.bridge.called)
    servers = {name: await _offered(name, runtime) for name in _servers(module)}
    for server, tools in servers.items():
        called |= {f"{_MCP}{server}.{name}": _ServerTool(tool) for name, tool in tools.items()}
    for name in _names(module):
        if name not in called:
            raise _missing(module, name, servers)
    own = {tool.name for tool in module.tools}
    files = _Files(program, runtime, allowed)
    given = {agent.name: _given(module, agent, own, python, servers) for agent in module.agents}
    return Outside(
        called, {agent.name: given[agent.name] | files.tools(agent) for agent in module.agents}
    )


def _servers(module: Module) -> list[str]:
    return sorted({*module.mcp, *(server for agent in module.agents for server in agent.mcp)})


async def _offered(server: str, runtime: "Runtime") -> dict[str, Tool]:
    """By the names that programs write."""
    try:
        tools = await runtime.mcp.tools(server)
    except SettingsError as error:
        raise UserError(
            f'{error}; describe it there: [mcp.{server}] with command = ["…"] or url = "…", '
            f"then type: vega mcp accept {server}"
        ) from None
    return {tool.spec.name.partition("__")[2]: tool for tool in tools}


def _names(module: Module) -> Iterator[str]:
    """Of all that its code calls outside."""
    for function in module.functions:
        for row in function.code:
            if row[0] == Op.HOST:
                name, _, _ = module.constants[row[2]].partition("(")
                if name.startswith((PYTHON, _MCP)):
                    yield name


def _missing(module: Module, name: str, servers: Mapping[str, Mapping[str, Tool]]) -> UserError:
    kind, _, what = name.partition(":")
    if f"{kind}:" == PYTHON:
        return _not_given(module, what)
    server, _, tool = what.partition(".")
    known = ", ".join(sorted(servers.get(server, ()))) or "none"
    return UserError(
        f"{module.name} calls {tool} of the MCP server {server}; accepted of it are: {known}"
    )


def _not_given(module: Module, name: str) -> UserError:
    return UserError(
        f"{module.name} uses the Python function {name}, and was not given it; "
        f"write: vegakit.load({module.name!r}, tools=[{name}])"
    )


def _given(
    module: Module,
    agent: AgentSpec,
    own: set[str],
    python: Mapping[str, Tool],
    servers: Mapping[str, Mapping[str, Tool]],
) -> dict[str, Tool]:
    found: dict[str, Tool] = {}
    for name in agent.tools:
        if name in python and name not in own:
            found[name] = python[name]
        elif name not in own:
            raise _not_given(module, name)
    for server in agent.mcp:
        found |= {tool.spec.name: tool for tool in servers[server].values()}
    return found


class _Files:
    """Their tools may do what the program may, as its main function declares, and no more."""

    def __init__(
        self, program: "VegaProgram", runtime: "Runtime", allowed: Sequence[str] | None
    ) -> None:
        module, self._root = program.module, program.root.resolve()
        self._grant = grant_of(module.rights[module.functions[module.main].rights], allowed)
        self._sandbox = _Sandbox(runtime.sandboxes, Place(self._root))

    def tools(self, agent: AgentSpec) -> dict[str, Tool]:
        return {tool.spec.name: tool for name in agent.yaml for tool in self._in(name)}

    def _in(self, name: str) -> tuple[Tool, ...]:
        from vegakit.tools import ToolFile

        path = (self._root / name).resolve()
        if not path.is_relative_to(self._root):
            raise UserError(f'yaml "{name}" leads out of the project; name a file inside it')
        return ToolFile(path, self._grant, sandbox=self._sandbox, root=self._root).load()


class _Sandbox:
    """Opened with the first command."""

    name = "the sandbox of the runtime"

    def __init__(self, sandboxes: Sandboxes, place: Place) -> None:
        self._sandboxes, self._place = sandboxes, place

    def run(self, argv: Sequence[str], *, owner: str, said: bytes = b"") -> Awaitable[Ran]:
        del owner  # who calls is known to the runtime
        return self._sandboxes.run(argv, self._place, said)

    def serve(
        self, argv: Sequence[str], *, owner: str, env: Mapping[str, str]
    ) -> AbstractAsyncContextManager[Launched]:
        raise BugError(f"{argv[0]}: a file of tools runs commands to their end")
