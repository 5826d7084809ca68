"""Sessions of the coding agent over HTTP: rows of the same kind as those of the kernel, and how a
server carries them out.

    begin ─▶ session ── prompt ─▶ the turn runs in the server ─▶ events, numbered, in a file
                                        │                            └─▶ stream from any number
                                        └─ question ◀── answer

Only folders that whoever starts the server has named for a tenant are worked in. A request can ask
for less than was set, never for more. A turn goes on when its client is gone. When the server ends
or is killed, it is cut off, and the next prompt goes on with it, also at another server of the same
machine. Events are numbered in a file of the session: who comes back after a kill misses none. A
turn that goes on is told again from its beginning, by a `turn` with the same number.
"""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, json as msgspec_json, to_builtins

from vegakit.concurrency import cancel_all
from vegakit.config import load
from vegakit.control import Operation, OperationError, RefusalCode, ReplyShape, Right
from vegakit.conversation import Media
from vegakit.errors import VegaError, error_name
from vegakit.kernel import KernelCaller
from vegakit.money import dollars
from vegakit.sage import (
    EndReason,
    LiveSession,
    SageEnd,
    SageEvent,
    SageMode,
    SageQuestion,
    SageSession,
    SessionInfo,
    begin_session,
    check_mode,
    export_session,
    list_sessions,
    transcript,
)

_LOG = logging.getLogger("vegakit")
_PAGE: Final = 200
_MOST_AT_WORK: Final = 16
"""Turns of one tenant that run at once in a server."""


# What is asked and replied.


class BeginCodeRequest(Struct, frozen=True):
    """Asks for a session. `folder` is the name of one that is served, and may be left out where
    there is one; `budget` and `mode` are within those of the server."""

    folder: str = ""
    name: str = ""
    budget: str = ""
    mode: SageMode | None = None
    model: str = ""


class CodeImage(Struct, frozen=True):
    """An image that goes with a prompt; in JSON its bytes are base64."""

    media_type: str
    data: bytes


class PromptCodeRequest(Struct, frozen=True):
    """Asks for a turn; without a prompt the last one goes on."""

    session: str
    prompt: str = ""
    images: tuple[CodeImage, ...] = ()
    mode: SageMode | None = None


class PromptedTurn(Struct, frozen=True):
    """A turn begins. Its events come after the number `after`."""

    session: str
    after: int


class CodeEventsRequest(Struct, frozen=True):
    """Asks for events after a number. It ends when no turn runs, unless it is to `follow`."""

    session: str
    after: int = 0
    follow: bool = False


class CodeEvent(Struct, frozen=True):
    """An event of a session with its number; `kind` is its type."""

    number: int
    kind: str
    event: SageEvent


class CodeSessionRequest(Struct, frozen=True):
    """Names a session, by its run."""

    session: str


class CancelledTurn(Struct, frozen=True):
    """Says whether there was a turn to cancel."""

    cancelled: bool


class AnswerCodeRequest(Struct, frozen=True):
    """Answers a question by its whole id: yes or no to an approval, words to others."""

    session: str
    question: str
    answer: bool | str


class ListCodeRequest(Struct, frozen=True):
    """Asks for the sessions of a folder, or of all that are served to the tenant."""

    folder: str = ""


class CodeSessionRow(Struct, frozen=True):
    """A session in a list, with its folder and what is asked in it now."""

    folder: str
    info: SessionInfo
    questions: tuple[SageQuestion, ...] = ()


class CodeSessionPage(Struct, frozen=True):
    """The sessions, the one that was used last first."""

    sessions: tuple[CodeSessionRow, ...]


class CodeTranscript(Struct, frozen=True):
    """A session as its events, and for people."""

    events: tuple[SageEvent, ...]
    markdown: str


_ROWS: tuple[Operation[Any, Any], ...] = (
    Operation(
        "begin_code_session",
        BeginCodeRequest,
        SageSession,
        Right.ACT,
        "Begin a session of the coding agent in a folder that is served to the tenant.",
        idempotent=False,
    ),
    Operation(
        "prompt_code_session",
        PromptCodeRequest,
        PromptedTurn,
        Right.ACT,
        "Have the agent carry out a prompt; it goes on when the caller is gone.",
        idempotent=False,
    ),
    Operation(
        "stream_code_events",
        CodeEventsRequest,
        CodeEvent,
        Right.READ,
        "Stream what happens in a session, from any event on.",
        shape=ReplyShape.STREAM,
    ),
    Operation(
        "cancel_code_turn",
        CodeSessionRequest,
        CancelledTurn,
        Right.ACT,
        "Stop the turn that runs; the next prompt begins another.",
    ),
    Operation(
        "answer_code_question",
        AnswerCodeRequest,
        CodeSessionRequest,
        Right.ANSWER,
        "Answer what the agent asks a person; an answer is final.",
        idempotent=False,
    ),
    Operation(
        "list_code_sessions",
        ListCodeRequest,
        CodeSessionPage,
        Right.READ,
        "List sessions, and what is asked in them now.",
    ),
    Operation(
        "export_code_session",
        CodeSessionRequest,
        CodeTranscript,
        Right.READ,
        "Return a session from its first prompt on, as events and as Markdown.",
    ),
)
CODE_OPERATIONS: Final[Mapping[str, Operation[Any, Any]]] = {row.name: row for row in _ROWS}


# What a server may do.


class CodePlan(Struct, frozen=True):
    """Says where the coding agent works for whom: folders by tenant, each under the name that
    requests use. `budget` caps each session, `mode` is the freest that a request may choose."""

    folders: Mapping[str, Mapping[str, Path]]
    budget: str
    mode: SageMode = SageMode.ASK
    model: str = ""


class _Served(Struct):
    live: LiveSession
    log: "EventLog"
    turning: "asyncio.Task[None] | None" = None


class CodeSessions:
    """The sessions of one server, for all tenants that have folders here."""

    def __init__(self, plan: CodePlan) -> None:
        self.plan = plan
        self._served: dict[str, _Served] = {}
        self._is_ending = asyncio.Event()

    async def aclose(self) -> None:
        """Cut off the turns that run: their sessions go on with them. Streams end."""
        self._is_ending.set()
        for one in self._served.values():
            one.log.wake()
        await cancel_all([one.turning for one in self._served.values() if one.turning is not None])

    @property
    def is_ending(self) -> bool:
        """Whether the server ends."""
        return self._is_ending.is_set()

    async def served(self, run: str, folder: Path) -> _Served:
        """Return a session with its events."""
        known = self._served.get(run)
        if known is None:
            log = await asyncio.to_thread(_log_of, run, folder)
            known = self._served.setdefault(run, _Served(LiveSession(folder, run), log))
        return known

    def find(self, run: str) -> _Served | None:
        """Return a session that was used here."""
        return self._served.get(run)

    def at_work(self, folders: Collection[Path]) -> int:
        """Return how many turns run in these folders."""
        every = self._served.values()
        return sum(one.turning is not None and one.live.folder in folders for one in every)

    async def prompt(self, one: _Served, prompt: str | None, images: Sequence[Media]) -> None:
        """Carry out a turn in a task of its own, and return when it has begun; what keeps it from
        that is raised."""
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        one.turning = asyncio.create_task(self._carry_out(one, prompt, images, begun))
        await asyncio.wait({begun, one.turning}, return_when=asyncio.FIRST_COMPLETED)
        if begun.done():
            begun.result()

    async def _carry_out(
        self,
        one: _Served,
        prompt: str | None,
        images: Sequence[Media],
        begun: "asyncio.Future[None]",
    ) -> None:
        try:
            async with aclosing(one.live.turn(prompt, images)) as events:
                async for event in events:
                    one.log.append(event)
                    if not begun.done():
                        begun.set_result(None)
        except VegaError as error:
            if not begun.done():  # another process may be at this session: its events go on
                begun.set_exception(error)
                return
            end = SageEnd(EndReason.ERROR, error=error_name(error), message=str(error))
            one.log.append(end)
        except Exception:  # noqa: BLE001  (who listens is told, and the server goes on)
            _LOG.exception("a turn of the coding agent failed by a bug")
            message = "this is a bug of the server; its log says more"
            one.log.append(SageEnd(EndReason.ERROR, error="Bug", message=message))
        finally:
            one.turning = None
            one.log.wake()


def _log_of(run: str, folder: Path) -> "EventLog":
    data = load({"journal.enabled": True}, directory=folder).data_path
    return EventLog(data / "sage-events" / f"{run}.jsonl")


class TenantCode:
    """The sessions as one caller sees them: the rows of `CODE_OPERATIONS` as methods."""

    def __init__(self, sessions: CodeSessions, caller: KernelCaller) -> None:
        self._sessions, self._caller = sessions, caller
        self._folders = sessions.plan.folders.get(caller.tenant, {})

    async def begin_code_session(self, request: BeginCodeRequest) -> SageSession:
        """Begin a session."""
        plan, folder = self._sessions.plan, self._folder(request.folder)
        mode = request.mode or plan.mode
        check_mode(mode, plan.mode)
        if request.budget and dollars(request.budget) > dollars(plan.budget):
            raise OperationError(
                RefusalCode.INVALID, f"a session has at most {plan.budget} here; ask for less"
            )
        if request.model and request.model not in load(directory=folder).models:
            raise OperationError(RefusalCode.INVALID, "a model is named as in the settings here")
        return await begin_session(
            folder,
            session=request.name,
            budget=request.budget or plan.budget,
            mode=mode,
            model=request.model or plan.model,
        )

    async def prompt_code_session(self, request: PromptCodeRequest) -> PromptedTurn:
        """Begin a turn, and return where its events begin."""
        one = await self._one(request.session)
        if one.turning is not None or one.live.is_working:
            raise OperationError(
                RefusalCode.CONFLICT, "a turn of this session is at work; wait, or cancel it"
            )
        if self._sessions.is_ending:
            raise OperationError(RefusalCode.EXHAUSTED, "the server ends; send it to another")
        if self._sessions.at_work({*self._folders.values()}) >= _MOST_AT_WORK:
            raise OperationError(
                RefusalCode.EXHAUSTED, f"{_MOST_AT_WORK} turns are at work; wait for one to end"
            )
        if request.mode is not None:
            check_mode(request.mode, self._sessions.plan.mode)
            one.live.changes["mode"] = request.mode
        images = [Media(image.media_type, image.data) for image in request.images]
        after = one.log.last
        await self._sessions.prompt(one, request.prompt.strip() or None, images)
        return PromptedTurn(request.session, after)

    async def stream_code_events(self, request: CodeEventsRequest) -> AsyncGenerator[CodeEvent]:
        """Yield the events after a number."""
        one, after = await self._one(request.session), request.after
        while True:
            changed = one.log.changed
            is_over = one.turning is None and not request.follow
            found = await asyncio.to_thread(one.log.read, after)
            for event in found:
                yield event
                after = event.number
            if not found:
                if is_over or self._sessions.is_ending:
                    return
                await changed.wait()

    async def cancel_code_turn(self, request: CodeSessionRequest) -> CancelledTurn:
        """Stop the turn that runs."""
        return CancelledTurn((await self._one(request.session)).live.cancel())

    async def answer_code_question(self, request: AnswerCodeRequest) -> CodeSessionRequest:
        """Answer a question."""
        one = await self._one(request.session)
        await one.live.answer(request.question, request.answer, by=self._caller.user)
        return CodeSessionRequest(request.session)

    async def list_code_sessions(self, request: ListCodeRequest) -> CodeSessionPage:
        """Return the sessions of the folders of the tenant."""
        chosen = self._folders
        if request.folder:
            chosen = {request.folder: self._folder(request.folder)}
        rows = [
            CodeSessionRow(name, info, self._questions(info.run))
            for name, folder in chosen.items()
            for info in await list_sessions(folder)
        ]
        rows.sort(key=lambda row: row.info.used_ms, reverse=True)
        return CodeSessionPage(tuple(rows))

    async def export_code_session(self, request: CodeSessionRequest) -> CodeTranscript:
        """Return a session from its first prompt on."""
        folder = await self._place(request.session)
        events = await export_session(request.session, folder)
        return CodeTranscript(tuple(events), transcript(events))

    def _folder(self, name: str) -> Path:
        names = ", ".join(self._folders) or "none"
        if not name and len(self._folders) == 1:
            return next(iter(self._folders.values()))
        if name not in self._folders:
            raise OperationError(
                RefusalCode.NOT_FOUND, f"name a folder that is served to you: {names}"
            )
        return self._folders[name]

    async def _place(self, run: str) -> Path:
        """Return the folder of a session, if that is one of the tenant's."""
        known = self._sessions.find(run)
        if known is not None and known.live.folder in self._folders.values():
            return known.live.folder
        for folder in self._folders.values():
            if any(one.run == run for one in await list_sessions(folder)):
                return folder
        raise OperationError(RefusalCode.NOT_FOUND, f"there is no session {run[:80]!r} for you")

    async def _one(self, run: str) -> _Served:
        return await self._sessions.served(run, await self._place(run))

    def _questions(self, run: str) -> tuple[SageQuestion, ...]:
        known = self._sessions.find(run)
        return tuple(known.live.questions) if known else ()


# The events of a session, in a file.


class EventLog:
    """Numbered events, a line each, the first is 1. The file outlives a kill. One process at a time
    adds to it, whose turn it is; others may read."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path = path
        self._places = [0]
        self.changed = asyncio.Event()
        self._look()

    @property
    def last(self) -> int:
        """Return the number of the last event; 0 if there is none."""
        return len(self._places) - 1

    def _look(self) -> int:
        """Note the lines that are new, also by another server, and return how long the file is. A
        line without an end was cut off by a kill, or is being written: it is no event."""
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:
            return 0
        if size > self._places[-1]:
            with self._path.open("rb") as file:
                file.seek(self._places[-1])
                new = file.read(size - self._places[-1])
            at = self._places[-1]
            for line in new.split(b"\n")[:-1]:
                at += len(line) + 1
                self._places.append(at)
        return size

    def append(self, event: SageEvent) -> None:
        """Add an event, and wake who waits for it."""
        line = msgspec_json.encode(event) + b"\n"
        if self._look() > self._places[-1]:
            os.truncate(self._path, self._places[-1])
        # Opened for each: a server may serve more sessions than it may have files open.
        with self._path.open("ab") as file:
            file.write(line)
        self._places.append(self._places[-1] + len(line))
        self.wake()

    def wake(self) -> None:
        """Wake who waits for an event."""
        self.changed.set()
        self.changed = asyncio.Event()

    def read(self, after: int) -> list[CodeEvent]:
        """Return a page of the events after a number."""
        first, last = max(0, after), min(self.last, max(0, after) + _PAGE)
        if first >= last:
            return []
        with self._path.open("rb") as file:
            file.seek(self._places[first])
            lines = file.read(self._places[last] - self._places[first]).split(b"\n")[:-1]
        events = (msgspec_json.decode(line, type=SageEvent) for line in lines)
        return [
            CodeEvent(number, to_builtins(event)["type"], event)
            for number, event in enumerate(events, first + 1)
        ]
