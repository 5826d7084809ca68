"""The ledger, documents and journal of one process, kept in memory and gone with it.

The ledger is the pure machine of `policy.Budget` itself. `ReplayJournal` wraps any journal and
only reads it: a call that is not recorded stops the program.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy

from msgspec import structs

from vegakit.effects import CallModel, CallTool, Effect, place_of
from vegakit.errors import BugError, LimitReached, ProgramChanged, UserError
from vegakit.events import EffectOutcome, Refused, is_over_budget, reopened
from vegakit.ids import EffectKey, HolderId, ProgramId, ScopeId
from vegakit.money import Money, Period
from vegakit.policy import (
    LEASE_MS,
    NO_RULES,
    Admission,
    Budget,
    Claim,
    Counter,
    Deadlock,
    Scope,
    ScopeAdmission,
    ScopeRule,
    ScopeRules,
    Settlement,
)
from vegakit.ports import (
    ClaimResult,
    Journal,
    KeptOutcome,
    Ledger,
    PastCall,
    PastEffect,
    RecordedOutcome,
    RunRecord,
    UnfinishedEffect,
)
from vegakit.store.conversations import check_name

__all__ = ["MemoryJournal", "MemoryLedger", "MemoryStore", "ReplayJournal"]

# A ledger and a store for one process, gone with it: the pure machine itself, and a dict.


_PAGE = 2_000
"""How many claims are looked at in one turn of the loop."""


class MemoryLedger:
    """Implements `ports.Ledger` by the pure machine itself."""

    is_personal = True

    def __init__(self) -> None:
        self._budget = Budget()

    async def open(
        self,
        scope_id: ScopeId,
        rule: ScopeRule,
        now: int,
        *,
        parent: ScopeId | None = None,
        part: bool = False,
        holder: HolderId | None = None,
    ) -> ScopeAdmission:
        return self._budget.scopes.open(
            scope_id, rule, now, parent=parent, part=part, holder=holder
        )

    async def close(self, scope_id: ScopeId) -> None:
        self._budget.scopes.close(scope_id)

    async def set_limits(self, owner: ScopeId, rules: Sequence[ScopeRule]) -> None:
        self._budget.scopes.set_limits(owner, rules)

    async def scope(self, scope_id: ScopeId) -> Scope | None:
        return copy(self._budget.scopes.by_id.get(scope_id))

    async def counter(self, owner: ScopeId, period: Period | None, now: int) -> Counter:
        return copy(self._budget.scopes.counter(owner, period, now))

    async def room(
        self, scope_id: ScopeId, now: int, rules: ScopeRules = NO_RULES, *, settled: bool = False
    ) -> Money | None:
        return self._budget.scopes.room(scope_id, now, rules, settled=settled)

    async def reserve(
        self,
        effect: EffectKey,
        attempt: int,
        scope_id: ScopeId,
        worst_case: Money,
        holder: HolderId,
        now: int,
        *,
        lease_ms: int = LEASE_MS,
        rules: ScopeRules = NO_RULES,
    ) -> Admission:
        return self._budget.reserve(
            effect, attempt, scope_id, worst_case, holder, now, lease_ms, rules
        )

    async def answer(
        self,
        effect: EffectKey,
        attempt: int,
        bill: Money,
        now: int,
        *,
        rules: ScopeRules = NO_RULES,
    ) -> Settlement:
        return self._budget.answer(effect, attempt, bill, now, rules)

    async def cut_off(
        self, effect: EffectKey, attempt: int, now: int, *, rules: ScopeRules = NO_RULES
    ) -> Settlement:
        return self._budget.cut_off(effect, attempt, now, rules)

    async def claims(self, effects: Sequence[EffectKey]) -> Mapping[EffectKey, tuple[Claim, ...]]:
        claims = {key: tuple(copy(one) for _, one in self._budget.attempts(key)) for key in effects}
        return {key: attempts for key, attempts in claims.items() if attempts}

    async def wait(
        self,
        effect: EffectKey,
        scope_id: ScopeId,
        wanted: Money,
        inside: Sequence[EffectKey],
        holder: HolderId,
        now: int,
        rules: ScopeRules = NO_RULES,
    ) -> Deadlock | None:
        return self._budget.wait(
            effect, scope_id, wanted, inside, holder=holder, now=now, rules=rules
        )

    async def end_wait(self, effect: EffectKey) -> None:
        self._budget.end_wait(effect)

    async def renew(self, holder: HolderId, until_ms: int) -> None:
        self._budget.renew(holder, until_ms)

    async def leases(self) -> Mapping[HolderId, int]:
        return dict(self._budget.leases)

    async def expire(
        self, ended: Mapping[HolderId, int], now: int
    ) -> Sequence[tuple[str, Settlement]]:
        return self._budget.expire(ended, now)

    async def prune(self, before_ms: int) -> int:
        """Prune a page at a time, so that others get their turn in between."""
        pruned, keys = 0, [*self._budget.claims]
        for start in range(0, len(keys), _PAGE):
            pruned += self._budget.prune(before_ms, keys[start : start + _PAGE])
            await asyncio.sleep(0)
        return pruned

    async def aclose(self) -> None:
        pass


class MemoryStore:
    """Implements `ports.Store` by a dict."""

    def __init__(self) -> None:
        self._documents: dict[str, dict[str, tuple[bytes, int]]] = {}

    async def get(self, kind: str, key: str) -> tuple[bytes, int] | None:
        return self._documents.get(kind, {}).get(key)

    async def put(self, kind: str, key: str, value: bytes, *, expected: int) -> bool:
        check_name(kind, key)
        documents = self._documents.setdefault(kind, {})
        fits = documents.get(key, (b"", 0))[1] == expected
        if fits:
            documents[key] = (value, expected + 1)
        return fits

    async def delete(self, kind: str, key: str, *, expected: int) -> bool:
        documents = self._documents.get(kind, {})
        fits = key in documents and documents[key][1] == expected
        if fits:
            del documents[key]
        return fits

    async def keys(self, kind: str, *, after: str = "", limit: int = 100) -> Sequence[str]:
        later = sorted(key for key in self._documents.get(kind, {}) if key > after)
        return later[: max(0, limit)]

    async def aclose(self) -> None:
        pass


# Answers by effect key in memory, and any journal as something that is only read.


_CHANGED = (
    "the program does not do what it did when it was recorded; compare it with that version, or "
    "record a new run"
)
_NOT_YET = Refused(LimitReached.__name__, "nothing is begun speculatively in a replay")
"""A refusal of the moment: the program asks again when it comes to it, if it does."""

_QUESTION = re.compile(r"~(?:[0-9a-f]+\.\d+)?$")
_CUT_OFF = "the recorded run was cut off here or before; to go on with it, type: vega resume"


class _NothingBeside:
    """What a journal answers that is in no place of its own."""

    shared = False
    place = ""

    def ledger(self) -> None:
        """Return None: money is not kept here."""

    def store(self) -> None:
        """Return None: documents are not kept here."""

    def atomically(self) -> AbstractContextManager[None]:
        return nullcontext()

    def is_new(self, key: EffectKey) -> bool:
        return False

    def holds(self, ledger: Ledger) -> bool:
        return False

    async def is_running(self, run: RunRecord) -> bool:
        return False

    async def tidy(self, now: int) -> None:
        pass

    def make_place(self, key: EffectKey, length: int) -> None:
        """Do nothing: this journal does not outlive its process."""

    def leave_place(self, key: EffectKey) -> None:
        """Do nothing, as `make_place` does."""

    async def kept(self) -> Sequence[KeptOutcome]:
        return []


class MemoryJournal(_NothingBeside):
    """Implements `ports.Journal`."""

    def __init__(self) -> None:
        self._runs: list[RunRecord] = []
        self._effects: dict[EffectKey, tuple[Effect, EffectOutcome | None]] = {}
        self._committed: dict[str, dict[EffectKey, None]] = {}

    async def begin(self, run: RunRecord, resume: ProgramId | None = None) -> RunRecord:
        if not self._runs or self._runs[-1].ended_ms is not None:
            self._runs.append(run)
        return self._runs[-1]

    async def end(self, now: int, *, is_given_up: bool = False, refusal: str = "") -> None:
        self._runs[-1] = structs.replace(
            self._runs[-1], ended_ms=now, is_given_up=is_given_up, refusal=refusal
        )

    async def find(self, key: EffectKey) -> RecordedOutcome | None:
        found = self._effects.get(key)
        return None if found is None else (found[0].digest, found[1])

    async def claim(self, effect: Effect, now: int, *, speculative: bool = False) -> ClaimResult:
        key = effect.key
        others = [self._effects[one][0] for one in self._at(key) if one != key]
        _, outcome = self._effects.setdefault(key, (effect, None))
        if not speculative:
            await self.commit(key)
        return ClaimResult(outcome, any(other.code != effect.code for other in others))

    async def commit(self, key: EffectKey) -> None:
        if key in self._effects:
            self._at(key)[key] = None

    async def record(self, key: EffectKey, outcome: EffectOutcome) -> None:
        if key not in self._effects:
            raise BugError(f"the effect {key} was not claimed before it was recorded")
        effect, before = self._effects[key]
        self._effects[key] = (effect, before or outcome)

    def keep(self, key: EffectKey, attempt: int, bill: Money, outcome: EffectOutcome) -> None:
        """Do nothing: this journal does not outlive its process."""

    async def drop(self, key: EffectKey) -> None:
        if self._effects.get(key, (None, None))[1] is None:
            self._effects.pop(key, None)
            self._at(key).pop(key, None)

    async def reopen(self, keys: Sequence[EffectKey]) -> None:
        order = list(self._effects)
        first = min((order.index(key) for key in keys if key in self._effects), default=len(order))
        for key in order[first:]:
            self._at(key).pop(key, None)
        for key in keys:
            effect, outcome = self._effects.get(key, (None, None))
            if effect is None or outcome is None or not self._is_of_this_run(effect):
                continue
            if isinstance(effect.request, CallModel) and not isinstance(outcome, Refused):
                self._effects[key] = effect, reopened(outcome)
            else:
                del self._effects[key]

    async def cut_off(self) -> Sequence[UnfinishedEffect]:
        return [
            UnfinishedEffect(
                key,
                str(effect.path),
                type(effect.request).__name__,
                _repeatable(effect),
                key not in self._at(key),
            )
            for key, (effect, outcome) in self._effects.items()
            if outcome is None and self._is_of_this_run(effect)
        ]

    async def calls(self) -> Sequence[PastCall]:
        return [
            PastCall(key, str(effect.path), outcome, key in self._at(key))
            for key, (effect, outcome) in self._effects.items()
            if outcome is not None
            and isinstance(effect.request, CallModel)
            and self._is_of_this_run(effect)
        ]

    async def refused(self) -> Sequence[EffectKey]:
        return [
            key
            for key, (effect, outcome) in self._effects.items()
            if is_over_budget(outcome) and self._is_of_this_run(effect)
        ]

    async def runs(self) -> Sequence[RunRecord]:
        return list(self._runs)

    async def past(self, program: ProgramId) -> Sequence[PastEffect]:
        return [
            PastEffect(
                str(effect.path),
                type(effect.request).__name__,
                effect.digest,
                number,
                key in self._at(key),
                outcome,
            )
            for number, (key, (effect, outcome)) in enumerate(self._effects.items())
            if effect.path.program == program
        ]

    async def note(self, run: RunRecord) -> None:
        self._runs[-1] = run

    async def aclose(self) -> None:
        pass

    def _at(self, key: EffectKey) -> dict[EffectKey, None]:
        """What is committed at the place of an effect."""
        return self._committed.setdefault(place_of(key), {})

    def _is_of_this_run(self, effect: Effect) -> bool:
        return effect.path.program == self._runs[-1].program


class ReplayJournal(_NothingBeside):
    """A journal that is only read: every answer comes from it, and what it does not hold stops the
    program. Implements `ports.Journal`."""

    def __init__(self, journal: Journal, program: str = "") -> None:
        """Of that run, or of the last one."""
        self._journal = journal
        self._program = program
        self._why = _CHANGED

    async def begin(self, run: RunRecord, resume: ProgramId | None = None) -> RunRecord:
        runs = [one for one in await self.runs() if self._program in ("", one.program)]
        if not runs:
            raise UserError(
                f"the journal holds no run {self._program}; to see those it holds, type: vega runs"
            )
        self._why = _CUT_OFF if runs[-1].ended_ms is None else _CHANGED
        return runs[-1]

    async def end(self, now: int, *, is_given_up: bool = False, refusal: str = "") -> None:
        pass

    async def find(self, key: EffectKey) -> RecordedOutcome | None:
        return await self._journal.find(key)

    async def claim(self, effect: Effect, now: int, *, speculative: bool = False) -> ClaimResult:
        found = await self.find(effect.key)
        if found is not None and found[1] is not None:
            return ClaimResult(found[1])
        if speculative:
            return ClaimResult(_NOT_YET)
        # A question is a process of its own, named by what was asked and where: nothing to read.
        names = [_QUESTION.sub("", one.name) for one in effect.path.incarnations]
        caller = "/".join(name for name in names if not name.startswith("send "))
        raise ProgramChanged(f"nothing is recorded for this call of {caller}: {self._why}")

    async def commit(self, key: EffectKey) -> None:
        pass

    async def record(self, key: EffectKey, outcome: EffectOutcome) -> None:
        raise BugError("a replay records nothing")

    def keep(self, key: EffectKey, attempt: int, bill: Money, outcome: EffectOutcome) -> None:
        raise BugError("a replay keeps nothing")

    async def drop(self, key: EffectKey) -> None:
        raise BugError("a replay changes nothing")

    async def reopen(self, keys: Sequence[EffectKey]) -> None:
        """Do nothing: what was recorded stays so, whatever the replay comes to."""

    async def cut_off(self) -> Sequence[UnfinishedEffect]:
        return []

    async def calls(self) -> Sequence[PastCall]:
        return []

    async def refused(self) -> Sequence[EffectKey]:
        return []

    async def runs(self) -> Sequence[RunRecord]:
        return await self._journal.runs()

    async def note(self, run: RunRecord) -> None:
        """Do nothing: a replay changes nothing."""

    async def past(self, program: ProgramId) -> Sequence[PastEffect]:
        return await self._journal.past(program)

    async def aclose(self) -> None:
        await self._journal.aclose()


def _repeatable(effect: Effect) -> bool:
    return isinstance(effect.request, CallTool) and effect.request.idempotent
