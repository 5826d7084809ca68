"""Give every tool of the coding agent what it stands on: its record of arguments, the folder of the
session, and the sandbox over it.

Schemas are written by hand: they are a part of every request, so each word counts.
"""

import asyncio
from codecs import getincrementaldecoder
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from vegakit.concurrency import cancel_all
from vegakit.conversation import ToolSpec
from vegakit.errors import InvalidRuleError, ToolFailed
from vegakit.policy import Grant
from vegakit.ports import CommandResult, Tool
from vegakit.records import digest128
from vegakit.sage.skills import NO_SKILLS, SKILLS, SkillSet
from vegakit.tools import (
    Files,
    SandboxLimits,
    SandboxSpec,
    ToolArgumentsError,
    ToolRights,
    as_tools,
    by_name,
    current_effect,
    current_sandboxes,
    is_protected,
)

READ, WRITE, EXEC = "fs::read", "fs::write", "process::exec"
TEXT, COUNT = {"type": "string"}, {"type": "integer", "minimum": 1}
"""Parts of the schemas of tools."""
LONGEST_COMMAND_S = 600
OUTPUTS = "@output/"
"""What the whole output of a command is called. No file of a workspace has such a name: a first
`@` is refused there."""
_OUTPUT_SHOWN = 16_000
"""What a model is shown at once. All of it is paid for again with each later request of the
session, so the rest is left to be asked for."""
_OUTPUT_BYTES = 64_000_000
_LIVE_SHOWN, _LIVE_EVERY_S = 8_000, 0.05

# A tool.


Run: TypeAlias = Callable[[Any], Awaitable[str]]
Rights: TypeAlias = Callable[[Any], ToolRights]


class SageTool:
    """A tool whose arguments are a record. `untrusted` says that it gives on what others wrote."""

    def __init__(
        self,
        spec: ToolSpec,
        arguments: type[Struct],
        run: Run,
        rights: Rights,
        *,
        idempotent: bool,
        untrusted: bool = False,
        timeout_ms: int = 60_000,
    ) -> None:
        self.spec, self.idempotent, self.timeout_ms = spec, idempotent, timeout_ms
        self.returns_untrusted_text = untrusted
        self._arguments, self._run, self._rights = arguments, run, rights
        self.add_news: Callable[[str], Awaitable[str]] | None = None
        """Adds to a result what the agent has to know beside it."""

    def rights(self, arguments: Mapping[str, Any]) -> ToolRights:
        """Return what this call wants of the world: its own path or command, and nothing else."""
        return self._rights(self._checked(arguments))

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        """Carry out the call."""
        del deps
        said = await self._run(self._checked(arguments))
        # What others wrote stands between marks, where nothing of ours would be believed.
        if self.add_news is None or self.returns_untrusted_text:
            return said
        return await self.add_news(said)

    def _checked(self, arguments: Mapping[str, Any]) -> Struct:
        try:
            return msgspec.convert(dict(arguments), self._arguments)
        except msgspec.ValidationError as error:
            known = ", ".join(self._arguments.__struct_fields__)
            raise ToolArgumentsError(
                f"the arguments of {self.spec.name} are wrong: {error}; it takes: {known}"
            ) from None


class ToolRegistry(Mapping[str, Tool]):
    """Tools by their names, in the order in which they were given: they are a part of the prefix of
    a request that a provider caches. Two that a model could take for each other are refused."""

    def __init__(self, tools: Sequence[Tool | Callable[..., Any]] = ()) -> None:
        self._tools = by_name(as_tools(tools))

    def register(self, tool: Tool | Callable[..., Any]) -> None:
        """Add a tool, or a function as one that declares no rights."""
        self._tools = by_name([*self._tools.values(), *as_tools([tool])])

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)


# The folder.


class Workspace:
    """The folder of a session. `outputs` is where long outputs of commands are kept whole; within
    `changing` a tool changes files, those of the paths that it is called with if it knows them."""

    def __init__(
        self,
        folder: Path,
        outputs: Path,
        changing: Callable[..., AbstractAsyncContextManager[None]],
        skills: SkillSet = NO_SKILLS,
    ) -> None:
        self.folder = folder.resolve()
        self.changing = changing
        self.writing = asyncio.Lock()
        """Held around a read and the write that follows from it: calls of an answer run at once."""
        self.outputs, self._skills = outputs, skills
        self.notes: list[str] = []
        """What was done to files of the folder after commands, for the person."""
        self.tell_output: Callable[[str, str, int], object] | None = None
        """Told of the effect that a command is, of the last that it said, and how many lines."""
        self.running: dict[str, asyncio.Task[CommandResult]] = {}
        """The commands of the shell that run now, by their effects; cancelled, one is stopped."""

    def relative(self, path: str) -> str:
        """Return a path from the workspace; models like to name whole paths."""
        inside = path.removeprefix(f"{self.folder}/")
        return "." if path == str(self.folder) else inside

    async def content(self, path: str) -> bytes:
        """Return what is in a file of the workspace, or in a kept output."""
        if path.startswith(OUTPUTS):
            name = path.removeprefix(OUTPUTS)
            return await Files(
                self.outputs, Grant((READ,), paths=("*",)), max_bytes=_OUTPUT_BYTES
            ).read(name)
        if path.startswith(SKILLS):
            return await self._skills.content(path)
        clean = self.relative(path)
        return await Files(self.folder, grant_for(READ, clean)).read(clean)

    async def capped(self, stream: str, text: str) -> str:
        """Return the beginning and the end of a long output, and keep the whole of it."""
        text = text.rstrip()
        if len(text) <= _OUTPUT_SHOWN:
            return text
        name, half = f"{digest128([current_effect.get(), stream])[:12]}.txt", _OUTPUT_SHOWN // 2
        await self.keep_output(name, text.encode("utf-8", errors="replace"))
        left = f"[{len(text) - _OUTPUT_SHOWN:,} characters left out; all is in {OUTPUTS}{name}"
        return f"{text[:half]}\n{left}: read it with start and lines]\n{text[-half:]}"

    async def keep_output(self, name: str, content: bytes) -> None:
        """Write a file beside the data of the session."""
        await asyncio.to_thread(self.outputs.mkdir, mode=0o700, parents=True, exist_ok=True)
        files = Files(self.outputs, Grant((WRITE,), paths=("*",)), max_bytes=4 * _OUTPUT_BYTES)
        await files.write(name, content)

    def live_output(self) -> "LiveOutput | None":
        """Return what hears the command of the current call, if anybody is to be told of it."""
        return None if self.tell_output is None else LiveOutput(self.tell_output)

    async def in_sandbox(
        self,
        argv: list[str],
        said: bytes = b"",
        *,
        repository: bool = False,
        writable: bool = True,
        seconds: int = LONGEST_COMMAND_S,
        on_output: Callable[[bytes], object] | None = None,
    ) -> CommandResult:
        """Run a command over the workspace, with `repository` one that may write to `.git`, but not
        to its settings and hooks, and not `writable` one that only reads. `said` is what it reads;
        `on_output` is called with each piece of what it says."""
        sandboxes = current_sandboxes.get()
        if sandboxes is None:
            raise ToolFailed("no command is run: tools of a session are called by its runtime only")
        limits = SandboxLimits(
            wall_ms=(seconds + 10) * 1000,
            memory_bytes=4 << 30,
            output_bytes=_OUTPUT_BYTES,
            kept_bytes=2 * _OUTPUT_BYTES,
        )
        # Sandboxes of one process share the guards over a workspace, so several do no harm.
        spec = SandboxSpec(self.folder, writable, limits=limits, repository=repository)
        ran = await sandboxes.run(argv, spec, said, on_output)
        self.notes += ran.about_files
        return ran

    async def stoppable(self, work: Coroutine[Any, Any, CommandResult]) -> CommandResult | None:
        """Return what came of the command of the current call; None if a person stopped it."""
        effect, task = current_effect.get(), asyncio.create_task(work)
        self.running[effect] = task
        try:
            await asyncio.wait([task])
        finally:
            self.running.pop(effect, None)
            if not task.done():
                await cancel_all([task])
        return None if task.cancelled() else task.result()


class LiveOutput:
    """Tells what a command says while it runs: at most twenty times a second, and of much only the
    last, so that a command that says a lot costs no more to watch than one that says little."""

    def __init__(self, tell: Callable[[str, str, int], object]) -> None:
        self._tell, self._effect = tell, current_effect.get()
        self._decode = getincrementaldecoder("utf-8")(errors="replace").decode
        self._text, self._lines = "", 0
        self._due: asyncio.TimerHandle | None = None

    def hear(self, piece: bytes) -> None:
        """Take a piece of what it says."""
        self._lines += piece.count(b"\n")
        self._text = (self._text + self._decode(piece[-_LIVE_SHOWN:]))[-_LIVE_SHOWN:]
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(_LIVE_EVERY_S, self._say)

    def end(self) -> None:
        """Tell no more: the result comes next."""
        if self._due is not None:
            self._due.cancel()

    def _say(self) -> None:
        self._due = None
        text, self._text = self._text, ""
        self._tell(self._effect, text, self._lines)


def grant_for(capabilities: str | tuple[str, ...], *paths: str) -> Grant:
    """Return the right to some paths, named in full. What is no clean path fits no rule, and
    whoever decides says why."""
    for path in paths:
        if is_protected(path):
            raise ToolArgumentsError(
                f"{path[:80]!a} is out of reach: it holds secrets, or other programs trust what it "
                "says; leave it, or tell the person what to change there"
            )
    named = (capabilities,) if isinstance(capabilities, str) else capabilities
    try:
        return Grant(named, paths=paths)
    except InvalidRuleError:
        return Grant(named, paths=("**",))


def spec_of(
    name: str, description: str, properties: Mapping[str, Mapping[str, Any]], required: str
) -> ToolSpec:
    """Return what a model is told of a tool."""
    schema = {
        "type": "object",
        "properties": dict(properties),
        "required": required.split(),
        "additionalProperties": False,
    }
    return ToolSpec(name, description, schema)
