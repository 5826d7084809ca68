"""The journal on SQL rows, on SQLite and on PostgreSQL: outcomes by effect key, with one writer a
run. Every write is kept when its result is returned.

| an effect's row          | means                           | on resume                        |
|--------------------------|---------------------------------|----------------------------------|
| none                     | it was not begun                | it is carried out                |
| claimed, without outcome | it was begun, and our side died | the ledger knows if it was sent: |
|                          |                                 | Unknown, or it is begun anew     |
| with outcome             | it is done                      | that outcome, never again        |

Each row carries the seal of its other columns, made with the user's secret. A row is checked when
it is read and sealed anew when it is changed, here and not by the database, so that nobody who
can write to the database can have a forged row sealed.
"""

from abc import ABC, abstractmethod
from asyncio import Future
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, cast

from msgspec import Struct, structs

from vegakit.effects import CallModel, CallTool, Effect, place_of
from vegakit.errors import BugError, StoreError, UserError
from vegakit.events import EffectOutcome, Refused, is_over_budget, reopened
from vegakit.ids import Digest, EffectKey, ProgramId
from vegakit.money import Money
from vegakit.ports import (
    ClaimResult,
    KeptOutcome,
    Ledger,
    PastCall,
    PastEffect,
    RecordedOutcome,
    RunRecord,
    Store,
    UnfinishedEffect,
)
from vegakit.records import from_json, to_json
from vegakit.store.ledger import SqlLedger
from vegakit.store.seals import RowSeals, user_seal
from vegakit.store.spool import RunFiles
from vegakit.store.thread import StoreThread

# ruff: noqa: S608  (statements are put together from our own words)

T = TypeVar("T")
SqlRow: TypeAlias = tuple[Any, ...]


class EffectRow(NamedTuple):
    """The columns of an effect without its seal, in the order in which they are sealed."""

    key: str
    program: str
    path: str
    kind: str
    idempotent: bool
    digest: str
    claimed_ms: int
    outcome: str | None
    code: str
    committed: bool


class RunRow(NamedTuple):
    """The columns of a run without its seal, in the order in which they are sealed."""

    program: str
    ended_ms: int | None
    run: str

    def record(self) -> RunRecord:
        """Return the run as it was begun, with the end that is known now."""
        return structs.replace(from_json(RunRecord, self.run), ended_ms=self.ended_ms)


_EFFECTS = f"SELECT {', '.join(EffectRow._fields)}, seal FROM effects WHERE "
_CLAIM = (
    f"INSERT INTO effects ({', '.join(EffectRow._fields)}, seal)"
    f" VALUES ({', '.join('?' * (len(EffectRow._fields) + 1))})"
)
_CHANGE = "UPDATE effects SET outcome = ?, committed = ?, seal = ? WHERE key = ?"
_COMMITTED_AT = """SELECT 1 FROM effects
    WHERE key >= ? AND key < ? AND key <> ? AND committed AND code <> ? LIMIT 1"""
RUNS = f"SELECT {', '.join(RunRow._fields)}, seal FROM runs WHERE "
_BEGIN = """INSERT INTO runs (program, ended_ms, run, seal) VALUES (?, ?, ?, ?)
    ON CONFLICT (program) DO NOTHING"""
_CHANGE_RUN = "UPDATE runs SET ended_ms = ?, run = ?, seal = ? WHERE program = ?"
_MOST_CLAIMED = 10_000
"""How many claimed rows are remembered. What was cancelled is never recorded and would pile up."""


class RetentionRule(NamedTuple):
    """Says which runs that have ended are kept: none older than `for_ms`, and no more than fit into
    `most_bytes`."""

    for_ms: int
    most_bytes: int


class ForgottenRuns(Struct, frozen=True):
    """The runs that were forgotten, or would be; `bytes` is what that frees."""

    runs: tuple[str, ...] = ()
    bytes: int = 0


def forget_ended(
    ended: Iterable[tuple[str, int]],
    size_of: Callable[[str], int],
    delete: Callable[[str], None],
    before_ms: int,
    excess_bytes: int,
) -> ForgottenRuns:
    """Forget the runs that ended before then, and the oldest of the others while what is freed is
    less than `excess_bytes`. `ended` comes by time; each run is a transaction of its own, so that
    nobody who records waits long. Unfinished runs are never forgotten, because each of them can go
    on."""
    freed, runs = 0, list[str]()
    for program, ended_ms in ended:
        if ended_ms >= before_ms and freed >= excess_bytes:
            break
        freed += size_of(program)
        runs.append(program)
        delete(program)
    return ForgottenRuns((*runs,), freed)


class JournalHandle(Protocol):
    """The thread of a journal works with a handle, made anew with each connection."""

    @property
    def execute(self) -> Callable[..., Any]:
        """Run a statement on its values and return a cursor."""
        ...

    @property
    def executemany(self) -> Callable[..., Any]:
        """Run a statement on each of the rows."""
        ...

    @property
    def seals(self) -> RowSeals:
        """The seals of the rows of this place."""
        ...

    @property
    def claimed(self) -> dict[str, EffectRow]:
        """Effects that were claimed on this connection and have no outcome yet. Only the run's one
        writer changes them, so they need not be read again before they are recorded."""
        ...


ThreadT = TypeVar("ThreadT", bound=StoreThread[Any])


class SqlJournal(ABC, Generic[ThreadT]):
    """Implements `ports.Journal` on a thread. From `begin` to `aclose` the journal is locked, or if
    it is `shared` only the run. `keep` says which runs that have ended are kept, all if it says
    nothing. `files` are the lock and the spool of a run on this machine. `own` is the condition
    on runs that this user's secret has sealed."""

    def __init__(
        self,
        place: str,
        thread: ThreadT,
        files: RunFiles,
        *,
        shared: bool,
        keep: RetentionRule | None,
        own: str = "TRUE",
    ) -> None:
        self.place, self.shared, self.keep_runs = place, shared, keep
        self._thread, self._files, self._runs = thread, files, f"{RUNS}{own}"
        self._program = ProgramId("")
        self._places: set[str] | None = None
        """Of all effects of this run that were ever claimed; None: not known."""

    @abstractmethod
    def ledger(self) -> Ledger:
        """Return the ledger in the same place, worked on by the same thread: what is called
        `atomically` on both is one transaction. It is closed with the journal."""

    @abstractmethod
    def store(self) -> Store:
        """Return the documents in the same place; closed with the journal."""

    @abstractmethod
    async def is_running(self, run: RunRecord) -> bool:
        """Say whether somebody carries on this run."""

    @abstractmethod
    async def tidy(self, now: int) -> None:
        """Forget a few runs that `keep` lets go."""

    async def _own(self, program: ProgramId) -> None:
        """Become the one writer, or raise `StoreError` if there is another."""
        if not self._files.lock(program if self.shared else ""):
            raise self._not_owner(program)

    async def _check_all(self) -> None:
        """Check the whole place before a run goes on, as far as that costs little."""

    def atomically(self) -> AbstractContextManager[None]:
        return self._thread.atomically()

    def holds(self, ledger: Ledger) -> bool:
        return isinstance(ledger, SqlLedger) and ledger.is_on(self._thread)

    def is_new(self, key: EffectKey) -> bool:
        return self._places is not None and place_of(key) not in self._places

    async def begin(self, run: RunRecord, resume: ProgramId | None = None) -> RunRecord:
        await self._own(resume or run.program)
        if self.shared:
            found = [] if resume is None else await self._run_rows("program = ?", resume)
            if resume is not None and not found:
                raise UserError(
                    f"{self.place} holds no run {resume} of yours; to see them, type: vega runs"
                )
        else:
            found = await self._run_rows("ended_ms IS NULL ORDER BY program DESC LIMIT 1")
            if found and self._files.was_shared(found[0].program):
                # Taken up here it would be carried on by an unrelated program, beside its owner.
                raise UserError(
                    f"{self.place} is a journal that many runs share, and run {found[0].program} "
                    "in it is unfinished; go on with it by `vega resume`, or name another journal "
                    "for this program"
                )
        if found:
            await self._check_all()
            run = from_json(RunRecord, found[0].run)
            if found[0].ended_ms is not None:
                # It goes on: were it killed now, nobody would look for it among those that ended.
                run = structs.replace(run, is_given_up=False, refusal="")
                again = found[0]._replace(ended_ms=None, run=to_json(run).decode())
                await self._write_run(_CHANGE_RUN, again)
        else:
            await self._write_run(_BEGIN, RunRow(run.program, None, to_json(run).decode()))
        self._program = run.program
        # Of a new run nothing is known, so its effects need not be looked for one by one.
        mine = await self._effects("program = ?", run.program) if found else []
        self._places = {place_of(EffectKey(row.key)) for row in mine}
        self._files.open_spool(run.program if self.shared else "", user_seal())
        return run

    async def end(self, now: int, *, is_given_up: bool = False, refusal: str = "") -> None:
        for row in await self._run_rows("program = ?", self._program):
            text = row.run
            if is_given_up:
                run = structs.replace(row.record(), is_given_up=True, refusal=refusal)
                text = to_json(run).decode()
            await self._write_run(_CHANGE_RUN, row._replace(ended_ms=now, run=text))

    def note(self, run: RunRecord) -> Awaitable[None]:
        row = RunRow(self._program, run.ended_ms, to_json(run).decode())
        return self._write_run(_CHANGE_RUN, row)

    async def past(self, program: ProgramId) -> Sequence[PastEffect]:
        """Return the effects of a run of this user."""
        if not await self._run_rows("program = ?", program):
            return []
        return [
            PastEffect(
                row.path,
                row.kind,
                Digest(row.digest),
                row.claimed_ms,
                bool(row.committed),
                outcome_of(row.outcome),
            )
            for row in await self._effects("program = ?", program)
        ]

    async def runs(self) -> Sequence[RunRecord]:
        return [row.record() for row in await self._run_rows("TRUE ORDER BY program")]

    def find(self, key: EffectKey) -> Awaitable[RecordedOutcome | None]:
        return self._thread.do(lambda handle: (_found(_row_of(handle, key)), _nothing))

    def claim(
        self, effect: Effect, now: int, *, speculative: bool = False
    ) -> Awaitable[ClaimResult]:
        kind, key = type(effect.request).__name__, effect.key
        idempotent = isinstance(effect.request, CallTool) and effect.request.idempotent
        place = (key, self._program, str(effect.path))
        row = EffectRow(
            *place, kind, idempotent, effect.digest, now, None, effect.code, not speculative
        )
        beside, is_new = place_of(key), self.is_new(key)
        if self._places is not None:
            self._places.add(beside)

        def work(handle: JournalHandle) -> tuple[ClaimResult, Callable[[], object]]:
            if is_new:
                return ClaimResult(None, changed=False), lambda: _insert(handle, row)
            others = (f"{beside}.", f"{beside}/", key, effect.code)  # "/" is next after "."
            changed = handle.execute(_COMMITTED_AT, others).fetchone() is not None
            known = _row_of(handle, key)
            if known is None:
                return ClaimResult(None, changed), lambda: _insert(handle, row)
            commit = not speculative and not known.committed
            write = _change(handle, known._replace(committed=True)) if commit else _nothing
            return ClaimResult(outcome_of(known.outcome), changed), write

        return self._thread.do(work)

    def commit(self, key: EffectKey) -> Awaitable[None]:
        def work(handle: JournalHandle) -> tuple[None, Callable[[], object]]:
            try:
                row = handle.claimed.get(key) or _row_of(handle, key)
            except StoreError:
                return None, _nothing  # whoever reads it is told; sealed anew it would look ours
            if row is None or row.committed:
                return None, _nothing
            return None, _change(handle, row._replace(committed=True))

        return self._thread.do(work)

    def record(self, key: EffectKey, outcome: EffectOutcome) -> Awaitable[None]:
        text = to_json(outcome).decode()

        def work(handle: JournalHandle) -> tuple[None, Callable[[], object]]:
            row = handle.claimed.get(key) or _row_of(handle, key)
            if row is None:
                raise BugError(f"the effect {key} was not claimed before it was recorded")
            is_first = row.outcome is None
            return None, _change(handle, row._replace(outcome=text)) if is_first else _nothing

        recording = self._thread.do(work)
        if (spool := self._files.spool) is not None:
            recording.add_done_callback(lambda done: _succeeded(done) and spool.done(key))
        return recording

    def make_place(self, key: EffectKey, length: int) -> None:
        if self._files.spool is not None:
            self._files.spool.make_place(key, length)

    def leave_place(self, key: EffectKey) -> None:
        if self._files.spool is not None:
            self._files.spool.leave_place(key)

    def keep(self, key: EffectKey, attempt: int, bill: Money, outcome: EffectOutcome) -> None:
        if self._files.spool is None:
            raise BugError("a journal keeps nothing before it has begun a run")
        self._files.spool.append(KeptOutcome(self._program, key, attempt, bill, outcome))

    async def kept(self) -> Sequence[KeptOutcome]:
        """Return what an earlier process of this run kept. What another run left came to its end
        with it."""
        mine: list[KeptOutcome] = []
        for kept in self._files.spool.read() if self._files.spool else ():
            if kept.program == self._program:
                mine.append(kept)
            else:
                assert self._files.spool
                self._files.spool.done(kept.key)
        return mine

    def drop(self, key: EffectKey) -> Awaitable[None]:
        def write(handle: JournalHandle) -> None:
            handle.claimed.pop(key, None)
            handle.execute("DELETE FROM effects WHERE key = ? AND outcome IS NULL", (key,))

        return self._thread.do(lambda handle: (None, lambda: write(handle)))

    async def reopen(self, keys: Sequence[EffectKey]) -> None:
        def work(handle: JournalHandle) -> tuple[None, Callable[[], object]]:
            return None, lambda: [self._reopen(handle, key) for key in keys]

        # What was recorded needs no copy in the spool, and a copy of what is reopened would be
        # taken for its outcome by the next process. The thread works in order: when this is done,
        # so is all that was recorded before.
        await self._thread.do(lambda _: (None, _nothing))
        if self._files.spool is not None:
            self._files.spool.settle()
        await self._thread.do(work)

    def _reopen(self, handle: JournalHandle, key: EffectKey) -> None:
        row = _row_of(handle, key)
        if row is None or row.outcome is None or row.program != self._program:
            return
        since = "program = ? AND claimed_ms >= ? AND committed"
        for later in _rows(handle, since, self._program, row.claimed_ms):
            _change(handle, later._replace(committed=False))()
        outcome = from_json(_OUTCOME, row.outcome)
        # What was refused was never sent: it is as if the program had not come to it yet.
        if row.kind == CallModel.__name__ and not isinstance(outcome, Refused):
            left = reopened(outcome)
            text = None if left is None else to_json(left).decode()
            _change(handle, row._replace(outcome=text, committed=False))()
        else:
            handle.execute("DELETE FROM effects WHERE key = ?", (key,))

    async def cut_off(self) -> Sequence[UnfinishedEffect]:
        found = await self._effects("program = ? AND outcome IS NULL", self._program)
        return [
            UnfinishedEffect(
                EffectKey(row.key), row.path, row.kind, bool(row.idempotent), not row.committed
            )
            for row in found
        ]

    async def calls(self) -> Sequence[PastCall]:
        paid = "program = ? AND kind = 'CallModel' AND outcome IS NOT NULL"
        found = await self._effects(paid, self._program)
        outcomes = [from_json(_OUTCOME, row.outcome or "") for row in found]
        return [
            PastCall(EffectKey(row.key), row.path, outcome, bool(row.committed))
            for row, outcome in zip(found, outcomes, strict=True)
        ]

    async def refused(self) -> Sequence[EffectKey]:
        calls = "program = ? AND kind = 'CallModel' AND outcome LIKE ?"
        found = await self._effects(calls, self._program, "%BudgetExceeded%")
        outcomes = ((row.key, from_json(_OUTCOME, row.outcome or "")) for row in found)
        return [EffectKey(key) for key, outcome in outcomes if is_over_budget(outcome)]

    async def aclose(self) -> None:
        await self._thread.aclose()
        self._files.close()

    def _not_owner(self, program: ProgramId) -> StoreError:
        if self.shared:
            return StoreError(
                f"run {program} is running in another process; wait until it has "
                "ended, or look for it: vega ps"
            )
        return StoreError(
            f"the journal {self.place} is being written by another run, of this process or "
            "another one; wait until that run has ended, or name another journal"
        )

    def _effects(self, condition: str, *values: object) -> Awaitable[list[EffectRow]]:
        return self._thread.do(lambda handle: (_rows(handle, condition, *values), _nothing))

    def _run_rows(self, condition: str, *values: object) -> Awaitable[list[RunRow]]:
        """Return the runs of this user for which the condition holds, each checked: a run says
        which command is started to go on with it."""

        def work(handle: JournalHandle) -> tuple[list[RunRow], Callable[[], object]]:
            found = handle.execute(f"{self._runs} AND {condition}", values).fetchall()
            return [RunRow(*row) for row in handle.seals.checked("runs", found)], _nothing

        return self._thread.do(work)

    def _write_run(self, statement: str, row: RunRow) -> Awaitable[None]:
        def write(handle: JournalHandle) -> None:
            seal = handle.seals.of("runs", row)
            is_new = statement is _BEGIN
            handle.execute(statement, (*row, seal) if is_new else (*row[1:], seal, row.program))

        return self._thread.do(lambda handle: (None, lambda: write(handle)))


_OUTCOME = cast("type[EffectOutcome]", EffectOutcome)


def check_effects(handle: JournalHandle) -> None:
    """Raise if any effect in the place does not fit its seal: a row that is damaged so that nobody
    finds it would be bought again."""
    for _ in handle.seals.checked("effects", handle.execute(f"{_EFFECTS} TRUE")):
        pass


def _insert(handle: JournalHandle, row: EffectRow) -> None:
    handle.execute(_CLAIM, (*row, handle.seals.of("effects", row)))
    if len(handle.claimed) >= _MOST_CLAIMED:
        handle.claimed.clear()
    handle.claimed[row.key] = row


def _change(handle: JournalHandle, row: EffectRow) -> Callable[[], None]:
    """Return how to write the outcome and the state of a row that was read or claimed by us. Its
    other columns never change."""

    def write() -> None:
        values = (row.outcome, bool(row.committed), handle.seals.of("effects", row), row.key)
        handle.execute(_CHANGE, values)
        if row.outcome is not None:
            handle.claimed.pop(row.key, None)
        elif row.key in handle.claimed:
            handle.claimed[row.key] = row

    return write


def _rows(handle: JournalHandle, condition: str, *values: object) -> list[EffectRow]:
    found: Iterable[SqlRow] = handle.execute(_EFFECTS + condition, values).fetchall()
    return [EffectRow(*row) for row in handle.seals.checked("effects", found)]


def _row_of(handle: JournalHandle, key: EffectKey) -> EffectRow | None:
    return next(iter(_rows(handle, "key = ?", key)), None)


def _found(row: EffectRow | None) -> RecordedOutcome | None:
    return None if row is None else (Digest(row.digest), outcome_of(row.outcome))


def outcome_of(text: str | None) -> EffectOutcome | None:
    """Return a recorded outcome; None where there is none."""
    return None if text is None else from_json(_OUTCOME, text)


def _succeeded(done: "Future[None]") -> bool:
    return not done.cancelled() and done.exception() is None


def _nothing() -> None:
    pass
