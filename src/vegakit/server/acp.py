"""The coding agent for editors: the Agent Client Protocol, version 1, on stdin and stdout.

    editor ── session/prompt ──▶ LiveSession ── events ──▶ session/update ──▶ editor
           ◀─ session/request_permission ── SageQuestion ◀──┘

A session is known to the editor by its run, so that it is found again after the editor, or we, were
killed. Files and commands are the agent's own, in its sandbox: nothing is asked of the editor's
`fs` and `terminal`. A peer that goes away cuts its turns off; whoever prompts next goes on with
them.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from vegakit.concurrency import cancel_all
from vegakit.config import load
from vegakit.errors import StoreError, UserError
from vegakit.sage import (
    LiveSession,
    SageEnd,
    SageMode,
    SageQuestion,
    SageSession,
    begin_session,
    delete_session,
    export_session,
    list_sessions,
    redo_turns,
    undo_turns,
)
from vegakit.server.acp_updates import (
    COMMANDS,
    Update,
    Updates,
    answer_to,
    chunk,
    commands_update,
    modes_of,
    options_of,
    prompt_of,
)
from vegakit.server.json_rpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    Params,
    RpcError,
    RpcPeer,
    object_of,
)

VERSION: Final = 1
_LOG = logging.getLogger("vegakit")
_ONCE, _ALWAYS, _REJECT = "allow_once", "allow_always", "reject_once"
_PAGE: Final = 50
_ASKED_BY: Final = "the editor"


class _Open(Struct):
    """A session that the editor has open. `allowed` are commands that its person allowed for the
    session, exactly as they were shown."""

    live: LiveSession
    mode: str
    model: str
    models: dict[str, str]
    updates: Updates
    allowed: set[str]
    notes: list[str]


class AcpAgent:
    """One editor. `options` are those of `SageAgent` for the sessions that it begins."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401
        self._options = options
        self._sessions: dict[str, _Open] = {}
        self._can_ask_words = False
        methods = {
            "initialize": self._initialize,
            "authenticate": self._authenticate,
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/list": self._list,
            "session/set_mode": self._set_mode,
            "session/set_config_option": self._set_option,
            "session/prompt": self._prompt,
            "session/close": self._close,
            "session/delete": self._delete,
        }
        cancel = self._cancel
        self._peer = RpcPeer(methods, {"session/cancel": cancel}, {"session/prompt": cancel})

    async def serve(self, reading: int, writing: int) -> None:
        """Serve until the editor hangs up."""
        await self._peer.serve(reading, writing)

    # The connection.

    async def _initialize(self, given: Params) -> dict[str, Any]:
        able = object_of(object_of(given.get("clientCapabilities")).get("elicitation"))
        self._can_ask_words = able.get("form") is not None
        return {
            "protocolVersion": VERSION,
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": False, "sse": False},
                "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}},
            },
            "agentInfo": {"name": "vega", "title": "Vega", "version": version("vegakit")},
            "authMethods": [],
        }

    async def _authenticate(self, _: Params) -> dict[str, Any]:
        # Keys of providers are read from the environment, when a call needs one.
        raise RpcError(
            INVALID_PARAMS, "there is nothing to authenticate with: authMethods is empty"
        )

    # Sessions.

    async def _new(self, given: Params) -> dict[str, Any]:
        folder = _folder_of(given)
        opened = await begin_session(folder, **self._options)
        session = self._opened(folder, opened, given)
        await self._tell(opened.run, commands_update())
        return {"sessionId": opened.run, **_choices(session)}

    async def _load(self, given: Params) -> dict[str, Any]:
        key, session = await self._taken_up(given)
        for event in await export_session(key, session.live.folder):
            for update in session.updates.of(event, is_past=True):
                await self._tell(key, update)
        await self._tell(key, commands_update())
        return _choices(session)

    async def _resume(self, given: Params) -> dict[str, Any]:
        key, session = await self._taken_up(given)
        await self._tell(key, commands_update())
        return _choices(session)

    async def _taken_up(self, given: Params) -> tuple[str, _Open]:
        folder, key = _folder_of(given), _text(given, "sessionId")
        known = self._sessions.get(key)
        if known is not None and known.live.is_working:
            raise RpcError(INVALID_REQUEST, "a turn of this session is at work; cancel it first")
        found = [one for one in await list_sessions(folder) if one.run == key]
        if not found:
            raise RpcError(INVALID_PARAMS, f"there is no session {key[:80]!r} in {folder}")
        (one,) = found
        opened = SageSession(one.name, one.run, str(folder), one.model, one.mode, None, True)
        return key, self._opened(folder, opened, given)

    def _opened(self, folder: Path, opened: SageSession, given: Params) -> _Open:
        settings = load({"journal.enabled": True}, directory=folder)
        models = {name: ", ".join(settings.models_of(name)) for name in settings.models}
        notes: list[str] = []
        if given.get("mcpServers"):
            notes.append(
                "MCP servers of the editor are not used: name them in vega.toml, and accept what "
                "they offer (vega mcp accept NAME)."
            )
        updates = Updates(folder)
        live = LiveSession(folder, opened.run)
        if known := self._sessions.get(opened.run):
            live.changes = known.live.changes  # what was chosen and no turn has used yet
        mode, model = (live.changes.get(name, getattr(opened, name)) for name in ("mode", "model"))
        made = _Open(live, str(mode), model, models, updates, set(), notes)
        self._sessions[opened.run] = made
        return made

    async def _list(self, given: Params) -> dict[str, Any]:
        folder = _folder_of(given) if given.get("cwd") else Path.cwd()
        every = [one for one in await list_sessions(folder) if one.turns]
        first = _cursor(given.get("cursor"))
        page = every[first : first + _PAGE]
        sessions = [
            {
                "sessionId": one.run,
                "cwd": str(folder),
                "title": one.prompt[:80] or one.name,
                "updatedAt": datetime.fromtimestamp(one.used_ms / 1000, UTC).isoformat(),
                "_meta": {
                    "vega": {"name": one.name, "state": one.state, "spent_usd": one.spent_usd}
                },
            }
            for one in page
        ]
        more = {"nextCursor": str(first + _PAGE)} if len(every) > first + _PAGE else {}
        return {"sessions": sessions, **more}

    async def _close(self, given: Params) -> dict[str, Any]:
        session = self._session(given)
        session.live.cancel()
        del self._sessions[session.live.run]
        return {}

    async def _delete(self, given: Params) -> dict[str, Any]:
        key = _text(given, "sessionId")
        known = self._sessions.get(key)
        await delete_session(key, known.live.folder if known else Path.cwd())
        self._sessions.pop(key, None)
        return {}

    async def _set_mode(self, given: Params) -> dict[str, Any]:
        session = self._session(given)
        session.mode = session.live.changes["mode"] = str(_mode(_text(given, "modeId")))
        await self._tell(session.live.run, _mode_update(session))
        return {}

    async def _set_option(self, given: Params) -> dict[str, Any]:
        session, value = self._session(given), _text(given, "value")
        match given.get("configId"):
            case "mode":
                session.mode = session.live.changes["mode"] = str(_mode(value))
                await self._tell(session.live.run, _mode_update(session))
            case "model":
                if value not in {session.model, *session.models}:
                    known = ", ".join(session.models)
                    raise RpcError(INVALID_PARAMS, f"a model is one of {known}; got {value[:80]!r}")
                session.model = session.live.changes["model"] = value
            case other:
                raise RpcError(INVALID_PARAMS, f"there is no option {other!r}; mode and model are")
        return {"configOptions": _choices(session)["configOptions"]}

    def _session(self, given: Params) -> _Open:
        key = _text(given, "sessionId")
        found = self._sessions.get(key)
        if found is None:
            raise RpcError(
                INVALID_PARAMS,
                f"session {key[:80]!r} is not open; send session/load or session/new",
            )
        return found

    def _cancel(self, given: Params) -> None:
        self._session(given).live.cancel()

    # A turn.

    async def _prompt(self, given: Params) -> dict[str, Any]:
        session = self._session(given)
        text, images = prompt_of(given.get("prompt"))
        if session.live.is_working:
            raise RpcError(INVALID_REQUEST, "a turn of this session is at work; cancel it first")
        word, _, rest = text.removeprefix("/").partition(" ")
        if text.startswith("/") and word in COMMANDS and not images:
            if word != "continue":
                return await self._command(session, word, rest.strip())
            return await self._turn(session, None, images)
        if not text:
            raise RpcError(INVALID_PARAMS, "the prompt has no text; say what to do")
        return await self._turn(session, text, images)

    async def _turn(
        self, session: _Open, text: str | None, images: Sequence[Any]
    ) -> dict[str, Any]:
        key, asking = session.live.run, set[asyncio.Task[None]]()
        for note in session.notes:
            await self._tell(key, chunk("agent_thought_chunk", f"{note}\n"))
        session.notes.clear()
        end: SageEnd | None = None
        try:
            async with aclosing(session.live.turn(text, images)) as events:
                async for event in events:
                    if isinstance(event, SageQuestion):
                        asking.add(asyncio.create_task(self._ask(session, event)))
                    end = event if isinstance(event, SageEnd) else end
                    for update in session.updates.of(event):
                        await self._tell(key, update)
        finally:
            await cancel_all([*asking])
        assert end is not None
        return answer_to(end)

    async def _ask(self, session: _Open, question: SageQuestion) -> None:
        """Ask the person at the editor; what cannot be asked there counts as no."""
        try:
            answer = await self._answer(session, question)
        except RpcError:
            answer = False if question.permits else ""
        if session.live.is_working:
            try:
                await session.live.answer(question.id, answer)
            except UserError:
                return  # its time is over, or somebody answered it elsewhere
            except StoreError as error:
                _LOG.error("an answer was not kept: %s", error)

    async def _answer(self, session: _Open, question: SageQuestion) -> bool | str:
        if not question.permits:
            return await self._words(session, question)
        exact = _exact_command(question)
        if exact in session.allowed:
            return True
        options = [(_ONCE, "Allow once"), (_REJECT, "Reject")]
        if exact:
            options.insert(1, (_ALWAYS, "Allow exactly this command for the session"))
        answered = await self._peer.request(
            "session/request_permission",
            {
                "sessionId": session.live.run,
                "toolCall": session.updates.call_of(question),
                "options": [{"optionId": key, "name": name, "kind": key} for key, name in options],
            },
        )
        chosen = object_of(object_of(answered).get("outcome")).get("optionId")
        if chosen == _ALWAYS and exact:
            session.allowed.add(exact)
        return chosen in {key for key, _ in options} - {_REJECT}

    async def _words(self, session: _Open, question: SageQuestion) -> str:
        if not self._can_ask_words:
            return ""
        schema = {
            "type": "object",
            "properties": {"answer": {"type": "string", "title": "Answer"}},
            "required": ["answer"],
        }
        answered = await self._peer.request(
            "elicitation/create",
            {
                "sessionId": session.live.run,
                "mode": "form",
                "message": question.text,
                "requestedSchema": schema,
            },
        )
        return str(object_of(object_of(answered).get("content")).get("answer", ""))

    async def _command(self, session: _Open, word: str, rest: str) -> dict[str, Any]:
        key, folder = session.live.run, session.live.folder
        match word:
            case "undo" | "redo":
                # Of this session: the editor shows no other, and must not change one.
                work = undo_turns if word == "undo" else redo_turns
                done = await work(folder=folder, session=key)
                turns = sum(len(one.turns) for one in done.sessions)
                said = f"{word.capitalize()}: {len(done.restored)} paths restored, {turns} turns."
            case _:
                session.live.changes["raise_budget"] = rest
                said = f"The next turn has {rest} more to spend."
        await self._tell(key, chunk("agent_message_chunk", said))
        return {"stopReason": "end_turn"}

    async def _tell(self, session: str, update: Update) -> None:
        await self._peer.notify("session/update", {"sessionId": session, "update": update})


def _exact_command(question: SageQuestion) -> str:
    """Return the command of a question as it was shown, without who asks: that is another agent in
    each turn. Of a write there is none: what was written once is not written again."""
    if question.tool != "shell" or not question.permits:
        return ""
    return question.text.partition(": ")[2]


def _choices(session: _Open) -> dict[str, Any]:
    options = options_of(session.mode, session.model, session.models)
    return {"modes": modes_of(session.mode), "configOptions": options}


def _mode_update(session: _Open) -> Update:
    return {"sessionUpdate": "current_mode_update", "currentModeId": session.mode}


def _mode(text: str) -> SageMode:
    try:
        return SageMode(text)
    except ValueError:
        known = ", ".join(SageMode)
        raise RpcError(INVALID_PARAMS, f"a mode is one of {known}; got {text[:80]!r}") from None


def _folder_of(given: Params) -> Path:
    path = Path(_text(given, "cwd"))
    if not path.is_absolute() or not path.is_dir():
        raise RpcError(
            INVALID_PARAMS, f"cwd is the absolute path of a folder; got {str(path)[:200]}"
        )
    return path.resolve()


def _text(given: Params, name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value:
        raise RpcError(INVALID_PARAMS, f"{name} is a text, and not empty")
    return value


def _cursor(given: object) -> int:
    if given is None:
        return 0
    if not isinstance(given, str) or not given.isdecimal() or len(given) > 9:
        raise RpcError(INVALID_PARAMS, "cursor is the nextCursor of the page before")
    return int(given)


async def serve_acp(**options: Any) -> None:  # noqa: ANN401
    """Serve an editor over our own standard input and output, until it hangs up. Meanwhile what
    anybody prints here goes to stderr, because stdout belongs to the protocol."""
    sys.stdout.flush()
    reading, writing = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    with open(os.devnull, "rb") as nothing:  # noqa: ASYNC230, PTH123
        os.dup2(nothing.fileno(), 0)
    await AcpAgent(**options).serve(reading, writing)
