"""The coding agent as an MCP server on stdin and stdout: another agent has it work in this folder.

| tool             | does                                                                      |
|------------------|---------------------------------------------------------------------------|
| code             | a prompt to a new session or to one that goes on, until the turn ends     |
| list_sessions    | the sessions of the folder                                                |
| export_session   | what happened in a session, as Markdown and as its events                 |
| undo, redo       | the last turn of the folder, files and conversation                       |

What is asked meanwhile is the result `input_required`: the client asks its person, and repeats the
call with the answer, while the turn waits. A client that asks nobody has it refused. What happens
is told as progress; a call that its client cancels stops the turn.
"""

import asyncio
import logging
import os
import select
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, ValidationError, convert, field, to_builtins

from vegakit.config import load
from vegakit.control import render_question
from vegakit.errors import StoreError, UserError, VegaError
from vegakit.money import dollars
from vegakit.policy import sanitise
from vegakit.sage import (
    EndReason,
    LiveSession,
    SageEnd,
    SageEvent,
    SageMode,
    SageQuestion,
    SageSession,
    SageText,
    SageToolBegan,
    begin_session,
    check_mode,
    export_session,
    list_sessions,
    redo_turns,
    transcript,
    undo_turns,
    usual_mode,
)
from vegakit.server.mcp import (
    FIELDS,
    asks_people,
    check_installed,
    input_required,
    package_server,
    tool_result,
)
from vegakit.server.policy import schema_of

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext
    from mcp.server.lowlevel import Server
    from mcp_types import (
        CallToolRequestParams,
        CallToolResult,
        InputRequiredResult,
        ListToolsResult,
        PaginatedRequestParams,
    )

_INSTRUCTIONS: Final = (
    "A coding agent that works in one folder, within a budget. Call `code` with a prompt; go on "
    "with the session that it returns. `undo` takes a turn back, files and conversation."
)
_LOG = logging.getLogger("vegakit")


class CodeCall(Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of `code`."""

    prompt: str = ""
    """What to do; without it the last turn of the session goes on."""
    session: str = ""
    """A session that goes on, by its name or run; without it one begins."""
    mode: SageMode | None = None
    """plan only reads, ask asks before each write and command, auto does not."""
    budget: str = ""
    """The most that a new session may spend, as '$0.50', within that of the server."""
    events: bool = False
    """Return every event of the turn, too."""


class SessionCall(Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of `export_session`."""

    session: str = ""
    """By its name or run; the one that was used last if it is empty."""


class NoArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """No arguments."""


class CodeReply(Struct, frozen=True):
    """Says how a turn ended."""

    session: str
    run: str
    end: SageEnd
    refused: list[str] = field(default_factory=list)
    """What was refused because nobody could be asked, whole."""
    events: list[Any] | None = None


class _Turn:
    """A turn that runs over several calls of its client, if something is asked in between."""

    def __init__(self, live: LiveSession, events: AsyncGenerator[SageEvent]) -> None:
        self.live, self._events = live, events
        self.told: list[SageEvent] = []
        self.name = ""
        self.ending: asyncio.Event | None = None
        """Set at its end, if it was cancelled: who cancels does not wait for that."""

    async def until_asked(self, progress: Callable[[int, str], Awaitable[None]]) -> SageEvent:
        """Go on until something is asked or the turn has ended, and return that event."""
        async for event in self._events:
            self.told.append(event)
            if isinstance(event, SageSession):
                self.name = event.session
            if isinstance(event, SageQuestion | SageEnd):
                return event
            if said := _progress(event):
                await progress(len(self.told), said)
        raise VegaError("the turn ended without saying so")

    async def aclose(self) -> None:
        await self._events.aclose()


class CodeMcp:
    """The tools for one client, in the folder of the process. `options` are those of `SageAgent`
    for the sessions that it begins."""

    def __init__(self, folder: Path, **options: Any) -> None:  # noqa: ANN401
        self._folder, self._options = folder, options
        self._turns: dict[str, _Turn] = {}
        self._stopping: set[asyncio.Future[None]] = set()
        self.is_gone: Callable[[], bool] = lambda: False
        """Says whether the client has hung up: then a turn is to be gone on with."""
        self._tools: dict[str, tuple[type[Struct], str, Callable[..., Awaitable[Any]]]] = {
            "code": (CodeCall, _TOLD_CODE, self._code),
            "list_sessions": (NoArguments, "List the sessions of the folder.", self._list),
            "export_session": (SessionCall, _TOLD_EXPORT, self._export),
            "undo": (NoArguments, _TOLD_UNDO, self._undo),
            "redo": (NoArguments, "Give the last undo again.", self._redo),
        }

    def server(self) -> "Server[dict[str, Any]]":
        """Return a server of the official package."""
        return package_server(_INSTRUCTIONS, self._listed, self._called)

    async def aclose(self) -> None:
        """Cut off what still waits for an answer; its session goes on with it."""
        if self._stopping:
            await asyncio.wait(self._stopping)
        for turn in [*self._turns.values()]:
            await turn.aclose()
        self._turns.clear()

    async def _listed(
        self,
        _: Any,  # noqa: ANN401
        asked: "PaginatedRequestParams | None",
    ) -> "ListToolsResult":
        import mcp_types as types

        del asked
        tools = [
            types.Tool(
                name=name,
                description=told,
                input_schema=schema_of(request),
                annotations=types.ToolAnnotations(
                    read_only_hint=name in _READING, open_world_hint=name == "code"
                ),
            )
            for name, (request, told, _) in self._tools.items()
        ]
        return types.ListToolsResult(tools=tools)

    async def _called(
        self, ctx: "ServerRequestContext[dict[str, Any]]", asked: "CallToolRequestParams"
    ) -> "CallToolResult | InputRequiredResult":
        known = self._tools.get(asked.name)
        if known is None:
            return _refused(
                f"there is no tool {asked.name[:80]!a}; there are: {', '.join(self._tools)}"
            )
        request, _, carry_out = known
        try:
            given = convert(dict(asked.arguments or {}), request)
            return await carry_out(given, ctx, asked)
        except ValidationError as error:
            return _refused(f"{asked.name} does not take this: {error}")
        except VegaError as error:
            return _refused(str(error))

    # A turn.

    async def _code(
        self,
        given: CodeCall,
        ctx: "ServerRequestContext[dict[str, Any]]",
        asked: "CallToolRequestParams",
    ) -> "CallToolResult | InputRequiredResult":
        async def progress(count: int, said: str) -> None:
            if turn.ending is None:
                await ctx.session.report_progress(count, message=said)

        turn = await self._turn(given, ctx, asked)
        run = turn.live.run
        self._turns[run] = turn
        # In a task of its own: a call that is cancelled has the turn end in order.
        working = asyncio.ensure_future(turn.until_asked(progress))
        try:
            event = await asyncio.shield(working)
        except asyncio.CancelledError:
            # In a task of its own: the package cancels this one again at each step that it takes.
            turn.ending = asyncio.Event()
            stopping = asyncio.ensure_future(self._stop(run, turn, working))
            self._stopping.add(stopping)
            stopping.add_done_callback(self._stopping.discard)
            raise
        except VegaError:
            await self._end(run, working)
            raise
        if isinstance(event, SageQuestion):
            return input_required(event.id, event.text, run, permits=event.permits)
        await self._end(run, working)
        assert isinstance(event, SageEnd)
        return _ended(turn, event, given)

    async def _stop(self, run: str, turn: _Turn, working: "asyncio.Future[SageEvent]") -> None:
        """End a turn whose call was cancelled: for good, unless its client has hung up."""
        assert turn.ending is not None
        try:
            if not self.is_gone() and turn.live.cancel():
                await asyncio.wait({working})
            await self._end(run, working)
        finally:
            turn.ending.set()

    async def _end(self, run: str, working: "asyncio.Future[SageEvent]") -> None:
        working.cancel()
        await asyncio.wait({working})
        await self._turns.pop(run).aclose()

    async def _turn(
        self,
        given: CodeCall,
        ctx: "ServerRequestContext[dict[str, Any]]",
        asked: "CallToolRequestParams",
    ) -> _Turn:
        """Return the turn that the call is about: one that waits for the answers in it, or a new
        one."""
        waiting = self._turns.get(asked.request_state or "")
        if waiting is not None:
            for key, said in (asked.input_responses or {}).items():
                await _take(waiting.live, key, said)
            return waiting
        if asked.request_state:
            raise UserError("the turn that asked this is over; call code again without the answer")
        asks, run = asks_people(ctx), await self._run(given)
        other = self._turns.get(run)
        if other is not None and other.ending is not None:
            await other.ending.wait()
        if run in self._turns:
            raise UserError("a turn of this session is at work; wait for its end")
        live = LiveSession(self._folder, run, asks=asks)
        if given.mode is not None:
            settings = load(directory=self._folder)
            usual = usual_mode(settings.permissions.mode)
            # Who calls is often a model: it may ask for less than its person allowed.
            check_mode(given.mode, SageMode(self._options.get("mode") or usual))
            live.changes["mode"] = given.mode
        return _Turn(live, live.turn(given.prompt.strip() or None))

    async def _run(self, given: CodeCall) -> str:
        if not given.session:
            if not given.prompt.strip():
                raise UserError("say what to do: prompt is empty, and no session is named")
            return (await begin_session(self._folder, **self._narrowed(given.budget))).run
        if given.budget:
            raise UserError("a session has its budget already; leave budget out")
        every = await list_sessions(self._folder)
        found = [one.run for one in every if given.session in {one.name, one.run}]
        if not found:
            raise UserError(f"there is no session {given.session[:80]!r}; see list_sessions")
        return found[0]

    def _narrowed(self, budget: str) -> dict[str, Any]:
        most = self._options.get("budget")
        if budget and most and dollars(budget) > dollars(most):
            raise UserError(f"a session has at most {most} here; ask for less")
        return self._options | ({"budget": budget} if budget else {})

    # The others.

    async def _list(self, *_: object) -> "CallToolResult":
        return tool_result({"sessions": to_builtins(await list_sessions(self._folder))})

    async def _export(self, given: SessionCall, *_: object) -> "CallToolResult":
        events = await export_session(given.session, self._folder)
        return tool_result({"events": to_builtins(events)}, transcript(events))

    async def _undo(self, *_: object) -> "CallToolResult":
        return tool_result(to_builtins(await undo_turns(folder=self._folder)))

    async def _redo(self, *_: object) -> "CallToolResult":
        return tool_result(to_builtins(await redo_turns(self._folder)))


_READING: Final = ("list_sessions", "export_session")
_TOLD_CODE: Final = (
    "Have a coding agent carry out a prompt in this folder, to its end. Returns its answer, what "
    "it cost and the session, with which the next call goes on."
)
_TOLD_EXPORT: Final = "Show what happened in a session, turn by turn, as Markdown and as events."
_TOLD_UNDO: Final = "Take back the last turn: what it wrote, and what was said in it."


def _progress(event: SageEvent) -> str:
    match event:
        case SageToolBegan():
            about = next(iter(to_builtins(event.arguments or {}).values()), "")
            return sanitise(f"{event.name} {about}", 200)
        case SageText() if event.text.strip():
            return sanitise(event.text, 200)
        case _:
            return ""


# Questions.


async def _take(live: LiveSession, key: str, said: Any) -> None:  # noqa: ANN401
    """Take what people said to a question; what is no answer counts as no."""
    question = next((one for one in live.questions if one.id == key), None)
    if question is None:
        return  # its time is over, or somebody answered it elsewhere
    content: dict[str, Any] = (said.content or {}) if said.action == "accept" else {}
    answer: bool | str = content.get(FIELDS[True]) is True
    if not question.permits:
        answer = str(content.get(FIELDS[False], ""))
    try:
        await live.answer(key, answer)
    except UserError:
        return  # its time is over, or somebody answered it elsewhere
    except StoreError as error:
        _LOG.error("an answer was not kept: %s", error)


# Replies.


def _ended(turn: _Turn, end: SageEnd, given: CodeCall) -> "CallToolResult":
    refused = ["\n".join(render_question(one)[1:-1]) for one in turn.live.refused]
    events = to_builtins(turn.told) if given.events else None
    reply = CodeReply(turn.name, turn.live.run, end, refused, events)
    is_done = end.reason is EndReason.DONE
    text = end.text if is_done else f"stopped, {end.reason}: {end.message}"
    if refused:
        text += "\n\nRefused, since nobody can be asked:\n" + "\n".join(refused)
    return tool_result(to_builtins(reply), text, is_error=not is_done)


def _refused(text: str) -> "CallToolResult":
    import mcp_types as types

    return types.CallToolResult(
        content=[types.TextContent(type="text", text=sanitise(text))], is_error=True
    )


async def serve_code_mcp(**options: Any) -> None:  # noqa: ANN401
    """Serve one client over our own standard input and output, until it hangs up. Meanwhile what
    anybody prints here goes to stderr, because stdout belongs to the protocol."""
    check_installed()
    from mcp.server.stdio import stdio_server

    door = CodeMcp(await asyncio.to_thread(Path.cwd), **options)
    server = door.server()
    if hasattr(select, "poll"):
        hung_up = select.poll()
        hung_up.register(os.dup(0), 0)
        door.is_gone = lambda: bool(hung_up.poll(0))
    async with stdio_server() as (reading, writing):
        try:
            await server.run(reading, writing, server.create_initialization_options())
        finally:
            await door.aclose()
