"""Run hooks: commands and functions of plugins, around tool calls and at the end of a turn.

    a call ─▶ rules, mode, a person ─▶ hooks before ─▶ the tool ─▶ hooks after ─▶ the result
               (as without hooks)        │ not 0, late, no answer      │ what they say is added
                                         └─▶ refused                   └─▶ and marked as untrusted

A hook is asked after the rules of the session have allowed a call, so that it can only refuse. One
that fails refuses as well: a guard that is broken lets nothing pass. It reads the workspace in the
sandbox; with `writes` it may change files, which is for mode auto alone, where commands do so
unasked. What it prints is text for the model, and no instruction to us.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Protocol, cast

from vegakit.errors import CapabilityDenied, ToolFailed, VegaError
from vegakit.policy import mark_untrusted, sanitise
from vegakit.ports import Tool
from vegakit.sage.events import SageMode
from vegakit.sage.extensions.plugins import PluginHost
from vegakit.sage.extensions.records import ExtensionSet, HookTime, SageHook
from vegakit.sage.sessions import SageRecord
from vegakit.sage.tools.workspace import Workspace
from vegakit.tools import SandboxLimits, SandboxPool, SandboxSpec

_SHOWN = 2_000
_MOST_LATE = 3
"""A hook that was late so often in a turn is not run again in it; what it guards is refused."""
_LIMITS = SandboxLimits(
    wall_ms=120_000, memory_bytes=1 << 30, output_bytes=1_000_000, kept_bytes=64_000
)
"""The same for all hooks: a sandbox is opened once for its limits. `timeout` ends one in time."""
_OVERTIME_S = 45
"""For a sandbox that is opened on a busy machine; what hangs in it is ended before."""
_LATE = (124, 137)
"""The exit codes of `timeout`: when it has ended its command, and when it had to kill it."""


class HookSession(Protocol):
    """The part of a session that hooks are told of."""

    record: SageRecord


class Hooks:
    """The hooks of a turn."""

    def __init__(
        self,
        session: HookSession,
        workspace: Workspace,
        sandboxes: SandboxPool,
        plugins: PluginHost,
        extensions: ExtensionSet,
    ) -> None:
        self._session, self._workspace, self._sandboxes = session, workspace, sandboxes
        self._plugins, self._places = plugins, extensions.plugins
        self._hooks = extensions.hooks
        self._late: dict[str, int] = {}
        self._told: set[str] = set()

    def over(self, tool: Tool) -> Tool:
        """Return a tool under the hooks that are about it, or the tool itself if none is."""
        name = tool.spec.name
        before, after = (
            self._at(when, name) for when in (HookTime.BEFORE_TOOL, HookTime.AFTER_TOOL)
        )
        return cast("Tool", HookedTool(tool, self, before, after)) if before or after else tool

    async def turn_ended(self, reason: str) -> None:
        """Run what is to run at the end of a turn; what it says is told to the person."""
        for hook in self._at(HookTime.TURN_END, ""):
            try:
                said = await self.run(hook, {"reason": reason})
            except ToolFailed as error:
                said = str(error)
            if said:
                self._note(f"hook {hook.name}: {said}")

    async def run(self, hook: SageHook, about: Mapping[str, Any]) -> str:
        """Run a hook and return what it says; raise `ToolFailed` with why it refuses or failed."""
        if hook.refusal:
            raise ToolFailed(hook.refusal)
        if self._late.get(hook.name, 0) >= _MOST_LATE:
            raise ToolFailed(f"it was late {_MOST_LATE} times in this turn, and is not run again")
        record = self._session.record
        event = {
            "event": str(hook.when),
            "session": record.name,
            "turn": record.turns,
            "mode": str(record.mode),
            **about,
        }
        try:
            # The sandbox ends it first, with whatever it started.
            async with asyncio.timeout(hook.timeout_s + _OVERTIME_S):
                if hook.plugin:
                    return await self._of_plugin(hook, event)
                return await self._command(hook, event)
        except TimeoutError:
            raise self._was_late(hook) from None

    async def _of_plugin(self, hook: SageHook, event: Mapping[str, Any]) -> str:
        said = await self._plugins.hook(self._places[hook.plugin], hook, event)
        if said and hook.when is HookTime.BEFORE_TOOL:
            raise ToolFailed(_cut(said))
        return _cut(said)

    async def _command(self, hook: SageHook, event: Mapping[str, Any]) -> str:
        writes = hook.writes and self._session.record.mode is SageMode.AUTO
        if hook.writes and not writes:
            self._note(f"hook {hook.name} of {hook.source} writes, so it runs in mode auto only")
            return ""
        spec = SandboxSpec(self._workspace.folder, writes, limits=_LIMITS)
        argv = ["timeout", "-k", "1", str(hook.timeout_s), *hook.command]
        async with self._workspace.changing() if writes else nullcontext():
            try:
                ran = await self._sandboxes.run(argv, spec, json.dumps(event).encode())
            except VegaError as error:
                raise ToolFailed(f"it cannot be run: {error}") from error
        said = _cut(ran.stderr if ran.exit_code and ran.stderr.strip() else ran.stdout)
        if ran.exit_code in _LATE and ran.duration_ms >= 1000 * hook.timeout_s:
            raise self._was_late(hook)
        if ran.exit_code:
            raise ToolFailed(said or f"it ended with exit code {ran.exit_code}")
        return said

    def _was_late(self, hook: SageHook) -> ToolFailed:
        self._late[hook.name] = self._late.get(hook.name, 0) + 1
        return ToolFailed(f"it did not end within {hook.timeout_s} s")

    def _at(self, when: HookTime, tool: str) -> list[SageHook]:
        return [hook for hook in self._hooks.values() if hook.when is when and hook.concerns(tool)]

    def _note(self, text: str) -> None:
        told = " ".join(sanitise(text, _SHOWN).split())
        if told not in self._told:
            self._told.add(told)
            self._workspace.notes.append(told)


class HookedTool:
    """A tool under hooks. What it may do is what the tool says, and nothing more."""

    def __init__(
        self, inner: Tool, hooks: Hooks, before: Sequence[SageHook], after: Sequence[SageHook]
    ) -> None:
        self._inner, self._hooks = inner, hooks
        self._before, self._after = before, after
        # A call waits for its hooks beside its own time.
        waits_s = sum(hook.timeout_s + _OVERTIME_S for hook in (*before, *after))
        self.timeout_ms = inner.timeout_ms + 1000 * waits_s

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._inner, name)

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        """Ask the hooks before, call the tool, and add what the hooks after say."""
        about = {"tool": self._inner.spec.name, "arguments": dict(arguments)}
        for hook in self._before:
            try:
                await self._hooks.run(hook, about)
            except ToolFailed as error:
                raise CapabilityDenied(
                    f"the hook {hook.name} of {hook.source} refused this call: {error}; do "
                    "something else, or tell the person"
                ) from None
        said = await self._inner.call(arguments, deps)
        for hook in self._after:
            try:
                more = await self._hooks.run(hook, {**about, "result": said[:_SHOWN]})
            except ToolFailed as error:
                more = f"failed: {error}"
            if more:
                said = f"{said}\nhook {hook.name}: {mark_untrusted(sanitise(more))}"
        return said


def _cut(text: str) -> str:
    """Return the beginning of what a hook says."""
    plain = text.strip()
    return plain if len(plain) <= _SHOWN else f"{plain[:_SHOWN]}…"
