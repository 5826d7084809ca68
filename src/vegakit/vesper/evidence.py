"""The evidence of a rollout in a store that several processes share: none lost, none counted twice.

Each rollout is one document, the state of its machine. An event is folded into it by a versioned
`put`, which is tried again when somebody else was faster: so every process sees every event, in one
order, and the document stays as small as it is after the first of a million events.

An event of a call that may be made again (its run is recorded, and resumed after a kill) is kept
under the id of the call:

    open call ─▶ pending: its route ─▶ pending: its event ─▶ folded, id in the state ─▶ done

The call has the same route after a kill, since on another one it would perform its effects a second
time. `done` stays with the route, so that a call that is made once more does the same and counts no
more. The ids in the state are those of events that are folded and not yet done: a few, whatever
happened before.
"""

import asyncio
import logging
from collections.abc import Callable
from secrets import token_hex

from msgspec import Struct, field

from vegakit.contracts import (
    Evidence,
    PersonDecided,
    Rollout,
    RolloutEvent,
    RolloutMode,
    RolloutRoute,
    RolloutRule,
    StageChange,
)
from vegakit.errors import StoreError, VegaError
from vegakit.ports import Clock, Store
from vegakit.records import from_json, to_json

_STATES, _PENDING, _DONE = "rollouts", "rollout-pending", "rollout-done"
NEWS_MS = 1_000
"""How old the state may be that a call is routed by: demotions by others hold after that."""
_RETRIES = 200
_MAX_CHANGES = 100
_PAGE = 100

_log = logging.getLogger(__name__)


class RecordedChange(Struct, frozen=True):
    """A decision, and when it was made."""

    at_ms: int
    change: StageChange


class RolloutRecord(Struct):
    """The document of one rollout. `folded` are ids of events that are in the machine and not yet
    done; `changes` are the last decisions."""

    machine: Rollout
    folded: list[str] = field(default_factory=list[str])
    changes: list[RecordedChange] = field(default_factory=list[RecordedChange])


class PendingCall(Struct, frozen=True, omit_defaults=True):
    """A call that has begun: how it was routed, and what came of it once that is known."""

    route: RolloutRoute
    event: RolloutEvent | None = None


class RolloutEvidence:
    """The evidence of one rollout on one input class."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        initial: Rollout,
        on_change: Callable[[StageChange], object],
    ) -> None:
        self._store, self._clock, self._on_change = store, clock, on_change
        evidence = initial.evidence
        self.key = f"{initial.name}/{evidence.version}/{evidence.input_class}"
        self._initial = to_json(initial)
        self._machine = initial
        self._seen_ms: int | None = None
        self._writing = asyncio.Lock()
        self._ahead: set[str] = set()
        """Ids of events that demoted it here and that the store may not know yet."""
        self._done: list[str] = []
        """Ids of ours that need not be in the state any more: dropped from it when it is written
        the next time."""
        self._unsaved: list[tuple[RolloutEvent, str, RolloutRoute | None]] = []

    @property
    def machine(self) -> Rollout:
        """Return the machine as this process knows it now."""
        return self._machine

    async def refresh(self) -> bool:
        """Read what others have folded, if that is due; return whether the machine may be relied
        on. While the store does not answer, a candidate might have been demoted by others."""
        is_fresh = self._seen_ms is not None and self._clock.now() - self._seen_ms < NEWS_MS
        if is_fresh and not self._unsaved:
            return True
        try:
            while self._unsaved:
                await self._record(*self._unsaved.pop(0))
            record, _ = await self._load()
        except StoreError as error:
            _log.warning("rollout %s: no news, so the reference answers: %s", self.key, error)
            return False
        self._see(record.machine)
        return True

    async def open_call(
        self, call: str, inputs: str, *, is_kept: bool, is_paid: bool = True
    ) -> RolloutRoute:
        """Route a call; one that is kept takes the route that it had before a kill. One whose
        comparison nobody pays is not compared, on whichever route the machine has it by now."""
        route = self._machine.route(inputs, call)
        route = route if is_paid else route.uncompared()
        if not is_kept or route.mode is RolloutMode.REFERENCE_ONLY:
            return route
        for kind in (_DONE, _PENDING):
            if (found := await self._store.get(kind, self._of(call))) is not None:
                return from_json(PendingCall, found[0]).route
        await self._store.put(_PENDING, self._of(call), to_json(PendingCall(route)), expected=0)
        return route

    async def close_call(self, call: str) -> None:
        """Note that a kept call is over and brings no evidence."""
        found = await self._store.get(_PENDING, self._of(call))
        if found is not None and from_json(PendingCall, found[0]).event is None:
            await self._store.put(_DONE, self._of(call), found[0], expected=0)
            await self._store.delete(_PENDING, self._of(call), expected=found[1])

    async def record(
        self, event: RolloutEvent, call: str = "", route: RolloutRoute | None = None
    ) -> StageChange | None:
        """Fold an event in, under the id of its call if that is kept; return the decision.

        This process acts on it before the store knows it: what demotes takes effect before the next
        call here, however slow the store is. What promotes waits until all can know it."""
        # The id is there for every event: a put whose reply was lost is not made a second time.
        call, route = (call, route) if call else (token_hex(8), None)
        if not isinstance(event, PersonDecided):
            next_machine = from_json(Rollout, to_json(self._machine))
            change = next_machine.step(event)
            if change is not None and not change.is_promotion:
                self._machine = next_machine
                self._ahead.add(call)
        return await self._record(event, call, route)

    async def _record(
        self, event: RolloutEvent, call: str, route: RolloutRoute | None
    ) -> StageChange | None:
        """Save an event, which is of a kept call if it has a route."""
        try:
            if route is None:
                change = await self._fold(event, call, is_kept=False)
                self._done.append(call)
            else:
                change = await self._keep(call, PendingCall(route, event))
        except StoreError:
            # The store is told before it is asked for news.
            self._unsaved.append((event, call, route))
            raise
        self._ahead.discard(call)
        return change

    async def _keep(self, call: str, pending: PendingCall) -> StageChange | None:
        key = self._of(call)
        if await self._store.get(_DONE, key) is not None:
            return None
        found = await self._store.get(_PENDING, key)
        if found is None or from_json(PendingCall, found[0]).event is None:
            # Another process of the same run may be at it: whichever event is kept first counts.
            version = 0 if found is None else found[1]
            await self._store.put(_PENDING, key, to_json(pending), expected=version)
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
        async with self._writing:
            for attempt in range(_RETRIES):
                record, version = await self._load()
                if await self._is_folded(call, record, is_kept=is_kept):
                    self._see(record.machine)
                    return None
                change = record.machine.step(event)
                done = [*self._done]
                record.folded = [each for each in record.folded if each not in done] + [call]
                if change is not None:
                    record.changes.append(RecordedChange(self._clock.now(), change))
                    del record.changes[:-_MAX_CHANGES]
                if await self._store.put(_STATES, self.key, to_json(record), expected=version):
                    del self._done[: len(done)]
                    self._see(record.machine, known=call)
                    if change is not None:
                        self._tell(change)
                    return change
                await asyncio.sleep(min(attempt, 20) / 1000)
        raise StoreError(
            f"the evidence of {self.key} was changed by others at each of {_RETRIES} attempts; "
            "compare a smaller share of calls, or use fewer processes"
        )

    async def _is_folded(self, call: str, record: RolloutRecord, *, is_kept: bool) -> bool:
        """The state was read before this: if the id is gone from it, the event was done by then."""
        if call in record.folded:
            return True
        return is_kept and await self._store.get(_DONE, self._of(call)) is not None

    async def _load(self) -> tuple[RolloutRecord, int]:
        found = await self._store.get(_STATES, self.key)
        if found is None:
            return RolloutRecord(from_json(Rollout, self._initial)), 0
        return from_json(RolloutRecord, found[0]), found[1]

    def _see(self, machine: Rollout, known: str = "") -> None:
        """Take what the store knows, unless it may not know yet of a demotion that we know of:
        `known` is the event that it has just been told."""
        self._seen_ms = self._clock.now()
        if not self._ahead - {known} or machine.stage <= self._machine.stage:
            self._machine = machine

    def _tell(self, change: StageChange) -> None:
        word = "promoted" if change.is_promotion else "demoted"
        level = logging.INFO if change.is_promotion else logging.WARNING
        text = "rollout %s: %s to %s: %s"
        _log.log(level, text, self.key, word, self._machine.mode, change.reason)
        try:
            self._on_change(change)
        except VegaError as error:  # an alert that fails must not undo what it tells
            _log.warning("rollout %s: on_change failed: %s", self.key, error)

    def _of(self, call: str) -> str:
        return f"{self.key}/{call}"


def initial_rollout(name: str, rule: RolloutRule, version: str, input_class: str) -> Rollout:
    """Return a rollout that has seen nothing."""
    return Rollout(name, rule, Evidence(version, input_class))
