"""The evidence of a rollout in a store that several processes share: none lost, none counted twice.

Each rollout is one document, the state of its machine. An event is folded into it by a versioned
`put`, which is tried again when somebody else was faster: so every process sees every event, in one
order, and the document stays as small as it is after the first of a million events. Events that
wait in one process are folded by one `put`.

An event of a call that may be made again (its run is recorded, and resumed after a kill) is kept
under the id of the call:

    open call ─▶ pending: its route ─▶ pending: its event ─▶ folded, id in the state ─▶ done

The call has the same route after a kill, since on another one it would perform its effects a second
time. `done` stays with the route, so that a call that is made once more does the same and counts no
more. The ids in the state are those of events that are folded and not yet done: a few, and one more
for each process that was killed, up to a limit. What is kept of a call is deleted when its run
cannot go on any more, see `tidy_calls`.

A process reads the state again when what it knows is a second old. While the store does not answer
it has no news, and the reference answers: whoever waits for the store waits for a second at most.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from secrets import token_hex

from msgspec import Struct, field, structs

from vegakit.concurrency import cancel_all
from vegakit.contracts import (
    Compared,
    Evidence,
    EvidenceHistory,
    EvidencePoint,
    PersonDecided,
    Rollout,
    RolloutEvent,
    RolloutMode,
    RolloutRoute,
    RolloutRule,
    StageChange,
)
from vegakit.errors import StoreError, UserError, VegaError
from vegakit.ids import ProgramId, begun_ms
from vegakit.ports import Clock, RunRecord, Store
from vegakit.records import from_json, to_json

STATES, HISTORIES, DIFFERENCES = "rollouts", "rollout-history", "rollout-differences"
"""The kinds of the documents that people look at, each by the key of its rollout."""
_PENDING, _DONE = "rollout-pending", "rollout-done"
NEWS_MS = 1_000
"""How old the state may be that a call is routed by: demotions by others hold after that."""
LOST_MS = 2_000
"""Without news for so long, a process runs the reference."""
_RETRIES = 200
_MAX_CHANGES = 100
_MAX_FOLDED = 2_000
"""Ids in the state. Living processes take theirs out again, so that only those of processes that
were killed come to so many; the oldest are dropped then."""
_ENDED_MS, _UNKNOWN_MS = 86_400_000, 90 * 86_400_000
"""What is kept of the calls of a run is deleted a day after it ended; of one that the journal does
not know, 90 days after it began."""
_MAX_TIDIED = 500
_HISTORY_RETRIES = 5
_PAGE = 100

_log = logging.getLogger(__name__)


class RecordedChange(Struct, frozen=True):
    """A decision, when it was made, and after how many comparisons in production."""

    at_ms: int
    change: StageChange
    runs: int = 0


class RolloutSubject(Struct, frozen=True):
    """Names what is compared with what, and how, for people."""

    reference: str = ""
    candidate: str = ""
    comparison: str = ""


class RolloutRecord(Struct):
    """The document of one rollout. `folded` are ids of events that are in the machine and not yet
    done; `changes` are the last decisions, `at_ms` is when it was written last."""

    machine: Rollout
    folded: list[str] = field(default_factory=list[str])
    changes: list[RecordedChange] = field(default_factory=list[RecordedChange])
    subject: RolloutSubject = RolloutSubject()
    at_ms: int = 0


class KeptDifference(Struct, frozen=True):
    """A call on which the paths differed, in production: what was asked, and what both said."""

    at_ms: int
    inputs: str
    reference: str
    candidate: str


class PendingCall(Struct, frozen=True, omit_defaults=True):
    """A call that has begun: how it was routed, and what came of it once that is known."""

    route: RolloutRoute
    event: RolloutEvent | None = None


class _WaitingEvent(Struct, eq=False):
    """An event that waits to be folded, and what came of it."""

    event: RolloutEvent
    call: str
    is_kept: bool
    is_over: bool = False
    change: StageChange | None = None
    point: EvidencePoint | None = None
    """For the history: the counts with this event."""
    error: VegaError | None = None


class RolloutEvidence:
    """The evidence of one rollout on one input class."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        initial: Rollout,
        on_change: Callable[[StageChange], object],
        subject: RolloutSubject | None = None,
    ) -> None:
        self._store, self._clock, self._on_change = store, clock, on_change
        self._subject = subject
        evidence = initial.evidence
        self.key = key_of(initial.name, evidence.version, evidence.input_class)
        self._initial = to_json(initial)
        self._machine, self._version = initial, 0
        self._written: tuple[bytes, int] | None = None
        """The state as we wrote it last, and its version."""
        self._is_alone = True
        """Nobody else has written since, as far as we know."""
        self._seen_ms: int | None = None
        """When the state was asked for that the machine is of."""
        self._reading: asyncio.Task[None] | None = None
        self._asked_ms = 0
        self._writing = asyncio.Lock()
        self._waiting: list[_WaitingEvent] = []
        self._ahead: set[str] = set()
        """Ids of events that demoted it here and that the store may not know yet."""
        self._done: list[str] = []
        """Ids of ours that need not be in the state any more: dropped from it when it is written
        the next time."""
        self._unsaved: list[tuple[RolloutEvent, str, RolloutRoute | None]] = []
        self.repeating: set[str] = set()
        """Ids of the calls in flight that compare the reference with itself to calibrate it."""

    @property
    def machine(self) -> Rollout:
        """Return the machine as this process knows it now."""
        return self._machine

    def route(self, inputs: str, call: str) -> RolloutRoute:
        """Route a call as the machine says. Those in flight that calibrate the reference count:
        else all that come at once would ask it twice."""
        route = self._machine.route(inputs, call, len(self.repeating - {call}))
        if route.is_calibrating:
            self.repeating.add(call)
        else:
            self.repeating.discard(call)
        return route

    async def refresh(self) -> bool:
        """Read what others have folded, if that is due; return whether the machine may be relied
        on. While the store does not answer, a candidate might have been demoted by others."""
        age_ms = self._age_ms()
        is_fresh = age_ms < NEWS_MS and not self._unsaved
        if is_fresh and age_ms < NEWS_MS / 2:
            return True
        # One read for all calls, and not cancelled with any of them: it may be saving events.
        if self._reading is None or self._reading.done():
            self._asked_ms = self._clock.now()
            self._reading = asyncio.create_task(self._read())
        # Asked for before they are needed: where calls come often, none of them waits for news.
        if is_fresh:
            return True
        left_ms = LOST_MS - NEWS_MS - (self._clock.now() - self._asked_ms)
        if left_ms > 0:
            await asyncio.wait([self._reading], timeout=left_ms / 1000)
        return self._age_ms() < LOST_MS and not self._unsaved

    def _age_ms(self) -> float:
        return float("inf") if self._seen_ms is None else self._clock.now() - self._seen_ms

    async def _read(self) -> None:
        try:
            # The store is told before it is asked for news.
            await self.save_unsaved()
            await self._load()
        except StoreError as error:
            _log.warning("rollout %s: no news, so the reference answers: %s", self.key, error)

    async def save_unsaved(self) -> None:
        """Tell the store what it did not take when it was told."""
        while self._unsaved:
            first = self._unsaved[0]
            await self._record(*first)
            # Others may save at the same time; an event that is saved twice counts once.
            self._unsaved = [each for each in self._unsaved if each is not first]

    async def aclose(self) -> None:
        """Save what the store did not take when it was told, and take our ids out of the state."""
        if self._reading is not None:
            await cancel_all([self._reading])
        try:
            await self.save_unsaved()
            async with self._writing:
                if self._done:
                    await self._fold_all([])
        except StoreError as error:
            lost = len(self._unsaved)
            _log.warning("rollout %s: %d comparisons are lost: %s", self.key, lost, error)

    async def open_call(
        self,
        call: str,
        inputs: str,
        *,
        is_kept: bool,
        is_fresh: bool = True,
        is_new: bool = False,
        is_paid: bool = True,
    ) -> RolloutRoute:
        """Route a call; one that is kept takes the route that it had before a kill, if it is not
        known to be new. Without fresh news the reference answers. One whose comparison nobody pays
        is not compared, on whichever route the machine has it by now."""
        stopped = RolloutRoute(RolloutMode.REFERENCE_ONLY)
        route = self.route(inputs, call) if is_fresh else stopped
        route = route if is_paid else route.uncompared()
        if not is_kept:
            return route
        key = self._of(call)
        # The reference's calls are kept, too: its rollout may be promoted before the run goes on.
        kind = _DONE if route.mode is RolloutMode.REFERENCE_ONLY else _PENDING
        if not is_new and (before := await self._route_before(key)) is not None:
            return before
        if not await self._store.put(kind, key, to_json(PendingCall(route)), expected=0):
            return await self._route_before(key) or route
        return route

    async def _route_before(self, key: str) -> RolloutRoute | None:
        # In this order: whoever finishes a call puts `done` before it deletes what was pending.
        pending = await self._store.get(_PENDING, key)
        # And if it was killed between the two, `done` says how the call was answered in the end.
        found = await self._store.get(_DONE, key) or pending
        return None if found is None else from_json(PendingCall, found[0]).route

    async def close_call(self, call: str, route: RolloutRoute | None = None) -> None:
        """Note that a kept call brings no evidence, and with a route, how it is answered when it is
        made again."""
        found = await self._store.get(_PENDING, self._of(call))
        if found is not None and from_json(PendingCall, found[0]).event is None:
            done = found[0] if route is None else to_json(PendingCall(route))
            await self._store.put(_DONE, self._of(call), done, expected=0)
            await self._store.delete(_PENDING, self._of(call), expected=found[1])

    async def record(
        self, event: RolloutEvent, call: str = "", route: RolloutRoute | None = None
    ) -> StageChange | None:
        """Fold an event in, under the id of its call if that is kept; return the decision.

        This process acts on it before the store knows it: what demotes takes effect before the next
        call here, however slow the store is. What promotes waits until all can know it."""
        # The id is there for every event: a put whose reply was lost is not made a second time.
        call, route = (call, route) if call else (token_hex(8), None)
        if isinstance(event, Compared) and not event.agrees:  # nothing else demotes by itself
            next_machine = _copied(self._machine)
            change = next_machine.step(event)
            if change is not None and not change.is_promotion:
                self._machine = next_machine
                self._ahead.add(call)
        try:
            return await self._record(event, call, route)
        except StoreError:
            self._unsaved.append((event, call, route))
            raise

    async def _record(
        self, event: RolloutEvent, call: str, route: RolloutRoute | None
    ) -> StageChange | None:
        """Save an event, which is of a kept call if it has a route."""
        if route is None:
            change = await self._fold(event, call, is_kept=False)
            self._done.append(call)
        else:
            change = await self._keep(call, PendingCall(route, event))
        self._ahead.discard(call)
        return change

    async def _keep(self, call: str, pending: PendingCall) -> StageChange | None:
        key = self._of(call)
        # As a rule it is as `open_call` left it.
        if not await self._store.put(_PENDING, key, to_json(pending), expected=1):
            found = await self._store.get(_PENDING, key)
            if found is None and await self._store.get(_DONE, key) is not None:
                return None
            if found is None:
                await self._store.put(_PENDING, key, to_json(pending), expected=0)
            # With an event, a process before this one of the same run was at it: that one counts.
        return await self._finish(call)

    async def _finish(self, call: str) -> StageChange | None:
        """Fold the kept event of a call, and note that it is done."""
        key = self._of(call)
        found = await self._store.get(_PENDING, key)
        pending = None if found is None else from_json(PendingCall, found[0])
        if found is None or pending is None or pending.event is None:
            return None
        change = await self._fold(pending.event, call, is_kept=True)
        await self._store.put(_DONE, key, to_json(PendingCall(pending.route)), expected=0)
        await self._store.delete(_PENDING, key, expected=found[1])
        self._done.append(call)
        return change

    async def recover(self) -> None:
        """Finish what processes that died had kept and not folded."""
        prefix = f"{self.key}/"
        after = prefix
        while keys := await self._store.keys(_PENDING, after=after, limit=_PAGE):
            for key in keys:
                if not key.startswith(prefix):
                    return
                await self._finish(key.removeprefix(prefix))
            after = keys[-1]

    async def _fold(self, event: RolloutEvent, call: str, *, is_kept: bool) -> StageChange | None:
        """Fold an event, with all others that wait for the same."""
        mine = _WaitingEvent(event, call, is_kept)
        self._waiting.append(mine)
        try:
            async with self._writing:
                if not mine.is_over:
                    await self._fold_waiting([*self._waiting])
        finally:
            # Others stay if this one is cancelled: the next of them folds the rest.
            self._waiting = [each for each in self._waiting if each is not mine]
        if mine.error is not None:
            raise mine.error
        return mine.change

    async def _fold_waiting(self, batch: Sequence[_WaitingEvent]) -> None:
        try:
            await self._fold_all(batch)
        except StoreError as error:
            for each in batch:
                each.error = error
        for each in batch:
            each.is_over = True
        self._waiting = [each for each in self._waiting if not each.is_over]

    async def _fold_all(self, batch: Sequence[_WaitingEvent]) -> None:
        """Fold a batch by one write, in which ids of events that are done are dropped."""
        for attempt in range(_RETRIES):
            asked_ms, (record, version) = self._clock.now(), await self._state_for(batch)
            known = await self._folded_of(batch, record)
            done, is_changed = {*self._done}, False
            for each in batch:
                if each.call not in known:
                    known.add(each.call)
                    is_changed |= self._step(each, record)
            if not is_changed and not done:
                return
            record.folded = [each for each in record.folded if each not in done][-_MAX_FOLDED:]
            record.at_ms = self._clock.now()
            written = to_json(record)
            if await self._store.put(STATES, self.key, written, expected=version):
                # That it was taken is news, too: nobody else has written since.
                self._written = written, version + 1
                self._seen_ms = max(asked_ms, self._seen_ms or asked_ms)
                self._done = [each for each in self._done if each not in done]
                self._see(record.machine, version + 1, known={each.call for each in batch})
                await self._keep_points([each.point for each in batch if each.point is not None])
                for each in batch:
                    if each.change is not None:
                        self._tell(each.change)
                return
            self._is_alone = False
            await asyncio.sleep(min(attempt, 20) / 1000)
        raise StoreError(
            f"the evidence of {self.key} was changed by others at each of {_RETRIES} attempts; "
            "compare a smaller share of calls, or use fewer processes"
        )

    async def begin(self) -> bool:
        """Write down that there is this rollout, before its first event; return whether it is
        new."""
        record, version = await self._load()
        record.at_ms = self._clock.now()
        return version == 0 and await self._store.put(STATES, self.key, to_json(record), expected=0)

    async def _keep_points(self, points: Sequence[EvidencePoint]) -> None:
        """Add to the history, which is a document of its own: it would be most of the state, and is
        written every tenth time at most. A point that is lost is missing in a picture."""
        if not points:
            return
        try:
            for _ in range(_HISTORY_RETRIES):
                history, version = await load_history(self._store, self.key)
                for point in points:
                    history.add(point)
                if await self._store.put(HISTORIES, self.key, to_json(history), expected=version):
                    return
        except StoreError as error:
            _log.info("rollout %s: a point of its history is lost: %s", self.key, error)

    async def keep_difference(self, inputs: str, reference: str, candidate: str) -> None:
        """Keep what the paths differed on, for people; of the last ones only."""
        most = self._machine.rule.differences
        one = KeptDifference(self._clock.now(), inputs, reference, candidate)
        try:
            for _ in range(_HISTORY_RETRIES if most else 0):
                kept, version = await load_differences(self._store, self.key)
                latest = to_json([*kept, one][-most:])
                if await self._store.put(DIFFERENCES, self.key, latest, expected=version):
                    return
        except StoreError as error:
            _log.info("rollout %s: what differed is not kept: %s", self.key, error)

    async def _state_for(self, batch: Sequence[_WaitingEvent]) -> tuple[RolloutRecord, int]:
        """Return the state to fold a batch into: while nobody else writes, as we wrote it last,
        since the store refuses what is based on an older one. What a person asks for is judged by
        what holds now."""
        is_asked = any(isinstance(each.event, PersonDecided) for each in batch)
        if self._written is None or not self._is_alone or is_asked:
            return await self._load()
        return from_json(RolloutRecord, self._written[0]), self._written[1]

    def _step(self, each: _WaitingEvent, record: RolloutRecord) -> bool:
        """Return whether the record has changed by an event."""
        each.change = each.error = each.point = None
        before = record.machine.evidence.production.runs
        try:
            each.change = record.machine.step(each.event)
        except UserError as error:  # a person asks for what cannot be: it fails alone
            each.error = error
            return False
        record.folded.append(each.call)
        evidence = record.machine.evidence
        point = EvidencePoint(self._clock.now(), evidence.production, evidence.pairs)
        if point.is_kept and evidence.production.runs > before:
            each.point = point
        if each.change is not None:
            runs = record.machine.evidence.production.runs
            record.changes.append(RecordedChange(self._clock.now(), each.change, runs))
            del record.changes[:-_MAX_CHANGES]
        return True

    async def _folded_of(self, batch: Sequence[_WaitingEvent], record: RolloutRecord) -> set[str]:
        """Return which of the batch are folded. The state was read before this: if an id is gone
        from it, its event was done by then."""
        folded = {each.call for each in batch} & {*record.folded}
        for each in batch:
            if each.is_kept and each.call not in folded:
                found = await self._store.get(_DONE, self._of(each.call))
                folded |= set() if found is None else {each.call}
        return folded

    async def _load(self) -> tuple[RolloutRecord, int]:
        """Read the state, and take it for what is known here."""
        asked_ms = self._clock.now()
        found = await self._store.get(STATES, self.key)
        record, version = RolloutRecord(from_json(Rollout, self._initial)), 0
        if found is not None:
            record, version = from_json(RolloutRecord, found[0]), found[1]
        record.subject = self._subject or record.subject
        self._is_alone = self._written is not None and version == self._written[1]
        # A copy: the record is stepped on, and what it becomes may not be taken by the store.
        self._see(_copied(record.machine), version)
        self._seen_ms = max(asked_ms, self._seen_ms or asked_ms)
        return record, version

    def _see(self, machine: Rollout, version: int, known: "set[str] | None" = None) -> None:
        """Take what the store knows, unless that is older than what we know, or it may not know
        yet of a demotion that we know of: `known` are the events that it has just been told."""
        if version < self._version:
            return
        if not self._ahead - (known or set()) or machine.stage <= self._machine.stage:
            self._machine, self._version = machine, version

    def _tell(self, change: StageChange) -> None:
        try:
            self._on_change(change)
        except Exception:  # noqa: BLE001  (an alert that fails must not undo what it tells)
            _log.exception("rollout %s: on_change failed", self.key)

    def _of(self, call: str) -> str:
        return f"{self.key}/{call}"


# Calls of runs that are over.


async def tidy_calls(
    store: Store, name: str, runs: Sequence[RunRecord], now_ms: int, at_most: int = _MAX_TIDIED
) -> int:
    """Delete what is kept of calls that will not be made again, and return how many there were, of
    all versions and input classes of a rollout; whoever closes it next goes on."""
    is_over, deleted = _over(runs, now_ms), 0
    prefix = f"{name}/"
    for kind in (_PENDING, _DONE):
        after = prefix
        while deleted < at_most:
            page = await store.keys(kind, after=after, limit=_PAGE)
            own = [key for key in page if key.startswith(prefix)]
            if not own:
                break
            for key in own:
                place, _, call = key.rpartition("/")
                after, run = key, call.partition(".")[0]
                if not is_over(run):
                    after = f"{place}/{run}/"  # behind all of its calls: "/" follows "."
                    break
                # At its first version a pending call has no event that is still to be counted.
                deleted += await store.delete(kind, key, expected=1)
    return deleted


def _over(runs: Sequence[RunRecord], now_ms: int) -> Callable[[str], bool]:
    """Return who says whether a run cannot go on. A process that makes several runs makes all of
    them again, so that one ends with the last of them, and the next one may follow a while later.
    One that the journal does not know is in another journal, or forgotten: it is given time."""
    groups = {str(run.program): run.first or run.program for run in runs}
    living = {
        groups[run.program]
        for run in runs
        if run.ended_ms is None or run.ended_ms > now_ms - _ENDED_MS
    }

    def is_over(run: str) -> bool:
        if run in groups:
            return groups[run] not in living
        return begun_ms(ProgramId(run)) < now_ms - _UNKNOWN_MS

    return is_over


def _copied(machine: Rollout) -> Rollout:
    """Return a copy that is stepped on alone: all else that it holds is replaced, not changed."""
    detector = None if machine.detector is None else structs.replace(machine.detector)
    return structs.replace(machine, detector=detector)


def initial_rollout(name: str, rule: RolloutRule, version: str, input_class: str) -> Rollout:
    """Return a rollout that has seen nothing."""
    return Rollout(name, rule, Evidence(version, input_class))


def key_of(name: str, version: str, input_class: str) -> str:
    """Return the key under which all documents of a rollout are kept."""
    return f"{name}/{version}/{input_class}"


async def load_differences(store: Store, key: str) -> tuple[list[KeptDifference], int]:
    """Return the last differences of a rollout, and the version of their document."""
    found = await store.get(DIFFERENCES, key)
    return ([], 0) if found is None else (from_json(list[KeptDifference], found[0]), found[1])


async def load_history(store: Store, key: str) -> tuple[EvidenceHistory, int]:
    """Return the history of a rollout and its version; an empty one if none is kept yet."""
    found = await store.get(HISTORIES, key)
    return (
        (EvidenceHistory(), 0)
        if found is None
        else (from_json(EvidenceHistory, found[0]), found[1])
    )


def told_unknown(name: str, word: str, known: Iterable[str]) -> str:
    """Return why there is no such input class."""
    classes = [each for each in known if each]
    if not classes:
        return f"rollout {name} has no input classes, so none {word!r}; leave the class out"
    return (
        f"rollout {name} has had no call of the input class {word!r}; there are: "
        f"{', '.join(map(repr, classes))}"
    )
