"""Keep a session beside its journal: what its requests begin with, and its turns.

A turn is never deleted. One that was undone is marked with the undo that took it back, and is no
longer sent; a redo takes the mark away. So the conversation before an undone turn is what it was,
byte by byte, and a session that was forked has copies of its own.
"""

import asyncio
import re
import shutil
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from vegakit.config import Settings
from vegakit.conversation import (
    AssistantMessage,
    Media,
    Message,
    Text,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from vegakit.errors import UserError
from vegakit.money import Dollars, Money, dollars, format_money, parse_allowance
from vegakit.policy import ScopeRule
from vegakit.ports import Store
from vegakit.records import digest128, from_json, to_json
from vegakit.sage.events import SageEnd, SageMode
from vegakit.sage.extensions.records import NO_EXTENSIONS, ExtensionSet
from vegakit.sage.undo.records import UndoneTurns

_SESSIONS, _TURNS, _EXTENSIONS = "sage.sessions", "sage.turns", "sage.extensions"
_PAGE = 100
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MOST_TOKENS = 8_000
"""Of one answer: a file of a thousand lines fits, and what is reserved for a call stays small."""


class SageRecord(Struct, omit_defaults=True):
    """A session as it is kept: what its requests begin with, and how many turns it has."""

    run: str
    name: str
    folder: str
    model: str
    mode: SageMode
    budget: str
    system: str
    told: dict[str, str]
    """The instructions as they were when the session began; what changed is told by a turn."""
    turns: int = 0
    used_ms: int = 0
    forked_from: str = ""
    """The run of the session that this one has its first turns from."""
    programs: bool = False
    """Whether the agent may write programs: its tools are a part of every request."""
    nodes: str = ""
    """The folder of the nodes that it may call, named by the person; empty for none."""
    max_tokens: int = MOST_TOKENS
    """The most that one answer may have."""


class TurnRecord(Struct, omit_defaults=True):
    """A turn as it is kept. `messages` is empty until it is done; `failed` says why it is not.
    `is_whole` says that `messages` are the whole conversation, since what was before is summed up
    in them. `todo` is the list of steps as it was at the end; `media` are the images of the prompt,
    whose files may change. `told`, `told_mode` and `environment` are what the agent knows from this
    turn on, if it was told anew. `undone_ms` names the undo that took the turn back; 0 if it
    stands."""

    prompt: str
    text: str
    messages: tuple[Message, ...] = ()
    failed: str = ""
    is_whole: bool = False
    partial: tuple[Message, ...] = ()
    """What was said in a turn that failed."""
    at_ms: int = 0
    told: dict[str, str] | None = None
    told_mode: SageMode | None = None
    environment: dict[str, str] = {}
    news: dict[str, str] | None = None
    """The instructions that a result of this turn told, until it is known that it was recorded."""
    parts: dict[str, int] = {}
    """What each of its tasks may spend, in nano-dollars."""
    steps: tuple[int, ...] = ()
    """The model calls that asked for tools. Not every one does: a summary is one, too."""
    todo: str = ""
    max_tokens: int = MOST_TOKENS
    """Of one answer in this turn: a request that goes on must be the one that was recorded."""
    media: tuple[Media, ...] = ()
    undone_ms: int = 0
    end: SageEnd | None = None
    """The event that the turn ended with; None while it runs and when it was cut off."""
    extensions: str = ""
    """The name of the extensions that it began with."""
    said: str = ""
    """What a command in the prompt stands for."""
    cut_text: str = ""
    """What the model had said of an answer that was cut off when a person stopped the turn."""
    compacts: bool = False
    """Whether all before it is summed up first: a person asked for it."""


class SessionStore:
    """The sessions of one folder, among the documents beside the journal."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.place = folder
        self._store, self._folder = store, digest128(str(folder))[:16]
        self._versions: dict[str, int] = {}

    async def find(self, wanted: str) -> SageRecord | None:
        """Return the session of this name, or whose run begins so; without a name the one that was
        used last."""
        every = await self.all()
        named = [record for record in every if record.name == wanted]
        found = named or [record for record in every if record.run.startswith(wanted)]
        return max(found, key=lambda record: record.used_ms, default=None)

    async def to_resume(self, resume: str | None, fork: str | None, name: str) -> SageRecord | None:
        """Return the session to go on with; None if a new one begins, whose name must be free."""
        if resume is not None and fork is not None:
            raise UserError("a session is resumed or forked; leave resume or fork out")
        if resume is None:
            if name and await self.find(name):
                raise UserError(
                    f"there is a session {name} in this folder; to go on with it, type: "
                    f"vega code --resume {name} -p '…', or choose another name"
                )
            return None
        found = await self.find(resume)
        if found is None:
            named = f" {resume!r}" if resume else ""
            raise UserError(
                f"there is no session{named} in {self.place}; begin one: vega code -p '…'"
            )
        return found

    async def named(self, wanted: str) -> SageRecord:
        """Return the session of this name, or say that there is none."""
        found = await self.find(wanted)
        if found is None:
            name = f" {wanted!r}" if wanted else ""
            raise UserError(
                f"there is no session{name} in this folder; to see them, type: vega code --list"
            )
        return found

    async def all(self) -> list[SageRecord]:
        """Return every session of the folder."""
        found: list[SageRecord] = []
        after = f"{self._folder}/"
        while keys := await self._store.keys(_SESSIONS, after=after, limit=_PAGE):
            after = keys[-1]
            for key in keys:
                if not key.startswith(f"{self._folder}/"):
                    return found
                if (kept := await self._get(_SESSIONS, key)) is not None:
                    found.append(from_json(SageRecord, kept))
        return found

    async def keep(self, record: SageRecord) -> None:
        """Write a session."""
        await self._put(_SESSIONS, f"{self._folder}/{record.run}", to_json(record))

    async def turns(self, record: SageRecord) -> dict[int, TurnRecord]:
        """Return the turns of a session by their numbers, also those that were undone."""
        found = {
            number: await self._get(_TURNS, turn_key(record.run, number))
            for number in range(1, record.turns + 1)
        }
        return {
            number: from_json(TurnRecord, kept)
            for number, kept in found.items()
            if kept is not None
        }

    async def keep_turn(self, record: SageRecord, number: int, turn: TurnRecord) -> None:
        """Write a turn of a session."""
        await self._put(_TURNS, turn_key(record.run, number), to_json(turn))

    async def delete(self, record: SageRecord) -> None:
        """Delete a session and its turns; the record of it last, so that a kill in between leaves
        one that can be deleted again."""
        rows = [(_TURNS, turn_key(record.run, number)) for number in range(1, record.turns + 1)]
        for kind, key in (*rows, (_SESSIONS, f"{self._folder}/{record.run}")):
            if await self._get(kind, key) is not None:
                await self._store.delete(kind, key, expected=self._versions[kind + key])

    async def keep_extensions(self, extensions: ExtensionSet) -> str:
        """Write what a turn has of extensions, once for all turns that have the same, and return
        its name; empty for nothing."""
        if extensions == NO_EXTENSIONS:
            return ""
        content = to_json(extensions)
        key = digest128(content.decode())
        if await self._store.get(_EXTENSIONS, key) is None:
            await self._store.put(_EXTENSIONS, key, content, expected=0)
        return key

    async def extensions(self, key: str) -> ExtensionSet:
        """Return what was kept under this name."""
        kept = await self._store.get(_EXTENSIONS, key) if key else None
        return from_json(ExtensionSet, kept[0]) if kept else NO_EXTENSIONS

    async def copy_turns(
        self, source: SageRecord, to: SageRecord, undone: Iterable[UndoneTurns], outputs: Path
    ) -> None:
        """Write the turns of a session that stand and came to an end as those of another, and copy
        the outputs of commands that they name. One that was cut off stays with the session whose
        journal has the rest of it."""
        turns = await self.turns(source)
        await self.rewind(source, turns, undone)
        for number, turn in turns.items():
            if not turn.undone_ms and (turn.messages or turn.failed):
                await self.keep_turn(to, number, turn)
        kept = outputs.parent / source.run
        if await asyncio.to_thread(kept.is_dir):
            await asyncio.to_thread(shutil.copytree, kept, outputs, dirs_exist_ok=True)

    async def rewind(
        self, record: SageRecord, turns: dict[int, TurnRecord], undone: Iterable[UndoneTurns]
    ) -> list[int]:
        """Mark the turns that undos took back, and unmark those that stand again; return their
        numbers. To be called whenever undo may have been at work: what was done before is left."""
        moved = rewound(record.run, turns, undone)
        for number in moved:
            await self.keep_turn(record, number, turns[number])
        if moved:
            # A new version: a process that has read the session before cannot go on with it.
            await self.keep(record)
        return moved

    async def _get(self, kind: str, key: str) -> bytes | None:
        kept = await self._store.get(kind, key)
        self._versions[kind + key] = kept[1] if kept else 0
        return kept[0] if kept else None

    async def _put(self, kind: str, key: str, value: bytes) -> None:
        """Write what nobody else has written since it was read: an undo beside a session that goes
        on would else be lost, or its turn."""
        if kind + key not in self._versions:
            await self._get(kind, key)
        version = self._versions[kind + key]
        if not await self._store.put(kind, key, value, expected=version):
            raise SessionMovedError(
                "another process goes on with this session, or has undone a turn of it; wait "
                "until it has ended, then type it again"
            )
        self._versions[kind + key] = version + 1


class SessionMovedError(UserError):
    """A session is not as it was read: somebody else went on with it, or took a turn back."""


def budget_text(amount: str | float | Decimal) -> str:
    """Return a budget as it is kept. What a number has beyond the six decimals of a text is cut:
    the cap is lower then, never higher."""
    if isinstance(amount, str):
        parse_allowance(amount)
        return amount
    return str(Dollars.of_nanos(dollars(amount) // 1000 * 1000))


def capped_rule(rule: ScopeRule, budget: str) -> ScopeRule:
    """Return the rule of a run with the budget of its session as its cap, if that is lower: what
    `vega ps` shows of a session is never more than it may spend. A budget for a time is shared, and
    stays."""
    cap = parse_allowance(budget).amount if budget else None
    if cap is None or rule.period is not None or (rule.cap is not None and rule.cap <= cap):
        return rule
    return replace(rule, cap=cap)


def check_name(name: str) -> None:
    """Refuse a name that could not be printed and typed as it is."""
    if not _NAME.fullmatch(name):
        raise UserError(
            f"{name[:80]!a} cannot be the name of a session; take letters, digits, '.', '_' and "
            "'-', 64 at most, such as fix-login"
        )


def check_raise(settings: Settings, known: SageRecord, raised: Money, more: Money) -> None:
    """Refuse to raise the budget of a session above that of the settings: what they allow is for
    every session, and a raise of one would pass it unseen."""
    rule = settings.budget_rule
    if rule.cap is None or rule.period is not None:
        return
    own = parse_allowance(known.budget).amount if known.budget else rule.cap
    has, room = min(own, rule.cap) + raised, rule.cap - min(own, rule.cap) - raised
    if more <= room:
        return
    fits = f"type --budget '+{Dollars.of_nanos(room)}', or " if room > 0 else ""
    raise UserError(
        f"this session may spend {format_money(has)}, and with {format_money(more)} more it would "
        f"pass the {format_money(rule.cap)} that your settings allow; {fits}raise that first: "
        f'default = "{Dollars.of_nanos(has + more)}" under [budget] of your settings, then type: '
        f"vega code --resume {known.name}"
    )


def missing(known: SageRecord, raised: Money, wanted: str) -> Money:
    """Return by how much the budget of a session that goes on has to be raised to be this one. It
    is for all its turns, those before, too, and is never lowered: what was allowed may be spent."""
    own, all_of_it = (parse_allowance(text) if text else None for text in (known.budget, wanted))
    told = f"to add to it, type: --budget '+{wanted.partition(' ')[0]}'"
    if own is None or all_of_it is None or own.period or all_of_it.period:
        raise UserError(f"session {known.name} has its budget already; {told}")
    has = own.amount + raised
    if all_of_it.amount < has:
        raise UserError(
            f"session {known.name} may spend {format_money(has)} in all its turns, and a budget is "
            f"raised and never lowered; leave --budget out; {told}"
        )
    return Money(all_of_it.amount - has)


def turn_key(run: str, number: int) -> str:
    """Return the name of a turn, by which undo knows it, too."""
    return f"{run}/{number:06}"


def rewound(run: str, turns: dict[int, TurnRecord], undone: Iterable[UndoneTurns]) -> list[int]:
    """Mark and unmark the turns of a session by what was undone; return which. With a turn go those
    after it: what was said later was said about it."""
    moved: set[int] = set()
    for undo in undone:
        first = _first_of(run, undo.keys)
        if not first:
            continue
        known = turns.get(first)
        if undo.stands and known is not None and not known.undone_ms:
            later = [n for n, turn in turns.items() if n >= first and turn.at_ms <= undo.at_ms]
            for number in later:
                if not turns[number].undone_ms:
                    turns[number].undone_ms = undo.at_ms
                    moved.add(number)
        elif not undo.stands:
            for number, turn in turns.items():
                if turn.undone_ms == undo.at_ms:
                    turn.undone_ms = 0
                    moved.add(number)
    return sorted(moved)


def _first_of(run: str, keys: Iterable[str]) -> int:
    """Return the first turn of a session among the names of turns; 0 if none is of it."""
    found = [number for owner, _, number in (key.rpartition("/") for key in keys) if owner == run]
    return min(map(int, found), default=0)


_NOT_CALLED = "was not called, since the turn was stopped"


def said_in(turn: TurnRecord) -> tuple[Message, ...]:
    """Return what the agent remembers of a turn; of one that failed also that it did."""
    if turn.messages:
        return turn.messages
    said = turn.partial or (UserMessage((Text(turn.text), *turn.media)),)
    error = f" ({turn.end.error})" if turn.end and turn.end.error else ""
    why = f"{turn.failed or 'cut off'}{error}"
    note = Text(f"[This turn was stopped: {why}. Check what was done of it.]")
    last = said[-1]
    if not isinstance(last, AssistantMessage):
        return *said, AssistantMessage((note,))
    if not last.tool_calls:
        return *said[:-1], AssistantMessage((*last.parts, note))
    # Providers refuse a call that has no result.
    results = (ToolResult(call.id, call.name, _NOT_CALLED, True) for call in last.tool_calls)
    return *said, ToolMessage(tuple(results)), AssistantMessage((note,))
