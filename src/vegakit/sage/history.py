"""Look at the sessions of a folder and change them, without a model: list, search, export, rename;
undo and redo of turns, files and conversation together.

    undo: plan of files kept ─▶ files restored ─▶ undo stands ─▶ turns marked in their session
                                                       │ kill -9
                                                       └─▶ marked by the next undo, or on resume

The store of undo has the truth, the marks follow from it; so a kill in between loses nothing.
"""

import asyncio
import json
import re
import shlex
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec import Struct, convert
from msgspec.structs import asdict, replace

from vegakit.agent import ToolOutcome
from vegakit.config import Settings, load
from vegakit.conversation import (
    AssistantMessage,
    Message,
    ModelReply,
    Text,
    ToolMessage,
    UserMessage,
)
from vegakit.errors import UserError
from vegakit.events import Answered
from vegakit.money import parse_allowance, to_usd
from vegakit.sage.events import (
    TASK,
    EndReason,
    SageEnd,
    SageEvent,
    SageSession,
    SageText,
    SageToolBegan,
    SageToolEnded,
    SageTurn,
    call_id,
)
from vegakit.sage.sessions import SageRecord, SessionStore, TurnRecord, check_name, turn_key
from vegakit.sage.undo.records import Restored, UndoStoreInUseError, UndoTurn
from vegakit.sage.undo.turns import UndoStore, open_undo, undo_folder
from vegakit.store import (
    RecordedEffect,
    RunSummary,
    journal_size,
    list_runs,
    open_journal,
    recorded_effects,
)
from vegakit.tools import remove_left_stubs

# Records.


class SessionState(StrEnum):
    """The states of a session: a process works on a turn of it, or has it open and waits for a
    prompt; or nobody has it, and its last turn was cut off, failed or is done."""

    WORKING = "working"
    OPEN = "open"
    CUT_OFF = "cut off"
    FAILED = "failed"
    DONE = "done"


class SessionInfo(Struct, frozen=True):
    """A session in a list. `turns` are those that stand, `prompt` is the last one's; `spent_usd` is
    None if its run was forgotten."""

    name: str
    run: str
    state: SessionState
    model: str
    mode: str
    turns: int
    undone: int
    prompt: str
    spent_usd: float | None
    used_ms: int
    forked_from: str


class SessionMatch(Struct, frozen=True):
    """A place where a text stands: in the prompt of a turn or in what was answered."""

    session: str
    turn: int
    is_prompt: bool
    text: str


class RewoundSession(Struct, frozen=True):
    """The turns that were taken out of the conversation of a session, or put back into it."""

    session: str
    turns: tuple[int, ...]


class Rewound(Restored, frozen=True):
    """Names what an undo or a redo did to files and to conversations."""

    sessions: tuple[RewoundSession, ...] = ()


# Look.


async def list_sessions(
    folder: str | Path = ".", *, settings: Settings | None = None
) -> list[SessionInfo]:
    """Return the sessions of a folder, the one that was used last first."""
    async with _opened(folder, settings) as (sessions, chosen):
        runs = {str(one.run.program): one for one in await asyncio.to_thread(_runs, chosen)}
        found = [
            _info(record, await sessions.turns(record), runs.get(record.run))
            for record in await sessions.all()
        ]
    return sorted(found, key=lambda one: one.used_ms, reverse=True)


async def search_sessions(
    text: str, folder: str | Path = ".", *, settings: Settings | None = None
) -> list[SessionMatch]:
    """Return where a text stands in prompts and answers of the turns that stand, the sessions that
    were used last first; upper and lower case are the same."""
    wanted = text.casefold()
    if not wanted:
        raise UserError("nothing is searched for; type: vega code --search 'some words'")
    found: list[SessionMatch] = []
    async with _opened(folder, settings) as (sessions, _):
        for record in sorted(await sessions.all(), key=lambda one: one.used_ms, reverse=True):
            for number, turn in _standing(await sessions.turns(record)).items():
                said = [(True, turn.prompt), *((False, each) for each in _answers(turn))]
                found += [
                    SessionMatch(record.name, number, is_prompt, _around(each, wanted))
                    for is_prompt, each in said
                    if wanted in each.casefold()
                ]
    return found


async def list_prompts(folder: str | Path = ".", *, settings: Settings | None = None) -> list[str]:
    """Return what was asked in the sessions of a folder, the last first, each once."""
    said: list[tuple[int, str]] = []
    async with _opened(folder, settings) as (sessions, _):
        for record in await sessions.all():
            turns = _standing(await sessions.turns(record)).values()
            said += [(turn.at_ms, turn.prompt) for turn in turns]
    return list(dict.fromkeys(prompt for _, prompt in sorted(said, reverse=True)))


async def export_session(
    name: str = "", folder: str | Path = ".", *, settings: Settings | None = None
) -> list[SageEvent]:
    """Return what happened in a session as its events, turn by turn; without a name that of the
    session that was used last. A piece of text is whole here, and what it cost stands at the end of
    a turn. One that was cut off is told as far as the journal has it, and so is what sub-agents
    said and did."""
    async with _opened(folder, settings) as (sessions, chosen):
        record = await sessions.named(name)
        turns = _standing(await sessions.turns(record))
    cut: dict[int, list[SageEvent]] = {}
    for number, turn in turns.items():
        if not turn.messages and not turn.failed:
            cut[number] = await asyncio.to_thread(_cut_off, chosen, record, number, turn)
    budget = to_usd(parse_allowance(record.budget).amount) if record.budget else None
    resumed = len(turns) > 1
    opened = SageSession(
        record.name, record.run, record.folder, record.model, record.mode, budget, resumed
    )
    effects = await asyncio.to_thread(_effects, chosen, record)
    told = {
        number: cut.get(number) or [*_kept_events(number, turn, effects)]
        for number, turn in turns.items()
    }
    return [
        opened,
        *(event for number in told for event in _with_tasks(number, told[number], effects)),
    ]


def transcript(events: Iterable[SageEvent]) -> str:
    """Return events of a session as Markdown."""
    return "\n".join(line for event in events for line in _lines(event)).rstrip() + "\n"


async def rename_session(
    name: str, new: str, folder: str | Path = ".", *, settings: Settings | None = None
) -> None:
    """Give a session another name."""
    async with _opened(folder, settings) as (sessions, _):
        record = await sessions.named(name)
        check_name(new)
        if any(one.name == new for one in await sessions.all()):
            raise UserError(f"there is a session {new} already; choose another name")
        record.name = new
        await sessions.keep(record)


async def delete_session(
    name: str, folder: str | Path = ".", *, settings: Settings | None = None
) -> None:
    """Delete a session: nobody goes on with it or reads it any more. What it wrote stays as it is,
    and so do the records of what it spent and of its turns, which undo takes back."""
    async with _opened(folder, settings) as (sessions, chosen):
        record = await sessions.named(name)
        runs = await asyncio.to_thread(_runs, chosen)
        if any(one.is_running for one in runs if one.run.program == record.run):
            raise UserError(f"session {record.name} is at work; end its turn first")
        await sessions.delete(record)


@asynccontextmanager
async def _opened(
    folder: str | Path, settings: Settings | None
) -> AsyncGenerator[tuple[SessionStore, Settings]]:
    where, chosen = _place(folder, settings)
    journal = open_journal(chosen.journal_place, shared=True)
    try:
        store = journal.store()
        assert store is not None
        yield SessionStore(store, where), chosen
    finally:
        await journal.aclose()


def _place(folder: str | Path, settings: Settings | None) -> tuple[Path, Settings]:
    where = Path(folder).resolve()
    return where, settings or load({"journal.enabled": True}, directory=where)


def _runs(settings: Settings) -> Sequence[RunSummary]:
    place = settings.journal_place
    return [] if journal_size(place) is None else list_runs(place)


def _standing(turns: dict[int, TurnRecord]) -> dict[int, TurnRecord]:
    return {number: turn for number, turn in turns.items() if not turn.undone_ms}


def _info(record: SageRecord, turns: dict[int, TurnRecord], run: RunSummary | None) -> SessionInfo:
    standing = [*_standing(turns).values()]
    last = standing[-1] if standing else None
    state = SessionState.DONE
    if run is not None and run.is_running:
        is_ended = last is None or bool(last.messages or last.failed)
        state = SessionState.OPEN if is_ended else SessionState.WORKING
    elif last is not None and not last.messages:
        state = SessionState.FAILED if last.failed else SessionState.CUT_OFF
    return SessionInfo(
        name=record.name,
        run=record.run,
        state=state,
        model=record.model,
        mode=record.mode,
        turns=len(standing),
        undone=len(turns) - len(standing),
        prompt=last.prompt if last else "",
        spent_usd=None if run is None else to_usd(run.spent),
        used_ms=record.used_ms,
        forked_from=record.forked_from,
    )


def _answers(turn: TurnRecord) -> Iterator[str]:
    for message in _own_messages(turn):
        if isinstance(message, AssistantMessage) and message.text:
            yield message.text


_AROUND = 60


def _around(text: str, wanted: str) -> str:
    """Return the found words with what stands around them."""
    at = text.casefold().index(wanted)
    first, last = max(0, at - _AROUND), at + len(wanted) + _AROUND
    return f"{'…' if first else ''}{text[first:last]}{'…' if last < len(text) else ''}"


# What was said, as events and as a page.


def turn_events(number: int, turn: TurnRecord) -> Iterator[SageEvent]:
    """Yield the events of a turn as it is kept."""
    yield SageTurn(number, turn.prompt)
    said = _own_messages(turn)
    rounds = sum(isinstance(one, AssistantMessage) and bool(one.tool_calls) for one in said)
    # The first of them may be summed up, and are not told; the last ones always are.
    steps, step = iter(turn.steps[len(turn.steps) - rounds :]), 0
    for message in said:
        if isinstance(message, AssistantMessage):
            if message.text:
                yield SageText(message.text)
            step = next(steps, step) if message.tool_calls else step
            for index, call in enumerate(message.tool_calls):
                yield SageToolBegan(call_id(number, step, index), call.name, call.arguments)
        elif isinstance(message, ToolMessage):
            for index, result in enumerate(message.results):
                ended = call_id(number, step, index)
                yield SageToolEnded(ended, result.name, result.content, result.is_error)
    if turn.end is not None:
        yield turn.end


def _kept_events(
    number: int, turn: TurnRecord, effects: Sequence[RecordedEffect]
) -> Iterator[SageEvent]:
    """Yield the events of a turn that came to an end. One that was stopped has kept no messages:
    what was done in it is in the journal."""
    if turn.messages or turn.partial or turn.end is None:
        yield from turn_events(number, turn)
        return
    yield SageTurn(number, turn.prompt)
    yield from recorded_events(number, effects)
    if turn.cut_text:
        yield SageText(turn.cut_text)
    yield turn.end


_PLACE = re.compile(
    r"(?P<agent>[^/]+)~[^/]*#(?P<again>\d+)/(?:[a-z0-9-]+ (?P<task>[^/~]+)~[^/]*#(?P<inner>\d+)/)?"
    r"send \d+:\d+\[(?P<step>\d+)\](?:\[(?P<index>\d+)\])?@(?P<occurrence>\d+)"
)
"""The path of a model call by its step, and of a tool call by its step and its index there. That of
a sub-agent names the call that started it."""


def _cut_off(
    settings: Settings, record: SageRecord, number: int, turn: TurnRecord
) -> list[SageEvent]:
    """Return what the journal has of a turn that did not come to an end."""
    is_running = any(one.is_running for one in _runs(settings) if one.run.program == record.run)
    told = [SageTurn(number, turn.prompt), *recorded_events(number, _effects(settings, record))]
    cut = SageEnd(EndReason.INTERRUPTED, message="cut off; the session goes on with this turn")
    return told if is_running else [*told, cut]


def _effects(settings: Settings, record: SageRecord) -> list[RecordedEffect]:
    """Return what the journal has of a session, and of the one that its first turns are from."""
    runs = filter(None, (record.forked_from, record.run))
    return [one for run in runs for one in recorded_effects(settings.journal_place, run)]


def recorded_events(
    number: int, effects: Iterable[RecordedEffect], task: str = ""
) -> Iterator[SageEvent]:
    """Yield what was said and done in a turn, or by the sub-agent of a task in it, by the outcomes
    of its calls, step by step."""
    found: dict[tuple[int, int], tuple[tuple[int, ...], Any]] = {}
    for effect in effects:
        place = _PLACE.fullmatch(effect.path)
        is_own = place and place["agent"] == f"sage {number}" and (place["task"] or "") == task
        if place and is_own and isinstance(effect.outcome, Answered):
            key = int(place["step"]), int(place["index"] or -1)
            which = tuple(int(place[name] or 0) for name in ("again", "inner", "occurrence"))
            # A call that was made again is known by its last outcome.
            if key not in found or found[key][0] < which:
                found[key] = which, effect.outcome.value
    steps = sorted(step for step, index in found if index < 0)
    for step in steps:
        said = convert(found[step, -1][1], ModelReply).message
        # An answer without calls is the last one, or else a summary, which is told to nobody.
        if said.text and (said.tool_calls or step == steps[-1]):
            yield SageText(said.text, task)
        for index, call in enumerate(said.tool_calls):
            yield SageToolBegan(
                call_id(task or number, step, index), call.name, call.arguments, task
            )
        for index, call in enumerate(said.tool_calls):
            if (step, index) in found:
                ended = convert(found[step, index][1], ToolOutcome)
                which = call_id(task or number, step, index)
                yield SageToolEnded(which, call.name, ended.content, ended.is_error, task)


def _with_tasks(
    number: int, told: Iterable[SageEvent], effects: Sequence[RecordedEffect]
) -> Iterator[SageEvent]:
    """Yield the events of a turn, and behind each call of `task` what its sub-agent said and did,
    as far as the journal has it."""
    for event in told:
        yield event
        if isinstance(event, SageToolBegan) and event.name == TASK:
            yield from recorded_events(number, effects, event.id)


def _own_messages(turn: TurnRecord) -> Sequence[Message]:
    """Return what was said after the prompt, also in a turn that failed. Where older messages were
    summed up in this turn, `messages` are the whole conversation."""
    said = turn.messages or turn.partial
    for at in range(len(said) - 1, -1, -1):
        message = said[at]
        if isinstance(message, UserMessage) and Text(turn.text) in message.parts:
            return said[at + 1 :]
    return said


def _lines(event: SageEvent) -> Iterator[str]:
    match event:
        case SageSession():
            yield f"# Session {event.session}\n"
            yield f"{event.model}, mode {event.mode}, in `{event.folder}`\n"
        case SageTurn():
            yield f"## Turn {event.turn}\n"
            yield from _fenced(event.prompt, "text")
        case SageText():
            yield f"{_by(event.task)}{event.text}\n"
        case SageToolBegan():
            yield f"{_by(event.task)}**{event.name}**\n"
            yield from _fenced(json.dumps(event.arguments, indent=2, ensure_ascii=False), "json")
        case SageToolEnded():
            yield f"{_by(event.task)}{event.name} {'failed' if event.is_error else 'returned'}:\n"
            yield from _fenced(event.result, "text")
        case SageEnd() if event.reason is not EndReason.DONE:
            yield f"*{event.reason}: {event.message}*\n"
        case _:
            pass


def _by(task: str) -> str:
    """Return the mark of what a sub-agent said or did: the call that started it."""
    return f"[{task}] " if task else ""


def _fenced(text: str, kind: str) -> Iterator[str]:
    """Yield a block whose fence is longer than any in the text."""
    fence = "```"
    while fence in text:
        fence += "`"
    yield f"{fence}{kind}\n{text}\n{fence}\n"


# Undo and redo.

_TRIES, _PAUSE_S = 9, 0.2
_DONE = "done"


async def undo_turns(
    turns: int = 1,
    folder: str | Path = ".",
    *,
    to: int | None = None,
    session: str = "",
    overwrite: bool = False,
    replaced: bool = False,
    settings: Settings | None = None,
    on_wait: Callable[[], object] | None = None,
) -> Rewound:
    """Take back the last turns, or all after turn `to`: what they wrote, and what was said in them.
    With a `session`, by its name or run, only turns of it count, and `to` is one of its own. What
    somebody else changed since is kept and named, unless `overwrite` says to restore it. If
    another folder has taken the place of the one that they ran in, it is refused unless `replaced`
    says so. A turn that works in the folder may be about to end: it is waited for, and
    `on_wait` is called first."""
    on_conflict = "restore" if overwrite else "keep"

    def work(store: UndoStore, run: str) -> Restored:
        # One that was cut off was asked for before, and is done now.
        if (finished := store.record()) is not None:
            return finished
        if not run:
            return store.undo(turns, on_conflict, to=to, replaced=replaced)
        among, most = _turns_of(run, to or 0), turns if to is None else sys.maxsize
        return store.undo(most, on_conflict, replaced=replaced, among=among)

    return await _rewound(folder, settings, session, work, on_wait)


def _turns_of(run: str, after: int = 0) -> Callable[[UndoTurn], bool]:
    """Return what tells the turns of a session, or those after one of them, from all others."""
    first = turn_key(run, after)
    return lambda turn: turn.key.rpartition("/")[0] == run and turn.key > first


async def redo_turns(
    folder: str | Path = ".",
    *,
    session: str = "",
    overwrite: bool = False,
    replaced: bool = False,
    settings: Settings | None = None,
    on_wait: Callable[[], object] | None = None,
) -> Rewound:
    """Take back the last undo, or the last of a `session`. A turn that works is waited for, and a
    folder that has taken the place of another is refused, as by `undo_turns`."""

    def work(store: UndoStore, run: str) -> Restored:
        store.record()
        on_conflict = "restore" if overwrite else "keep"
        return store.redo(on_conflict, replaced=replaced, among=_turns_of(run) if run else None)

    return await _rewound(folder, settings, session, work, on_wait)


async def undoable_turns(
    folder: str | Path = ".", *, session: str = "", settings: Settings | None = None
) -> list[UndoTurn]:
    """Return the turns that are recorded, the latest first; with a `session` those of it. One that
    was cut off or failed is told as such: what is recorded of it is done, and it is not."""
    where, chosen = _place(folder, settings)
    root = await asyncio.to_thread(_workspace_of, where, chosen.data_path)

    def work() -> list[UndoTurn]:
        with open_undo(root, chosen.data_path) as store:
            store.record()
            return store.turns()

    found = await asyncio.to_thread(work)
    states: dict[str, str] = {}
    async with _opened(root, chosen) as (sessions, _):
        is_own = _turns_of((await sessions.named(session)).run) if session else None
        for record in await sessions.all():
            for number, turn in (await sessions.turns(record)).items():
                if not turn.messages:
                    state = SessionState.FAILED if turn.failed else SessionState.CUT_OFF
                    states[turn_key(record.run, number)] = str(state)
    return [
        replace(one, state=states.get(one.key, one.state)) if one.state == _DONE else one
        for one in found
        if is_own is None or is_own(one)
    ]


async def _rewound(
    folder: str | Path,
    settings: Settings | None,
    session: str,
    work: Callable[[UndoStore, str], Restored],
    on_wait: Callable[[], object] | None,
) -> Rewound:
    where, chosen = _place(folder, settings)
    root = _workspace_of(where, chosen.data_path)
    run = ""
    if session:
        async with _opened(root, chosen) as (sessions, _):
            run = (await sessions.named(session)).run
    # It stays open until the turns are marked: no session begins a turn in between.
    store = await _waited_for(root, chosen.data_path, on_wait)
    try:
        # Commands of a session that was killed end a moment after it, and would write into what is
        # restored. Those of a session beside go on: what they write is not taken back.
        for _ in range(_TRIES):
            if await asyncio.to_thread(remove_left_stubs, root):
                break
            await asyncio.sleep(_PAUSE_S)
        done = await asyncio.to_thread(work, store, run)
        undone = await asyncio.to_thread(store.undone)
        runs = {key.rpartition("/")[0] for undo in undone for key in undo.keys}
        moved: list[RewoundSession] = []
        async with _opened(root, chosen) as (sessions, _):
            for record in await sessions.all():
                if record.run in runs:
                    turns = await sessions.turns(record)
                    if numbers := await sessions.rewind(record, turns, undone):
                        moved.append(RewoundSession(record.name, tuple(numbers)))
    finally:
        await asyncio.to_thread(store.close)
    return Rewound(**asdict(done), sessions=tuple(moved))


async def _waited_for(root: Path, state: Path, on_wait: Callable[[], object] | None) -> UndoStore:
    """Open the turns of a workspace. A session that was told to end ends its commands first, and
    has them open for that long; each try waits for a second."""
    for tries in range(_TRIES):
        try:
            return await asyncio.to_thread(open_undo, root, state)
        except UndoStoreInUseError:
            if tries == 0 and on_wait is not None:
                on_wait()
    return await asyncio.to_thread(open_undo, root, state)


def _workspace_of(here: Path, state: Path) -> Path:
    """Return the nearest folder upward that has turns."""
    for folder in (here, *here.parents):
        if undo_folder(folder, state).is_dir():
            return folder
    raise UserError(
        f"no turn of the coding agent is recorded under the path {here}; go to the folder where it "
        "ran, or, if that was moved or renamed since, move it back first: mv "
        f"{shlex.quote(str(here))} OLD-PATH"
    )
