"""Rollouts seen and steered from outside, by what is kept of them in a store.

A program that has the rollout need not run. If it does, it takes up a decision within a second,
and sees at once what its own calls bring.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from vegakit.contracts import (
    LAST,
    STAGES,
    Confidence,
    DetectionDelay,
    EvidencePoint,
    NextStage,
    PairedTally,
    PersonAction,
    PersonDecided,
    Rollout,
    RolloutMode,
    RolloutRule,
    StageChange,
    Tally,
)
from vegakit.errors import BugError, UserError, did_you_mean
from vegakit.ports import Clock, Store
from vegakit.records import from_json
from vegakit.store import open_stores, show_place
from vegakit.vesper.evidence import (
    STATES,
    KeptDifference,
    RecordedChange,
    RolloutEvidence,
    RolloutRecord,
    RolloutSubject,
    load_differences,
    load_history,
    told_unknown,
)
from vegakit.vesper.monitoring import RolloutAlert, alert_of, stage_name

_PAGE = 100


class BoundPoint(Struct, frozen=True):
    """The counts at one time, and the bounds that they gave."""

    at_ms: int
    runs: int
    failures: int
    lower: float
    wilson: float
    excess: float | None = None


class RolloutStatus(Struct, frozen=True):
    """All that people are shown of one rollout on one input class."""

    name: str
    version: str
    input_class: str
    subject: RolloutSubject
    stage: int
    stage_name: str
    mode: RolloutMode
    candidate_share: float
    compared_share: float
    held_because: str
    paused_because: str
    unavailable: int
    unavailable_because: str
    is_noisy: bool
    production: Tally
    generated: Tally
    noise: Tally
    pairs: PairedTally
    confidence: Confidence | None
    next: NextStage | None
    detection: tuple[DetectionDelay, ...]
    changes: tuple[RecordedChange, ...]
    history: tuple[BoundPoint, ...]
    rule: RolloutRule
    at_ms: int
    differences: tuple[KeptDifference, ...] = ()
    breaches: int = 0

    @property
    def is_held(self) -> bool:
        """Return whether no evidence promotes it."""
        return bool(self.held_because or self.breaches)


class FoundRollout(NamedTuple):
    """A rollout, as it was when it was read, and the store that has it."""

    store: Store
    record: RolloutRecord

    @property
    def machine(self) -> Rollout:
        """Return its state."""
        return self.record.machine

    @property
    def version(self) -> str:
        """Return which paths and which comparison it is of."""
        return self.record.machine.evidence.version

    @property
    def input_class(self) -> str:
        """Return which inputs it is of."""
        return self.record.machine.evidence.input_class


class StoredRollouts:
    """The rollouts that are kept in a place."""

    def __init__(self, stores: Sequence[Store], clock: Clock, place: str) -> None:
        self._stores, self._clock, self._place = stores, clock, place

    async def all(self) -> list[FoundRollout]:
        """Return all of them by name, of each the version that was written last first."""
        found = [one for store in self._stores for one in await _rollouts_in(store)]
        latest: dict[tuple[str, str], int] = {}
        for one in found:
            key = one.machine.name, one.version
            latest[key] = max(latest.get(key, 0), one.record.at_ms)
        return sorted(
            found,
            key=lambda one: (
                one.machine.name,
                -latest[one.machine.name, one.version],
                one.version,
                one.input_class,
            ),
        )

    async def named(
        self, name: str = "", version: str = "", input_class: str | None = None
    ) -> list[FoundRollout]:
        """Return those of a name and a version, by default the one that was written last, in the
        order of their input classes. Without a name the only one is meant."""
        every = await self.all()
        names = dict.fromkeys(one.machine.name for one in every)
        if not every:
            raise UserError(
                f"no rollout is kept in {self._place} yet; name the store of your program with "
                "--store, or to start one, type: vega rollout start FILE.py:NAME"
            )
        if not name and len(names) > 1:
            raise UserError(f"there are several rollouts; name one of: {', '.join(names)}")
        name = name or next(iter(names))
        found = [one for one in every if one.machine.name == name]
        if not found:
            near = did_you_mean(name, names, "")
            hint = "; ".join(filter(None, [near, "to see all of them, type: vega rollout list"]))
            raise UserError(f"there is no rollout {name!r} in {self._place}; {hint}")
        versions = dict.fromkeys(one.version for one in found)
        wanted = next((one for one in versions if one.startswith(version)), "")
        if not wanted:
            raise UserError(
                f"rollout {name} has no version {version!r}; there are: {', '.join(versions)}"
            )
        found = [one for one in found if one.version == wanted]
        if input_class is None:
            return found
        classes = [one.input_class for one in found]
        if input_class not in classes:
            raise UserError(told_unknown(name, input_class, classes))
        return [one for one in found if one.input_class == input_class]

    async def status(self, found: FoundRollout) -> RolloutStatus:
        """Return a rollout as people are shown it, with how its confidence grew."""
        machine, record = found.machine, found.record
        evidence, alpha = machine.evidence, machine.rule.alpha
        key = RolloutEvidence(found.store, self._clock, machine, _nobody).key
        history, _ = await load_history(found.store, key)
        now = EvidencePoint(record.at_ms, evidence.production, evidence.pairs)
        points = [one for one in history.points if one.production.runs < evidence.production.runs]
        stage = STAGES[machine.stage]
        return RolloutStatus(
            machine.name,
            evidence.version,
            evidence.input_class,
            record.subject,
            machine.stage,
            stage_name(machine.stage),
            machine.mode,
            stage.candidate_share,
            machine.rule.sample if machine.stage == LAST else stage.compared_share,
            machine.held_because,
            machine.paused_because,
            machine.unavailable,
            machine.unavailable_because,
            machine.is_noisy,
            evidence.production,
            evidence.generated,
            evidence.noise,
            evidence.pairs,
            evidence.shown(alpha),
            machine.next_stage(),
            machine.detection(),
            tuple(record.changes),
            tuple(_bounds(one, alpha) for one in [*points, now] if one.production.runs),
            machine.rule,
            record.at_ms,
            tuple((await load_differences(found.store, key))[0]),
            evidence.breaches,
        )

    async def decide(
        self, found: FoundRollout, action: PersonAction, who: str, reason: str = ""
    ) -> RolloutAlert:
        """Promote, demote or stop a rollout, unless it has moved since it was read; return the
        decision as it is told."""
        evidence = RolloutEvidence(found.store, self._clock, found.machine, _nobody)
        event = PersonDecided(action, who, reason, at=found.machine.stage)
        change = await evidence.record(event)
        if change is None:
            raise BugError(f"a person decided to {action} {evidence.key}, and nothing came of it")
        return alert_of(evidence.machine, change, self._clock.now())


def _nobody(change: StageChange) -> None:
    """Who decides here sees it; programs that run have their own listeners."""


def _bounds(point: EvidencePoint, alpha: float) -> BoundPoint:
    runs = point.production
    excess = point.pairs.upper_bound(alpha) if point.pairs.runs else None
    return BoundPoint(
        point.at_ms,
        runs.runs,
        runs.failures,
        runs.lower_bound(alpha),
        runs.wilson_bound(),
        excess,
    )


async def _rollouts_in(store: Store) -> list[FoundRollout]:
    found: list[FoundRollout] = []
    after = ""
    while keys := await store.keys(STATES, after=after, limit=_PAGE):
        for key in keys:
            document = await store.get(STATES, key)
            if document is not None:
                found.append(FoundRollout(store, from_json(RolloutRecord, document[0])))
        after = keys[-1]
    return found


async def store_with_rollouts(stores: Sequence[Store]) -> Store:
    """Return the first of the stores of a place that keeps rollouts, or the one beside the journal:
    on a server, a team may keep its evidence in the documents that all users share."""
    for store in stores:
        if await store.keys(STATES, limit=1):
            return store
    return stores[0]


def is_place(place: str) -> bool:
    """Return whether a file exists, or a place is on a server, which only opening it can tell."""
    return "://" in place or Path(place).is_file()


@asynccontextmanager
async def open_rollouts(place: str, clock: Clock) -> AsyncGenerator[StoredRollouts]:
    """Open the rollouts of a place, a file or the URL of a server. A file that is not there is not
    made: it holds none."""
    stores = open_stores(place) if is_place(place) else ()
    try:
        yield StoredRollouts(stores, clock, show_place(place))
    finally:
        for store in stores:
            await store.aclose()
