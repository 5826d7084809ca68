"""A compiled program on this host: the tools and servers that it names outside itself, and its
functions as bodies (host).
"""

import logging
import mimetypes
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Protocol, cast

from vegakit.conversation import ToolSpec, ToolSpec as ModelTool
from vegakit.errors import BugError, ErrorClass, SettingsError, ToolFailed, UserError
from vegakit.host.agents import Agent, FiberTool, ValueTool
from vegakit.host.budgets import place_of, shared_budget_of
from vegakit.host.python_interop import PYTHON, python_value
from vegakit.host.services import CompiledProgram, HostServices
from vegakit.lang import (
    LIBRARY,
    AgentSpec,
    CompiledTool,
    Module,
    Op,
    RecordOf,
    Rights,
    SupervisorSpec,
    in_project,
    schema_of,
)
from vegakit.policy import (
    BreakerRule,
    ChildType,
    Grant,
    OnExceed,
    PipelineDefinition,
    Rate,
    RateRule,
    RateStrategy,
    Resend,
    RestartRule,
    RestartStrategy,
    RetryRule,
    delegate,
    unmarked,
)
from vegakit.ports import AuditLevel, CommandResult, LaunchedChild, Tool
from vegakit.program import ChildSpec, FiberBody, GroupSpec, PipelineBody, ProcessSpec, backoff_of
from vegakit.records import digest128, to_json
from vegakit.tools import SandboxPool, SandboxSpec, ToolContext, ToolRights, declared_rights
from vegakit.vm import on_lookahead_bug

# Library functions that touch the world, each under the rights of the function that calls it.
#
# They answer in JSON, in the form that values of programs have.


_LOG = logging.getLogger("vegakit")
_TIMEOUT_MS = 180_000
_MOST_OUTPUT = 2_000
_MOST_MEDIA = 5_000_000


class LibraryTool(ValueTool):
    """A function of the library as a tool. `file::read@2` is `file::read` under the rights number 2
    of a module."""

    timeout_ms = _TIMEOUT_MS
    audit = AuditLevel.BASIC

    def __init__(self, name: str, number: int, context: ToolContext) -> None:
        self.spec = ToolSpec(f"{name}@{number}", LIBRARY[name].doc, {})
        self.idempotent = LIBRARY[name].idempotent
        self._function = FUNCTIONS[name]
        self._context = context

    def rights(self, arguments: Mapping[str, Any]) -> ToolRights:
        """Return the rights that a call needs."""
        return declared_rights(self._context.grant)

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        """Call the function, and return its result as JSON."""
        return to_json(await self._function(self._context, **arguments)).decode()


def library_tools(
    module: Module,
    root: Path,
    allowed: Sequence[str] | None,
    within: Rights | None = None,
    most: Grant | None = None,
) -> dict[str, Tool]:
    """Return the library functions that code may call. `within` are the rights of a tool, which the
    functions that it calls do not exceed, and `most` what nothing here exceeds."""
    tools: dict[str, Tool] = {}
    for number, own in enumerate(module.rights):
        rights = own if within is None else _both(own, within)
        grant = grant_of(rights, allowed) if most is None else _cut(rights, most)
        context = ToolContext(root, grant)
        made = (LibraryTool(name, number, context) for name in FUNCTIONS)
        tools |= {tool.spec.name: tool for tool in made}
    return tools


def _both(one: Rights, other: Rights) -> Rights:
    """Return the patterns that stand in both lists: less, rather than more, than their sense would
    allow."""
    if one == other:
        return one
    capabilities = [
        *(name for name in one.capabilities if _covered(name, other.capabilities)),
        *(name for name in other.capabilities if _covered(name, one.capabilities)),
    ]
    return Rights(
        tuple(dict.fromkeys(capabilities)),
        _common(one.paths, other.paths),
        _common(one.commands or (), other.commands or ()),
        _common(one.hosts or (), other.hosts or ()),
    )


def _covered(name: str, by: Sequence[str]) -> bool:
    return any(name == branch or name.startswith(f"{branch}::") for branch in by)


def _common(one: tuple[str, ...] | None, other: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if one is None or other is None:
        return other if one is None else one
    return tuple(pattern for pattern in one if pattern in other)


def grant_of(rights: Rights, allowed: Sequence[str] | None) -> Grant:
    """Return what the source says, less what its runner does not allow. Files without paths are
    those of the project; hosts and commands have to be named."""
    capabilities = (name for name in rights.capabilities if allowed is None or name in allowed)
    paths = ("**",) if rights.paths is None else tuple(map(in_project, rights.paths))
    return Grant(
        tuple(capabilities),
        paths=paths,
        commands=rights.commands or (),
        hosts=rights.hosts or (),
    )


def _cut(rights: Rights, most: Grant) -> Grant:
    """Return what both allow; what the source leaves open is as `most` says."""
    wished = Grant(
        rights.capabilities,
        paths=most.paths if rights.paths is None else tuple(map(in_project, rights.paths)),
        commands=most.commands if rights.commands is None else rights.commands,
        hosts=most.hosts if rights.hosts is None else rights.hosts,
    )
    return delegate(most, wished)


async def _read(ctx: ToolContext, path: str) -> str:
    content = await ctx.files.read(in_project(path))
    return content.decode(errors="backslashreplace")


async def _attach(ctx: ToolContext, message: Any) -> Any:  # noqa: ANN401
    """Replace each file by one that has its content in its address."""
    if isinstance(message, list):
        return [await _attach(ctx, item) for item in cast("list[Any]", message)]
    fields = cast("dict[str, Any]", message) if isinstance(message, dict) else {}
    if fields.get("$") != "file":
        return cast("Any", message)
    path = in_project(str(fields["of"]))
    kind, _ = mimetypes.guess_type(path)
    if kind is None:
        raise ToolFailed(f"{path}: its ending does not say what it is; name it like photo.png")
    content = await ctx.files.read(path)
    if len(content) > _MOST_MEDIA:
        raise ToolFailed(f"{path} has {len(content):,} bytes; at most {_MOST_MEDIA:,} can be sent")
    return {"$": "file", "of": f"data:{kind};base64,{b64encode(content).decode()}"}


async def _write(ctx: ToolContext, path: str, content: str) -> None:
    await ctx.files.write(in_project(path), content.encode())


async def _exists(ctx: ToolContext, path: str) -> bool:
    with suppress(ToolFailed):
        return bool(await ctx.files.stat(in_project(path)))
    return False


async def _list_paths(ctx: ToolContext, path: str) -> list[str]:
    listing = await ctx.files.list(in_project(path))
    return sorted((PurePosixPath(path) / entry.name).as_posix() for entry in listing.entries)


async def _fetch(ctx: ToolContext, url: str, body: str = "", *, method: str) -> dict[str, Any]:
    answer = await ctx.http.fetch(method, url, body=body.encode())
    return {"status": answer.status, "body": answer.body.decode(errors="backslashreplace")}


async def _exec(ctx: ToolContext, command: str) -> str:
    ran = await _ran(ctx, command)
    if ran["code"]:
        output = (ran["err"] or ran["out"]).strip()[-_MOST_OUTPUT:]
        raise ToolFailed(f"{command} ended with exit code {ran['code']}: {output}")
    return ran["out"]


async def _ran(ctx: ToolContext, command: str, *, writable: bool = True) -> dict[str, Any]:
    ran = await ctx.exec(command, writable=writable)
    return {"code": ran.exit_code, "out": ran.stdout, "err": ran.stderr}


FUNCTIONS: dict[str, Callable[..., Awaitable[Any]]] = {
    "file::read": _read,
    "file::write": _write,
    "file::exists": _exists,
    "file::attach": _attach,
    "file::list": _list_paths,
    "http::get": partial(_fetch, method="GET"),
    "http::post": partial(_fetch, method="POST"),
    "exec": _exec,
    "exec::run": _ran,
    "exec::look": partial(_ran, writable=False),
}


# What a program reaches outside of itself: functions of Python, MCP servers, files of tools.
#
# All of it is found before the program runs, so that one that lacks something does nothing at all.


_MCP = "mcp:"


@dataclass(frozen=True)
class Externals:
    """The tools a program uses from outside. `called` are by the names that bytecode has for them;
    `given` are the tools of agents beside those that are written in Vega, by the name of the
    agent."""

    called: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    given: Mapping[str, Mapping[str, Tool]] = field(default_factory=dict[str, Mapping[str, Tool]])


class _ServerTool:
    """A tool of a server as a program calls it: with plain JSON, and without the marks that a model
    needs around what it is told. What the program sends on is the program's own message."""

    def __init__(self, inner: Tool) -> None:
        self._inner = inner
        self.spec, self.timeout_ms = inner.spec, inner.timeout_ms
        self.idempotent = inner.idempotent

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        """Return what some tools have beside: rights, what is kept of its calls."""
        return getattr(self._inner, name)

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        from pydantic_core import to_jsonable_python

        plain = to_jsonable_python(python_value(dict(arguments)))
        said = await self._inner.call(plain, deps)
        return unmarked(said)


async def find_externals(
    program: CompiledProgram, services: HostServices, allowed: Sequence[str] | None = None
) -> Externals:
    """Find the tools that a program uses from outside, and refuse what is not there."""
    module = program.module
    servers = {name: await _offered(name, services) for name in _servers(module)}
    found, called = python_externals(program, servers), dict[str, Tool]()
    for server, tools in servers.items():
        called |= {f"{_MCP}{server}.{name}": _ServerTool(tool) for name, tool in tools.items()}
    called |= found.called
    if missing := next((name for name in _names(module) if name not in called), None):
        raise _missing(module, missing, servers)
    files, given = _Files(program, services, allowed), found.given
    every = {one.name: {**given[one.name], **files.tools(one)} for one in module.agents}
    return Externals(called, every)


def python_externals(
    program: CompiledProgram, servers: Mapping[str, Mapping[str, Tool]] | None = None
) -> Externals:
    """Return the functions of Python that a program was given, and its agents' of `servers`."""
    module, interop = program.module, program.interop
    python, called = ({}, {}) if interop is None else (interop.tools, interop.called)
    given = {agent.name: _given(module, agent, python, servers or {}) for agent in module.agents}
    return Externals(called, given)


def _servers(module: Module) -> list[str]:
    return sorted({*module.mcp, *(server for agent in module.agents for server in agent.mcp)})


async def _offered(server: str, services: HostServices) -> dict[str, Tool]:
    """Return the tools by the names that programs write."""
    try:
        tools = await services.mcp_tools(server)
    except SettingsError as error:
        raise UserError(
            f'{error}; describe it there: [mcp.{server}] with command = ["…"] or url = "…", '
            f"then type: vega mcp accept {server}"
        ) from None
    return {tool.spec.name.partition("__")[2]: tool for tool in tools}


def _names(module: Module) -> Iterator[str]:
    """Return the names of all that the code of a program calls outside."""
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
    python: Mapping[str, Tool],
    servers: Mapping[str, Mapping[str, Tool]],
) -> dict[str, Tool]:
    found, own = dict[str, Tool](), {tool.name for tool in module.tools}
    for name in agent.tools:
        if name in python and name not in own:
            found[name] = python[name]
        elif name not in own:
            raise _not_given(module, name)
    for server in agent.mcp:
        found |= {tool.spec.name: tool for tool in servers.get(server, {}).values()}
    return found


class _Files:
    """The files of a program. Their tools may do what the program may, as its main function
    declares, and no more."""

    def __init__(
        self, program: CompiledProgram, services: HostServices, allowed: Sequence[str] | None
    ) -> None:
        module, self._root = program.module, program.root.resolve()
        self._grant = grant_of(module.rights[module.functions[module.main].rights], allowed)
        self._sandbox = _Sandbox(services.sandboxes, SandboxSpec(self._root))

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

    def __init__(self, sandboxes: SandboxPool, place: SandboxSpec) -> None:
        self._sandboxes, self._place = sandboxes, place

    def run(
        self, argv: Sequence[str], *, owner: str, said: bytes = b"", on_output: object = None
    ) -> Awaitable[CommandResult]:
        del owner, on_output  # who calls is known to the runtime, and nobody hears it meanwhile
        return self._sandboxes.run(argv, self._place, said)

    def serve(
        self, argv: Sequence[str], *, owner: str, env: Mapping[str, str]
    ) -> AbstractAsyncContextManager[LaunchedChild]:
        raise BugError(f"{argv[0]}: a file of tools runs commands to their end")


# Tools that are written in Vega, as agents know them.


class VegaTool(FiberTool):
    """A tool that a program declares: the machine runs it as a fiber; no host ever calls it."""

    timeout_ms = 600_000

    def __init__(self, spec: CompiledTool, process: ProcessSpec) -> None:
        name = spec.name.rpartition(".")[2].rpartition("::")[2]
        self.spec = ModelTool(name, spec.description, schema_of(RecordOf(name, spec.params)))
        self.idempotent = spec.idempotent
        self.process = process

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        """Raise: the machine runs this tool."""
        raise BugError(f"{self.spec.name} runs inside its program")


# Agents as a program declares them, made into agents of the runtime.


_PRIORITIES = {"realtime": 0, "high": 1, "normal": 2, "low": 3, "idle": 4}


def agent_of(
    spec: AgentSpec, tools: Mapping[str, Tool], program: str, *, memory: bool
) -> Agent[str]:
    """Return the agent that a program declares, whose budgets for each period have its name."""
    more: dict[str, Any] = {}
    word = spec.on_exceed or OnExceed.BLOCK
    shared = shared_budget_of(f"{program}/{spec.name}", spec.allowance, word)
    if spec.max_steps is not None:
        more["max_steps"] = spec.max_steps
    if spec.rate_limit is not None:
        more["rate"] = _rate(spec.rate_limit)
    if spec.circuit_breaker is not None:
        more["breaker"] = _breaker(spec.circuit_breaker)
    if spec.retry is not None:
        more["retry"] = _retry(spec.retry)
    return Agent(
        spec.name,
        spec.models if spec.fallbacks else spec.model,
        spec.system,
        tools=tuple(tools.values()),
        budget=None if shared else spec.allowance,
        on_exceed=word,
        shared_budget=shared,
        max_tokens=spec.max_tokens,
        temperature=spec.temperature,
        effort=spec.effort or None,
        memory="conversation" if memory else None,
        priority=_PRIORITIES.get(spec.priority, 2),
        timeout=None if spec.timeout_ms is None else spec.timeout_ms / 1000,
        **more,
    )


def _retry(settings: Mapping[str, Any]) -> RetryRule:
    rule = RetryRule()
    return RetryRule(
        settings.get("max_attempts", rule.max_attempts),
        backoff_of(settings["backoff"]) if "backoff" in settings else rule.backoff,
        tuple(ErrorClass(name) for name in settings.get("on", rule.on)),
        resend_unknown=Resend(settings.get("resend_unknown", rule.resend_unknown)),
    )


def _breaker(settings: Mapping[str, Any]) -> BreakerRule:
    rule = BreakerRule()
    return BreakerRule(
        settings.get("threshold", rule.threshold),
        settings.get("reset_after", rule.reset_after_ms),
        settings.get("probes", rule.probes),
    )


def _rate(settings: Mapping[str, Any]) -> RateRule:
    """Return the limits of `rate_limit`: requests and tokens in one time, and how many at once."""
    requests, tokens = settings.get("requests"), settings.get("tokens")
    per_ms, strategy = settings.get("per", 60_000), settings.get("strategy", RateStrategy.QUEUE)
    rate = None if requests is None else Rate(requests, per_ms, settings.get("burst", requests))
    most = None if tokens is None else Rate(tokens, per_ms, tokens)
    return RateRule(rate, most, settings.get("slots"), RateStrategy(strategy))


# A compiled program among the processes of a runtime: bodies for its functions, agents and tools.
#
# | in the module          | becomes                                                           |
# |------------------------|-------------------------------------------------------------------|
# | an agent               | two bodies: one for processes, one for sends to its name          |
# | a tool written in Vega | a fiber below the agent that calls it, with the tool's rights for |
# |                        | all that it calls                                                 |
# | a supervisor           | the spec of a group                                               |
# | rights                 | the tools of the library that its functions may reach             |


def _log_bug(what: str, error: Exception) -> None:
    _LOG.error("%s failed, which is a bug; the program goes on in order", what, exc_info=error)


on_lookahead_bug(_log_bug)  # here, because nothing looks ahead before a program is deployed


class Bodies(Protocol):
    """The place where bodies are put: the registry, or a part of it."""

    def prefix_for(self, names: Iterable[str]) -> str:
        """Return what tells these names from those of another program."""
        ...

    def register_fiber(self, name: str, body: FiberBody, tools: Mapping[str, Tool]) -> None:
        """Put a function of a program."""
        ...

    def register(self, body: Agent[Any]) -> str:
        """Put an agent, and return its name."""
        ...


@dataclass(frozen=True)
class Deployed:
    """A program whose bodies are in a registry. `tools` are those that its fibers may call, by the
    names they call them."""

    module: Module
    bodies: Mapping[str, str]
    tools: Mapping[str, Tool]

    def function(self, name: str) -> str:
        """Return the body of a function."""
        return self.bodies[name]


def deploy(
    module: Module,
    root: Path,
    registry: Bodies,
    allowed: Sequence[str] | None = None,
    externals: Externals | None = None,
    most: Grant | None = None,
    pipeline: PipelineDefinition | None = None,
) -> Deployed:
    """Put the bodies of a program into a registry, once for each program of a runtime and for what
    it is allowed. `most` is what it may touch at most. Main of a `pipeline` walks through it."""
    externals = externals or Externals()
    prefix = registry.prefix_for(function.name for function in module.functions)
    tools = library_tools(module, root, allowed, most=most) | dict(externals.called)
    narrow = {
        tool.name: library_tools(module, root, allowed, module.rights[tool.rights], most)
        | dict(externals.called)
        for tool in module.tools
    }
    spawns: dict[str, ChildSpec] = {}
    stateless: dict[str, ProcessSpec] = {}
    bodies: dict[str, str] = {}
    known, digest, make = _parameters(tools), _digest(module), FiberBody
    if pipeline is not None:
        digest, make = digest128(pipeline), partial(PipelineBody, definition=pipeline)
    for number, function in enumerate(module.functions):
        name = bodies[function.name] = f"{prefix}{function.name}"
        body = make(module, number, spawns, stateless, function.names, known, digest)
        registry.register_fiber(name, body, narrow.get(function.name, tools))
    vega = {tool.name: VegaTool(tool, ProcessSpec(bodies[tool.name])) for tool in module.tools}
    # What a model wrote must not declare anew what the agents of a project may spend.
    place = place_of(root, module.name) if most is None else digest
    for spec in module.agents:
        own = {name: vega[name] for name in spec.tools if name in vega}
        theirs = own | dict(externals.given.get(spec.name, {}))
        agent = agent_of(spec, theirs, place, memory=False)
        spawns[spec.name] = stateless[spec.name] = ProcessSpec(registry.register(agent))
        if spec.memory:
            kept = registry.register(agent_of(spec, theirs, place, memory=True))
            spawns[spec.name] = ProcessSpec(kept)
    for group in module.supervisors:
        spawns[group.name] = _group(group, spawns)
    return Deployed(module, bodies, tools)


def _parameters(tools: Mapping[str, Tool]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(tool.spec.parameters.get("properties", ())) for name, tool in tools.items()}


def _digest(module: Module) -> str:
    """Return the digest of what runs: a comment, or a line further down, changes nothing."""
    code = [
        (f.name, f.registers, f.code, f.handlers, [(s.ordinal, s.loops) for s in f.sites])
        for f in module.functions
    ]
    return digest128([code, module.constants, module.types])


def program_digest(module: Module) -> str:
    """Return the digest of a program: of its code and its agents."""
    return digest128([_digest(module), module.agents, module.supervisors])


def _group(spec: SupervisorSpec, known: Mapping[str, ChildSpec]) -> GroupSpec:
    waits = None if spec.backoff is None else backoff_of(spec.backoff)
    rule = RestartRule(RestartStrategy(spec.strategy), spec.max_restarts, spec.window_ms, waits)
    return GroupSpec(rule, {name: known[name] for name in spec.children}, ChildType.TRANSIENT)
