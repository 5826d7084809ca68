"""The journal on a SQLite file, and the spool that holds replies until the journal has them.

The journal keeps outcomes by effect key, for one program after the other, with one writer. Every
write is on disk when its result is returned.
"""

import errno
import os
from asyncio import Future
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple, cast

from msgspec import structs

from vegakit.effects import CallModel, CallTool, Effect, place_of
from vegakit.errors import BugError, InvalidRecordError, StoreError, UserError
from vegakit.events import EffectOutcome, charged_for, reopened
from vegakit.ids import Digest, EffectKey, ProgramId
from vegakit.money import Money
from vegakit.ports import (
    ClaimResult,
    KeptOutcome,
    Ledger,
    RecordedOutcome,
    RunRecord,
    UnfinishedEffect,
)
from vegakit.records import from_json, to_json
from vegakit.store.ledger_rows import LEDGER
from vegakit.store.seals import SEAL_BYTES, Seal, move_away_command, open_private, user_seal
from vegakit.store.sqlite import Format, SqliteThread
from vegakit.store.sqlite.stores import DOCUMENTS, LedgerHandle, SqliteLedger, SqliteStore

# The spool of a run: replies are in it the moment they arrive, before anything is waited for.
#
#     reply ─▶ one write to the spool ─▶ journal and ledger, when their thread comes to it
#                     │                                   │
#                     └── read after `kill -9`            └── emptied when nothing waits any more
#
# What was written survives the death of the process, since the system holds it; what the power
# takes is what the last commit of the journal did not have. A frame is a length with its seal,
# then the seal of the content, then the content, which is a `KeptOutcome` as JSON.
#
# | at the end of the file, or within it       | means                          | then             |
# |--------------------------------------------|--------------------------------|------------------|
# | less than a frame                          | killed during the write        | it is left out   |
# | a seal that does not fit                   | damaged, or somebody else's    | it is refused    |


_LENGTH = 4
_HEAD = _LENGTH + SEAL_BYTES + SEAL_BYTES
_MOST_BYTES = 1 << 20
"""Above this it is emptied as soon as nothing in it waits to be recorded."""


class Spool:
    """The spool in a file that this process alone writes: its journal holds a lock on the run."""

    def __init__(self, path: Path, seal: Seal, most_bytes: int = _MOST_BYTES) -> None:
        self.path = path
        self._seal, self._most_bytes = seal, most_bytes
        self._file = open_private(path)
        self._size = os.fstat(self._file).st_size
        self._waiting: set[EffectKey] = set()
        """Effects of which a frame is here and not known to be recorded."""

    def append(self, kept: KeptOutcome) -> None:
        """Write one frame by one call. A frame that does not fit on the disk is taken back, so that
        what is written after it can be read."""
        content = to_json(kept)
        length = len(content).to_bytes(_LENGTH, "little")
        frame = b"".join((length, self._seal.of(length), self._seal.of(content), content))
        written = os.write(self._file, frame)
        if written < len(frame):
            os.ftruncate(self._file, self._size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        self._size += written
        self._waiting.add(kept.key)

    def done(self, key: EffectKey) -> None:
        """What was kept of the effect is recorded."""
        self._waiting.discard(key)
        if self._size > self._most_bytes and not self._waiting:
            self.empty()

    def read(self) -> list[KeptOutcome]:
        """Return what is there. All of it waits until it is `done`."""
        text, found, at = _whole(self._file, self._size), list[KeptOutcome](), 0
        while at + _HEAD <= len(text):
            length = text[at : at + _LENGTH]
            ends = at + _HEAD + int.from_bytes(length, "little")
            if text[at + _LENGTH : at + _LENGTH + SEAL_BYTES] != self._seal.of(length):
                raise self._damaged(at)
            content = text[at + _HEAD : ends]
            if ends > len(text):
                break
            if text[at + _LENGTH + SEAL_BYTES : at + _HEAD] != self._seal.of(content):
                raise self._damaged(at)
            found.append(self._kept(content, at))
            at = ends
        if at < len(text):
            # Killed during the last write. What is appended must begin where a frame ended.
            os.ftruncate(self._file, at)
            self._size = at
        self._waiting.update(kept.key for kept in found)
        return found

    def empty(self) -> None:
        """Truncate by the descriptor: a name could lead elsewhere by now."""
        os.ftruncate(self._file, 0)
        self._size = 0

    def settle(self) -> None:
        """Empty it, unless something in it is not known to be recorded."""
        if not self._waiting:
            self.empty()

    def close(self) -> None:
        """What is not known to be recorded stays for the next process."""
        self.settle()
        os.close(self._file)

    def _kept(self, content: bytes, at: int) -> KeptOutcome:
        try:
            return from_json(KeptOutcome, content)
        except InvalidRecordError as error:
            raise self._damaged(at) from error

    def _damaged(self, at: int) -> StoreError:
        return StoreError(
            f"the spool {self.path} was damaged at byte {at}, or not written by you: its seal does "
            "not fit, so no reply in it can be trusted. To go on without it, type: "
            f"mv {self.path} {self.path}.damaged (replies that only it holds are then asked for, "
            "and paid, again)"
        )


def _whole(file: int, size: int) -> bytes:
    parts: list[bytes] = []
    at = 0
    while at < size and (part := os.pread(file, size - at, at)):
        parts.append(part)
        at += len(part)
    return b"".join(parts)


# Answers by effect key on a SQLite file, for one program after the other, with one writer.
#
# | an effect's row          | means                           | on resume                        |
# |--------------------------|---------------------------------|----------------------------------|
# | none                     | it was not begun                | it is carried out                |
# | claimed, without outcome | it was begun, and our side died | the ledger knows if it was sent: |
# |                          |                                 | Unknown, or it is begun anew     |
# | with outcome             | it is done                      | that outcome, never again        |
#
# Every write is on disk when it is answered (`synchronous=full`); writes that come at the same
# time share one transaction. A torn last transaction is dropped by SQLite when the file is
# opened. What was damaged, or written by somebody else, does not fit its seal (`secret`) and is
# refused. A key begins with the place of its effect, so what else is known of a place stands
# beside it.


# ruff: noqa: S608  (statements are put together from our own words)


_EFFECT = "key program path kind repeatable digest claimed_ms outcome code committed".split()
_RUN = ["program", "ended_ms", "run"]


def _seal_of(table: str, columns: Sequence[str], **changed: str) -> str:
    """The expression for the seal of a row whose columns are as they are, or changed."""
    values = ", ".join(changed.get(column, column) for column in columns)
    return f"vega_seal('{table}', {values})"


_INTACT = f"seal = {_seal_of('effects', _EFFECT)}"
RUN_INTACT = f"runs.seal = {_seal_of('runs', [f'runs.{column}' for column in _RUN])}"
_RUNS = f"SELECT program, {RUN_INTACT}, run, ended_ms FROM runs"
_BEGIN = f"""INSERT OR IGNORE INTO runs VALUES
    (?1, NULL, ?2, {_seal_of("runs", _RUN, program="?1", ended_ms="NULL", run="?2")})"""
_END = f"""UPDATE runs SET ended_ms = ?1, seal = {_seal_of("runs", _RUN, ended_ms="?1")}
    WHERE program = ?2"""
_CHANGE_RUN = f"""UPDATE runs SET run = ?1, seal = {_seal_of("runs", _RUN, run="?1")}
    WHERE program = ?2"""
_FIND = f"SELECT key, {_INTACT}, digest, outcome FROM effects WHERE key = ?"
_CLAIM = """INSERT INTO effects VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (key) DO NOTHING"""
_CUT_OFF = f"""SELECT key, {_INTACT}, kind, repeatable, NOT committed FROM effects
    WHERE program = ? AND outcome IS NULL"""
_CHARGED = f"""SELECT key, {_INTACT}, outcome FROM effects
    WHERE program = ? AND kind = 'CallModel' AND outcome IS NOT NULL"""
_DAMAGED = f"SELECT key FROM effects WHERE NOT ({_INTACT}) LIMIT 1"
# What is sealed anew must have been ours before: else a forged outcome would become true.
_COMMIT = f"""UPDATE effects SET committed = 1, seal = {_seal_of("effects", _EFFECT, committed="1")}
    WHERE key = ? AND NOT committed AND {_INTACT}"""
_CHANGED = """SELECT 1 FROM effects
    WHERE key >= ? AND key < ? AND key <> ? AND committed AND code <> ? LIMIT 1"""
_UNCOMMIT = f"""UPDATE effects SET committed = 0,
    seal = {_seal_of("effects", _EFFECT, committed="0")}
    WHERE program = ? AND claimed_ms >= (SELECT claimed_ms FROM effects WHERE key = ?)
    AND {_INTACT}"""
_REPLACE = f"""UPDATE effects SET outcome = ?1, seal = {_seal_of("effects", _EFFECT, outcome="?1")}
    WHERE key = ?2"""
_RECORD = f"{_REPLACE} AND outcome IS NULL"
_RECORD_SEALED = "UPDATE effects SET outcome = ?, seal = ? WHERE key = ? AND outcome IS NULL"
_OUTCOME_AT = _EFFECT.index("outcome")
_MOST_CLAIMED = 10_000
"""How many claimed rows are remembered. What was cancelled is never recorded and would pile up."""
_OUTCOME = f"""SELECT key, {_INTACT}, kind, outcome FROM effects
    WHERE key = ? AND program = ? AND outcome IS NOT NULL"""

_JOURNAL = Format(
    "journal",
    3,
    (
        """CREATE TABLE runs (
            program TEXT PRIMARY KEY, ended_ms INTEGER, run TEXT NOT NULL, seal BLOB NOT NULL
        ) WITHOUT ROWID""",
        """CREATE TABLE effects (
            key TEXT PRIMARY KEY, program TEXT NOT NULL, path TEXT NOT NULL, kind TEXT NOT NULL,
            repeatable INTEGER NOT NULL, digest TEXT NOT NULL, claimed_ms INTEGER NOT NULL,
            outcome TEXT, code TEXT NOT NULL, committed INTEGER NOT NULL, seal BLOB NOT NULL
        ) WITHOUT ROWID""",
    ),
)
"""No second index: a claim and a record would each write one page more, for what is read once. Each
row carries the seal of its other columns."""
_CHECKED_BYTES = 64 << 20
"""A file up to this size is checked whole when a run in it is taken up; of a larger one, what is
read."""


class RetentionRule(NamedTuple):
    """Which runs that have ended are kept: none older than `for_ms`, and no more than fit into
    `most_bytes`."""

    for_ms: int
    most_bytes: int


class SqliteJournal:
    """Implements `ports.Journal`. From `begin` to `aclose` the file is locked, or if it is `shared`
    only the run: what belongs to one run is then in the folder `runs` beside the file. `keep` says
    which runs that have ended are kept in it, all if it says nothing."""

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        shared: bool = False,
        keep: "RetentionRule | None" = None,
    ) -> None:
        self.path = Path(fspath(path))
        self.shared = shared
        self.keep_runs = keep
        subjects = (_JOURNAL, LEDGER, DOCUMENTS)
        make = partial(LedgerHandle, place=fspath(path))
        self._thread = SqliteThread(fspath(path), subjects, "full", make)
        self._lock: int | None = None
        self._spool: Spool | None = None
        self._program = ProgramId("")
        self._places: set[str] | None = None
        """Of all effects of this run that were ever claimed; None: not known."""

    def ledger(self) -> SqliteLedger:
        """The ledger in the same file, worked on by the same thread: what is called `together` on
        both is one transaction. It is closed with the journal."""
        return SqliteLedger(self.path, thread=self._thread)

    def store(self) -> SqliteStore:
        """The documents in the same file; closed with the journal."""
        return SqliteStore(self.path, thread=self._thread)

    def together(self) -> AbstractContextManager[None]:
        return self._thread.together()

    def holds(self, ledger: Ledger) -> bool:
        return isinstance(ledger, SqliteLedger) and ledger.is_on(self._thread)

    def is_new(self, key: EffectKey) -> bool:
        return self._places is not None and place_of(key) not in self._places

    async def begin(self, run: RunRecord, resume: ProgramId | None = None) -> RunRecord:
        beside, offered = self._beside(resume or run.program), run.program
        self._take_lock(beside)
        if self.shared:
            run = run if resume is None else await self._taken_up(resume)
        else:
            unfinished = f"{_RUNS} WHERE ended_ms IS NULL ORDER BY program DESC LIMIT 1"
            for text, _ in await self._read_sealed("runs", unfinished):
                await self._check_all()
                run = from_json(RunRecord, text)
        await self._write(_BEGIN, run.program, to_json(run).decode())
        self._program = run.program
        self._places = set[str]() if run.program == offered else await self._known_places()
        self._spool = self._spool or Spool(Path(f"{beside}.spool"), user_seal())
        return run

    async def _taken_up(self, program: ProgramId) -> RunRecord:
        for text, _ in await self._read_sealed("runs", f"{_RUNS} WHERE program = ?", program):
            await self._check_all()
            return from_json(RunRecord, text)
        raise UserError(f"{self.path} holds no run {program}; to see them, type: vega runs")

    def _beside(self, program: ProgramId) -> Path:
        """What the names of the lock and the spool begin with."""
        return run_files(self.path, program) if self.shared else self.path

    def end(self, now: int) -> Awaitable[None]:
        return self._write(_END, now, self._program)

    async def raise_budget(self, program: ProgramId, amount: Money) -> RunRecord:
        """Of an unfinished run, which then goes on with that much more."""
        self._take_lock(self._beside(program))
        unfinished = (run for run in await self.runs() if run.ended_ms is None)
        run = next((run for run in unfinished if run.program == program), None)
        if run is None:
            raise UserError(f"no run {program} in {self.path} is unfinished; start a new one")
        run = structs.replace(run, raised=Money(run.raised + amount))
        await self._write(_CHANGE_RUN, to_json(run).decode(), run.program)
        return run

    async def runs(self) -> Sequence[RunRecord]:
        found = await self._read_sealed("runs", f"{_RUNS} ORDER BY program")
        return [structs.replace(from_json(RunRecord, text), ended_ms=at) for text, at in found]

    def find(self, key: EffectKey) -> Awaitable[RecordedOutcome | None]:
        return self._thread.do(lambda file: (_found(file, key), _nothing))

    def claim(
        self, effect: Effect, now: int, *, speculative: bool = False
    ) -> Awaitable[ClaimResult]:
        kind, key = type(effect.request).__name__, effect.key
        repeatable = isinstance(effect.request, CallTool) and effect.request.repeatable
        place = (key, self._program, str(effect.path))
        row = (*place, kind, repeatable, effect.digest, now, None, effect.code, not speculative)
        beside, is_new = place_of(key), self.is_new(key)
        if self._places is not None:
            self._places.add(beside)

        def work(file: LedgerHandle) -> tuple[ClaimResult, Callable[[], object]]:
            others = (f"{beside}.", f"{beside}/", key, effect.code)  # "/" is next after "."
            changed = not is_new and file.execute(_CHANGED, others).fetchone() is not None
            if file.execute(_CLAIM, (*row, file.seals.of("effects", row))).rowcount:
                if len(file.claimed) >= _MOST_CLAIMED:
                    file.claimed.clear()
                file.claimed[key] = row
                return ClaimResult(None, changed), _nothing
            if not speculative:
                _commit(file, key)
            found = _found(file, key)
            return ClaimResult(None if found is None else found[1], changed), _nothing

        return self._thread.do(work)

    def commit(self, key: EffectKey) -> Awaitable[None]:
        return self._thread.do(lambda file: (None, lambda: _commit(file, key)))

    def record(self, key: EffectKey, outcome: EffectOutcome) -> Awaitable[None]:
        text = to_json(outcome).decode()

        def work(file: LedgerHandle) -> tuple[None, Callable[[], object]]:
            is_first = _record(file, key, text)
            if not is_first and file.execute(_FIND, (key,)).fetchone() is None:
                raise BugError(f"the effect {key} was not claimed before it was recorded")
            return None, _nothing

        recording = self._thread.do(work)
        if self._spool is not None:
            spool = self._spool
            recording.add_done_callback(lambda done: _succeeded(done) and spool.done(key))
        return recording

    def keep(self, key: EffectKey, attempt: int, bill: Money, outcome: EffectOutcome) -> None:
        if self._spool is None:
            raise BugError("a journal keeps nothing before it has begun a run")
        self._spool.append(KeptOutcome(self._program, key, attempt, bill, outcome))

    async def kept(self) -> Sequence[KeptOutcome]:
        """What another run left came to its end with it."""
        if self._spool is None:
            return []
        mine: list[KeptOutcome] = []
        for kept in self._spool.read():
            if kept.program == self._program:
                mine.append(kept)
            else:
                self._spool.done(kept.key)
        return mine

    def drop(self, key: EffectKey) -> Awaitable[None]:
        return self._write("DELETE FROM effects WHERE key = ? AND outcome IS NULL", key)

    async def reopen(self, keys: Sequence[EffectKey]) -> None:
        def work(file: LedgerHandle) -> tuple[None, Callable[[], object]]:
            file.claimed.clear()  # this changes rows that it does not look at
            for key in keys:
                found = file.execute(_OUTCOME, (key, self._program)).fetchall()
                if not found:
                    continue
                [(kind, outcome)] = _intact(file, "effects", found)
                file.execute(_UNCOMMIT, (self._program, key))
                if kind == CallModel.__name__:
                    left = reopened(_outcome_of(outcome))
                    text = None if left is None else to_json(left).decode()
                    file.execute(_REPLACE, (text, key))
                else:
                    file.execute("DELETE FROM effects WHERE key = ?", (key,))
            return None, _nothing

        # What was recorded needs no copy in the spool, and a copy of what is reopened would be
        # taken for its outcome by the next process. The thread works in order: when this is done,
        # so is all that was recorded before.
        await self._thread.do(lambda _: (None, _nothing))
        if self._spool is not None:
            self._spool.settle()
        await self._thread.do(work)

    async def cut_off(self) -> Sequence[UnfinishedEffect]:
        found = await self._read_sealed("effects", _CUT_OFF, self._program, with_key=True)
        return [
            UnfinishedEffect(EffectKey(key), kind, bool(r), bool(s)) for key, kind, r, s in found
        ]

    async def charges(self) -> Sequence[tuple[EffectKey, Money]]:
        found = await self._read_sealed("effects", _CHARGED, self._program, with_key=True)
        return [(EffectKey(key), charged_for(_outcome_of(text))) for key, text in found]

    async def aclose(self) -> None:
        await self._thread.aclose()
        if self._spool is not None:
            self._spool.close()
            self._spool = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _take_lock(self, beside: Path) -> None:
        self._lock = self._lock or lock_file(beside)
        if self._lock is None and self.shared:
            raise StoreError(
                f"run {beside.name} is being carried on by another process; wait until it has "
                "ended, or look for it: vega ps"
            )
        if self._lock is None:
            raise StoreError(
                f"the journal {self.path} is being written by another process; "
                "wait until that run has ended, or name another journal"
            )

    async def _known_places(self) -> set[str]:
        query = f"SELECT key, {_INTACT} FROM effects WHERE program = ?"
        found = await self._read_sealed("effects", query, self._program, with_key=True)
        return {place_of(key) for (key,) in found}

    async def _check_all(self) -> None:
        """Before a run goes on: a row that is damaged so that nobody finds it would be bought
        again."""

        def work(file: LedgerHandle) -> tuple[None, Callable[[], object]]:
            if self.path.stat().st_size <= _CHECKED_BYTES:
                for (told,) in file.execute("PRAGMA quick_check(1)"):
                    if told != "ok":
                        raise StoreError(
                            f"{self.path} is damaged ({told}); put a copy of it back, or to start "
                            f"over, type: {move_away_command(str(self.path))}"
                        )
                for (key,) in file.execute(_DAMAGED):
                    raise file.seals.broken("effects", key)
            return None, _nothing

        await self._thread.do(work)

    def _read_sealed(
        self, table: str, query: str, *values: object, with_key: bool = False
    ) -> Awaitable[list[tuple[Any, ...]]]:
        """Rows that begin with their key and whether they fit their seal; returned without."""

        def work(file: LedgerHandle) -> tuple[list[tuple[Any, ...]], Callable[[], object]]:
            found = file.execute(query, values).fetchall()
            return _intact(file, table, found, with_key=with_key), _nothing

        return self._thread.do(work)

    def _write(self, statement: str, *values: object) -> Awaitable[None]:
        return self._thread.do(lambda file: (None, lambda: file.execute(statement, values)))


def run_files(journal: Path, program: str) -> Path:
    """What the names of the files of one run in a shared journal begin with."""
    return journal.parent / "runs" / program


def lock_file(path: Path) -> int | None:
    """Lock that journal until the descriptor is closed; None if somebody else has locked it."""
    import fcntl  # not on every system, and needed only here

    lock = open_private(Path(f"{path}.lock"))
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _succeeded(done: "Future[None]") -> bool:
    return not done.cancelled() and done.exception() is None


def _nothing() -> None:
    pass


def _intact(
    file: LedgerHandle, table: str, rows: list[tuple[Any, ...]], *, with_key: bool = False
) -> list[tuple[Any, ...]]:
    for row in rows:
        if not row[1]:
            raise file.seals.broken(table, row[0])
    return [(row[0], *row[2:]) if with_key else row[2:] for row in rows]


def _commit(file: LedgerHandle, key: EffectKey) -> None:
    file.claimed.pop(key, None)
    file.execute(_COMMIT, (key,))


def _record(file: LedgerHandle, key: EffectKey, outcome: str) -> int:
    """Say how many rows took it: one, or none that has an outcome already. The seal of a row that
    was claimed at this desk is made here, which is quicker than within the statement."""
    row = file.claimed.pop(key, None)
    if row is None:
        return int(file.execute(_RECORD, (outcome, key)).rowcount)
    seal = file.seals.of("effects", (*row[:_OUTCOME_AT], outcome, *row[_OUTCOME_AT + 1 :]))
    return int(file.execute(_RECORD_SEALED, (outcome, seal, key)).rowcount)


def _found(file: LedgerHandle, key: EffectKey) -> RecordedOutcome | None:
    for digest, outcome in _intact(file, "effects", file.execute(_FIND, (key,)).fetchall()):
        return Digest(digest), None if outcome is None else _outcome_of(outcome)
    return None


def _outcome_of(text: str) -> EffectOutcome:
    return from_json(cast("type[EffectOutcome]", EffectOutcome), text)
