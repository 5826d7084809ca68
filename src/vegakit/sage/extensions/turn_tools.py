"""Make the tools of a turn: those of the session itself, always in the same order, then those that
extensions add, each under the hooks of the turn.

| tool of        | runs                                 | the workspace there                     |
|----------------|--------------------------------------|-----------------------------------------|
| a file         | its command in the sandbox           | can be read, with `fs::write` written   |
| a plugin       | its function in a child of its own,  | as its capabilities say, else there is  |
|                | in the sandbox                       | none                                    |

Where no extension changed, the tools are the same byte by byte: they are a part of the prefix of a
request that a provider caches.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, cast

from vegakit.config import Settings
from vegakit.conversation import ToolSpec
from vegakit.policy import Grant, RunCommand, Use
from vegakit.ports import Tool
from vegakit.sage.extensions.hooks import Hooks
from vegakit.sage.extensions.plugins import PluginHost
from vegakit.sage.extensions.records import CommandTool, DescribedTool, ExtensionSet, PluginPlace
from vegakit.sage.tools import (
    OnQuestion,
    OutsideTools,
    SageTool,
    SubAgents,
    TaskSession,
    ToolRegistry,
    Workspace,
    cheap_model,
    mcp_tools,
    node_tool,
    program_tools,
    shown_command,
    workspace_tools,
)
from vegakit.sage.undo.windows import Reach
from vegakit.tools import CommandPlace, ToolRights, as_tools, command_tool, rights_of

_WRITE = "fs::write"
AddNews = Callable[[str], Awaitable[str]]


class CommandFileTool:
    """A tool that is a command of a file. Without `fs::write` it changes nothing, whatever the
    command does."""

    def __init__(self, record: CommandTool, workspace: Workspace) -> None:
        self._inner = command_tool(record.table, CommandPlace(workspace.folder))
        self._workspace = workspace
        self._writes = _WRITE in record.table.get("capabilities", ())

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._inner, name)

    def rights(self, arguments: Mapping[str, Any]) -> ToolRights:
        """Return what this call runs, and that it writes if it may."""
        rights = rights_of(self._inner, arguments)
        wanted = (*(rights.wanted or ()), *((Use(_WRITE),) if self._writes else ()))
        return ToolRights(wanted, rights.grant, sandboxed=True)

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        """Run the command in the sandbox."""
        del deps
        (command,) = (
            one for one in self.rights(arguments).wanted or () if isinstance(one, RunCommand)
        )
        seconds = max(1, self._inner.timeout_ms // 1000)
        timed = ["timeout", "-k", "1", str(seconds), *command.argv]
        changing = self._workspace.changing(reach=Reach.FILES) if self._writes else nullcontext()
        async with changing:
            ran = await self._workspace.in_sandbox(timed, writable=self._writes, seconds=seconds)
        return await shown_command(self._workspace, ran)


class PluginTool:
    """A tool of a plugin: its function runs in the sandbox, with what it declares. What it says is
    text of others."""

    returns_untrusted_text = True

    def __init__(
        self, record: DescribedTool, place: PluginPlace, plugins: PluginHost, workspace: Workspace
    ) -> None:
        self.spec = ToolSpec(record.name, record.description, record.schema)
        self.idempotent, self.timeout_ms = record.idempotent, record.timeout_ms
        self._record, self._place = record, place
        self._plugins, self._workspace = plugins, workspace

    def rights(self, arguments: Mapping[str, Any]) -> ToolRights:
        """Return what the plugin declared: the arguments do not tell more."""
        del arguments
        named = self._record.capabilities
        return ToolRights(tuple(map(Use, named)), Grant(named), sandboxed=True)

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        """Call the function in a child."""
        del deps
        rights, seconds = self._record.capabilities, self.timeout_ms / 1000
        async with (
            self._workspace.changing(reach=Reach.FILES) if _WRITE in rights else nullcontext()
        ):
            said = await self._plugins.call(
                self._place, self.spec.name, arguments, rights, max(1, seconds - 1)
            )
        return await self._workspace.capped("plugin", said)


class TurnTools:
    """The tools of a session. Its own are made once; `add_news` adds to a result of theirs what the
    agent has to know beside it."""

    def __init__(
        self,
        session: TaskSession,
        workspace: Workspace,
        plugins: PluginHost,
        add_news: AddNews,
    ) -> None:
        self._session, self._workspace, self._plugins = session, workspace, plugins
        self._add_news = add_news
        self._first: tuple[Tool, ...] = ()
        self._last: tuple[Tool, ...] = ()
        self._below: tuple[Tool, ...] = ()
        self.hooks: Hooks | None = None

    async def open(
        self,
        settings: Settings,
        on_question: OnQuestion | None,
        more: Sequence[Tool | Callable[..., Any]],
    ) -> None:
        """Make the tools that are the same in every turn."""
        session, workspace = self._session, self._workspace
        record, runtime = session.record, session.runtime
        outside = OutsideTools(workspace, runtime, on_question)
        servers = await mcp_tools(workspace, runtime, settings) if settings.mcp else ()
        self._agents = SubAgents(session, workspace, cheap_model(settings, record.model))
        # Sub-agents have tools of their own: what is told to the agent of the session is not for
        # them.
        self._below = (*workspace_tools(workspace, session.jobs), *outside.tools(), *servers)
        self._first = self._heard(workspace_tools(workspace, session.jobs))
        last: tuple[Tool, ...] = outside.tools()
        if record.programs:
            last += program_tools(workspace.folder, record.model)
        if record.nodes:
            last += (node_tool(workspace.folder, record.nodes, workspace.notes),)
        self._last = (*self._heard(last), *servers, *as_tools(more))

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names that no extension may take."""
        return ("task", *(tool.spec.name for tool in (*self._first, *self._last)))

    def of(self, extensions: ExtensionSet) -> ToolRegistry:
        """Return the tools of a turn with these extensions."""
        sandboxes = self._session.runtime.sandboxes
        hooks = Hooks(self._session, self._workspace, sandboxes, self._plugins, extensions)
        self.hooks = hooks
        added = tuple(self._added(extensions))
        below = [hooks.over(tool) for tool in (*self._below, *added)]
        (task,) = self._heard((self._agents.tool(below, extensions.agents),))
        return ToolRegistry(
            [hooks.over(tool) for tool in (*self._first, task, *self._last, *added)]
        )

    def _added(self, extensions: ExtensionSet) -> list[Tool]:
        files = [CommandFileTool(one, self._workspace) for one in extensions.tools.values()]
        plugins = [
            PluginTool(one, extensions.plugins[one.plugin], self._plugins, self._workspace)
            for one in extensions.plugin_tools.values()
        ]
        found = cast("list[Tool]", [*files, *plugins])
        return sorted(found, key=lambda tool: tool.spec.name)

    def _heard(self, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
        for tool in tools:
            if isinstance(tool, SageTool):
                tool.add_news = self._add_news
        return tools

    async def turn_ended(self, reason: str) -> None:
        """Run the hooks of the end of a turn."""
        if self.hooks is not None:
            await self.hooks.turn_ended(reason)
