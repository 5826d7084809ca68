"""The decorator `@tool`: a function with the rights it declares, handles that cannot do more, and
with `isolated=True` a Python of its own in the sandbox.

The pool of sandboxes is here too, because `ctx.exec` and isolated functions share it. An
isolated function's Python imports this module inside the sandbox (see `_BOOT`).
"""

import asyncio
import importlib
import json
import os
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from vegakit.errors import CapabilityDenied, ToolFailed, UserError
from vegakit.policy import Allowed, Denied, Grant, RunCommand, Use, decide, parse_command
from vegakit.ports import AuditLevel, ChildLauncher, Clock, CommandResult, Sandbox
from vegakit.tools.functions import FunctionTool, P, R, ToolRights, current_effect

if TYPE_CHECKING:
    from vegakit.tools.files import Files
    from vegakit.tools.http import Http
    from vegakit.tools.sandbox import SandboxKind, SandboxLimits


# The sandboxes of a runtime: one for each place, opened when a tool first wants to run something.
#
# Who calls a tool sets `current_sandboxes`. Outside of a runtime there is none, and nothing runs.


class SandboxSpec(Struct, frozen=True):
    """A workspace, or None for an empty one; what beside it may be read; how much may be taken, or
    None for the usual; whether its repository is writable, but for settings and hooks."""

    workspace: Path | None
    writable: bool = True
    readable: tuple[Path, ...] = ()
    limits: "SandboxLimits | None" = None
    repository: bool = False


class SandboxPool:
    """`owner` tells the path of the process that calls, `kind` is one of `SandboxKind`."""

    def __init__(
        self, launcher: ChildLauncher, clock: Clock, owner: Callable[[], str], kind: str = "auto"
    ) -> None:
        if kind != "auto":  # a wrong word is told at once; the usual one does not load sandboxes
            _kind(kind)
        self._launcher, self._clock = launcher, clock
        self._owner, self._kind = owner, kind
        self._open: dict[SandboxSpec, Sandbox] = {}
        self._opening = asyncio.Lock()
        self._empty: Path | None = None

    @property
    def guards_writes(self) -> bool:
        """Return whether a workspace that is not writable stays as it is, whatever runs there."""
        return self._kind != "container"

    async def run(
        self,
        argv: Sequence[str],
        spec: SandboxSpec,
        said: bytes = b"",
        on_output: Callable[[bytes], object] | None = None,
    ) -> CommandResult:
        """`said` is what it reads; `on_output` is called with each piece of what it says."""
        sandbox = await self._at(spec)
        return await sandbox.run(argv, owner=self._owner(), said=said, on_output=on_output)

    async def _at(self, spec: SandboxSpec) -> Sandbox:
        """Two over one workspace would take each other's guards away."""
        from vegakit.tools.sandbox import SandboxLimits, open_sandbox

        async with self._opening:
            if spec not in self._open:
                self._open[spec] = await open_sandbox(
                    self._launcher,
                    self._clock,
                    spec.workspace or self._nothing(),
                    kind=_kind(self._kind),
                    readable=spec.readable,
                    limits=spec.limits or SandboxLimits(),
                    writable=spec.writable and spec.workspace is not None,
                    repository=spec.repository,
                )
        return self._open[spec]

    def _nothing(self) -> Path:
        """Stays empty, because it is never writable, and goes with us."""
        if self._empty is None:
            import shutil
            import tempfile

            self._empty = Path(tempfile.mkdtemp(prefix="vega-empty-"))
            weakref.finalize(self, shutil.rmtree, self._empty, ignore_errors=True)
        return self._empty


def _kind(name: str) -> "SandboxKind":
    from vegakit.tools.sandbox import SandboxKind

    if name not in [*SandboxKind]:
        raise UserError(f"sandbox={name!r} is none of {', '.join(SandboxKind)}; name one of these")
    return SandboxKind(name)


current_sandboxes: ContextVar[SandboxPool | None] = ContextVar("vega_sandboxes", default=None)


def require_sandboxes() -> SandboxPool:
    """Return the sandboxes of the runtime that calls this tool, or raise `UserError` outside of
    one."""
    if (here := current_sandboxes.get()) is None:
        raise UserError(
            "no command is run: a tool runs commands only when a Runtime calls it, because that "
            "ends them; give it to an agent and ask that"
        )
    return here


# `@tool(isolated=True)`: the function runs in a Python of its own, in the sandbox.
#
#     runtime ── {module, name, arguments} ──▶ bubblewrap ─▶ python ─▶ the function
#        ◀───────── {result} or {error} ─────────────────────────┘
#
# | its grant has | its `root` there |
# |---------------|------------------|
# | `fs::write`   | can be written   |
# | `fs::read`    | can be read      |
# | neither       | is an empty one  |
#
# Python, what is installed for it and all of the function's own package can be read; there is no
# network and no variable of ours. So the function need not be trusted, no more than what it
# answers. `ctx.files` works there; `ctx.http` and `ctx.exec` do not.


_ANSWER_BYTES = 2_000_000
_BOOT = "from vegakit.tools.decorator import isolated_main; isolated_main()"
_SHOWN = 500


class IsolatedTool(FunctionTool[P, R]):
    """A tool whose function runs in the sandbox, in a Python of its own."""

    def __init__(self, function: Callable[P, R], root: Path, grant: Grant, **rest: Any) -> None:  # noqa: ANN401
        super().__init__(function, **rest)
        self._root, self._grant = root, grant
        self._found_by = _importable(function)
        if "deps" in self._given:
            raise self._not_isolated("takes `deps`, which cannot be sent; give it arguments")

    @property
    def returns_untrusted_text(self) -> bool:
        """It need not be trusted, and nor is what it says."""
        return True

    def rights(self, arguments: Mapping[str, Any]) -> ToolRights:
        return replace(super().rights(arguments), sandboxed=True)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        raise UserError(
            f"{self.spec.name} is isolated, and a call from here would run it outside of the "
            "sandbox; give it to an agent and ask that"
        )

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        del deps
        self._check(arguments)
        if getattr(self._found_there(), "_function", None) is not self._function:
            raise self._not_isolated("is not what its module has under that name; rename one")
        ran = await require_sandboxes().run(
            _python(), self._sandbox_spec(), self._request(arguments)
        )
        return _answer(self.spec.name, ran)

    async def value(self, arguments: Mapping[str, Any], deps: object) -> object:
        raise ToolFailed(
            f"{self.spec.name} runs in the sandbox and answers in words: it is for agents; "
            "let the program ask an agent that has it"
        )

    async def call_here(self, arguments: Mapping[str, Any]) -> str:
        """Inside: the working directory is its root."""

        self._context = ToolContext(Path(), self._grant)
        return await super().call(arguments, None)

    def _request(self, arguments: Mapping[str, Any]) -> bytes:
        module, name = self._found_by
        place = str(_package(module).parent)
        wanted = {"module": module, "name": name, "place": place, "arguments": dict(arguments)}
        return json.dumps(wanted).encode()

    def _found_there(self) -> object:
        module, name = self._found_by
        return getattr(sys.modules[module], name, None)

    def _sandbox_spec(self) -> SandboxSpec:
        from vegakit.tools.sandbox import SandboxLimits

        readable = (_package("vegakit"), _package(self._found_by[0]))
        limits = SandboxLimits(wall_ms=self.timeout_ms, kept_bytes=_ANSWER_BYTES)
        writable = self._may("fs::write")
        workspace = self._root.resolve() if writable or self._may("fs::read") else None
        return SandboxSpec(workspace, writable, python_folders(*readable), limits)

    def _may(self, capability: str) -> bool:
        return isinstance(decide(self._grant, Use(capability)), Allowed)

    def _not_isolated(self, why: str) -> UserError:
        return UserError(f"tool {self.spec.name} cannot be isolated: it {why}")


def _importable(function: Callable[..., Any]) -> tuple[str, str]:
    module, name = function.__module__, function.__qualname__
    if module == "__main__" or not name.isidentifier():
        raise UserError(
            f"tool {name} cannot be isolated: another Python must import it, and it stands in "
            f"{'the script that was started' if module == '__main__' else 'no module by a name'}; "
            "put it at the top level of a module of its own, as `def`"
        )
    return module, name


def _python() -> list[str]:
    return [sys.executable, "-I", "-X", "utf8", "-c", _BOOT]


def _interpreter() -> list[Path]:
    """Not the whole folders: settings with passwords may lie beside."""
    parts = ("bin", "lib", "lib64", "pyvenv.cfg")
    return [Path(home, part) for home in (sys.base_prefix, sys.prefix) for part in parts]


def python_folders(*more: Path) -> tuple[Path, ...]:
    """Return what a sandbox must let read so that this Python runs there, and `more`."""
    return _outermost((*_interpreter(), *more))


def _package(module: str) -> Path:
    """The folder or file that the module's outermost package is imported from."""
    spec = sys.modules[module.partition(".")[0]].__spec__
    places = [] if spec is None else [*(spec.submodule_search_locations or [spec.origin or ""])]
    if not places or not Path(places[0]).exists():
        raise UserError(f"{module} comes from no file, so no other Python can import it")
    return Path(places[0]).resolve()


def _outermost(paths: tuple[Path, ...]) -> tuple[Path, ...]:
    """Each once, and none that the sandbox has already."""
    found = {path.resolve() for path in paths if path.exists()} - {Path("/usr")}
    inner = {path for path in found if {Path("/usr"), *found} & {*path.parents}}
    return tuple(sorted(found - inner))


class _Answer(Struct):
    result: str | None = None
    error: str = ""


def _answer(name: str, ran: CommandResult) -> str:
    """It may say anything."""
    try:
        answer = msgspec.json.decode(ran.stdout, type=_Answer)
    except (msgspec.MsgspecError, RecursionError):
        why = "; ".join((*ran.notes, ran.stderr.strip()[-_SHOWN:])) or "it said nothing"
        answer = _Answer(error=f"it ended with exit code {ran.exit_code}: {why}")
    if answer.result is None:
        raise ToolFailed(f"{name}: {answer.error}")
    return answer.result


def isolated_main() -> None:
    """Inside. What the function prints is not its answer."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    request = json.load(sys.stdin)
    sys.path.append(request["place"])
    found = getattr(importlib.import_module(request["module"]), request["name"])
    with answers:
        json.dump(asyncio.run(_outcome(found, request["arguments"])), answers)


async def _outcome(found: IsolatedTool, arguments: Mapping[str, Any]) -> dict[str, str]:
    """It runs as a task of its own, so that whatever it raises is looked at, not caught."""
    task = asyncio.ensure_future(found.call_here(arguments))
    await asyncio.wait([task])
    raised = task.exception()
    return {"error": f"{type(raised).__name__}: {raised}"} if raised else {"result": task.result()}


# `@tool`: a function with the rights it declares, and handles that cannot do more.
#
# The function is the user's own code and is trusted; what it is handed is not wider than its
# grant, whatever the model asks for. A capability that is not named is not there.


class ToolContext:
    """The only handles a tool may use; each is made when it is first wanted."""

    def __init__(self, root: Path, grant: Grant, *, is_declared: bool = True) -> None:
        self._root = root
        self.grant = grant
        self.is_declared = is_declared

    @property
    def idempotency_key(self) -> str:
        """Return the key of this very call: the same if it is made again when a run is resumed,
        never that of another call. Give it to a service that drops what it has seen."""
        return current_effect.get()

    async def exec(self, command: str | Sequence[str], *, writable: bool = True) -> CommandResult:
        """Run one of `allowed_commands` in the sandbox, where `root` is writable and nothing else,
        or not even that.

        Words as a list, or a line of them; no shell reads it. Any exit code is an answer.
        """
        words = parse_command(command) if isinstance(command, str) else RunCommand((*command,))
        verdict = words if isinstance(words, Denied) else decide(self.grant, words)
        if isinstance(verdict, Denied):
            raise CapabilityDenied(verdict.reason)
        assert isinstance(verdict.wanted, RunCommand)
        here = require_sandboxes()
        if not writable and not here.guards_writes:
            raise ToolFailed("a container does not keep a command from writing; run it writable")
        place = SandboxSpec(self._root.resolve(), writable=writable)
        return await here.run(verdict.wanted.argv, place)

    @cached_property
    def files(self) -> "Files":
        """Return the files below the tool's root, as far as its grant goes."""
        from vegakit.tools.files import Files

        return Files(self._root, self.grant)

    @cached_property
    def http(self) -> "Http":
        """Return a client for the hosts of the grant."""
        from vegakit.tools.http import Http

        return Http(self.grant)


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    capabilities: Sequence[str] | None = ...,
    allowed_paths: Sequence[str] = ...,
    allowed_commands: Sequence[str] = ...,
    allowed_hosts: Sequence[str] = ...,
    root: str | PathLike[str] = ...,
    name: str | None = ...,
    idempotent: bool = ...,
    timeout: float = ...,
    audit: str = ...,
    isolated: bool = ...,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    capabilities: Sequence[str] | None = None,
    allowed_paths: Sequence[str] = (),
    allowed_commands: Sequence[str] = (),
    allowed_hosts: Sequence[str] = (),
    root: str | PathLike[str] = ".",
    name: str | None = None,
    idempotent: bool = False,
    timeout: float = 60.0,
    audit: str = AuditLevel.BASIC,
    isolated: bool = False,
) -> FunctionTool | Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Mark a function that agents may call, as `@tool` or with options.

    `capabilities` say what its code does, `[]` that it only computes; under a mode or rules, a
    function that says nothing may do anything. Paths are globs from `root`. `idempotent`: calling
    it twice with the same arguments does no harm, so a crash may do so. `audit`: none, basic, or
    detailed with what it was given and gave. `isolated`: it runs in the sandbox, so it need not be
    trusted."""
    grant = Grant(
        tuple(capabilities or ()),
        paths=tuple(allowed_paths),
        commands=tuple(allowed_commands),
        hosts=tuple(allowed_hosts),
    )
    # One in the sandbox cannot do what it is not granted, whatever it says.
    is_declared = isolated or capabilities is not None

    def decorate(function: Callable[P, R]) -> FunctionTool[P, R]:
        kind = partial(IsolatedTool, root=Path(root), grant=grant) if isolated else FunctionTool
        return kind(
            function,
            name=name,
            idempotent=idempotent,
            timeout_ms=round(timeout * 1000),
            context=ToolContext(Path(root), grant, is_declared=is_declared),
            audit=audit,
        )

    return decorate if function is None else decorate(function)
