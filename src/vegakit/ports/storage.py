"""Ports of storage: the ledger (truth about money), the journal (truth about answers), documents,
memories, traces and the audit.
"""

from collections.abc import Awaitable, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from vegakit.conversation import Message
from vegakit.effects import Effect
from vegakit.events import CallTraced, EffectOutcome
from vegakit.ids import Digest, EffectKey, HolderId, ProgramId, ScopeId, TenantId, TraceId
from vegakit.money import Money
from vegakit.policy import LEASE_MS, Admission, Claim, Scope, ScopeAdmission, ScopeRule, Settlement

# Truth about money.


class Ledger(Protocol):
    """Truth about money, shared by every runtime that opens it. The rules are `policy.Budget`'s.

    Each method is one transaction: the claim and the scopes it moves change together. Methods are
    carried out in the order they are called. One that has begun is carried out to its end even if
    its caller is cancelled: who does not know whether it reserved asks for the `claim`.
    """

    def open(
        self,
        scope_id: ScopeId,
        rule: ScopeRule,
        now: int,
        *,
        parent: ScopeId | None = None,
        part: bool = False,
        holder: HolderId | None = None,
    ) -> Awaitable[ScopeAdmission]:
        """A scope that is open already keeps its figures and takes the new rule, so that every
        process may declare it; a part is opened once, and closed when its holder's lease ends."""
        ...

    def close(self, scope_id: ScopeId, now: int) -> Awaitable[None]: ...

    def set_cap(self, scope_id: ScopeId, cap: Money, now: int) -> Awaitable[ScopeAdmission]: ...

    def scope(self, scope_id: ScopeId, now: int) -> Awaitable[Scope | None]: ...

    def room(self, scope_id: ScopeId, now: int) -> Awaitable[Money | None]: ...

    def reserve(
        self,
        effect: EffectKey,
        attempt: int,
        scope_id: ScopeId,
        worst_case: Money,
        holder: HolderId,
        now: int,
        *,
        sent: bool = False,
        lease_ms: int = LEASE_MS,
    ) -> Awaitable[Admission]:
        """`sent`: marked so at once, for who sends as soon as it is reserved. The holder's lease is
        renewed in the same transaction where that is due: a loop that stalled for longer than its
        lease finds its reservations before its renewal in the queue."""
        ...

    def mark_sent(self, effect: EffectKey, attempt: int) -> Awaitable[bool]: ...

    def answer(
        self, effect: EffectKey, attempt: int, bill: Money, now: int
    ) -> Awaitable[Settlement]: ...

    def cut_off(self, effect: EffectKey, attempt: int, now: int) -> Awaitable[Settlement]: ...

    def release(self, effect: EffectKey, attempt: int, now: int) -> Awaitable[Settlement]: ...

    def claim(self, effect: EffectKey, attempt: int) -> Awaitable[Claim | None]: ...

    def renew(self, holder: HolderId, until_ms: int) -> Awaitable[None]: ...

    def leases(self) -> Awaitable[Mapping[HolderId, int]]:
        """Until when each holder says it is alive, by its own clock."""
        ...

    def expire(
        self, ended: Mapping[HolderId, int], now: int
    ) -> Awaitable[Sequence[tuple[str, Settlement]]]:
        """Settles what these holders left behind, in any order, unless they renewed the lease that
        was seen. Whose lease has ended a `policy.LeaseWatch` tells."""
        ...

    def prune(self, before_ms: int) -> Awaitable[int]:
        """Forgets what was settled before then, and the closed scopes that this leaves empty."""
        ...

    def aclose(self) -> Awaitable[None]: ...


# Truth about answers.


class RunRecord(Struct, frozen=True, omit_defaults=True):
    """One run of a program, as a journal keeps it: enough to start it again. `raised` is how much
    its budget was raised while it was paused. One process may make several runs one after another:
    `first` is the first of them, and `number` which of them this is, counted from 0."""

    program: ProgramId
    started_ms: int
    command: tuple[str, ...] = ()
    folder: str = ""
    ended_ms: int | None = None
    raised: Money = Money(0)
    first: ProgramId = ProgramId("")
    number: int = 0


RecordedOutcome: TypeAlias = tuple[Digest, EffectOutcome | None]
"""The digest of what was asked, and what came of it; None: it was claimed."""


class UnfinishedEffect(Struct, frozen=True, omit_defaults=True):
    """An effect that was claimed and has no outcome. `speculative`: the program had not come to
    it."""

    key: EffectKey
    kind: str
    repeatable: bool
    speculative: bool = False


class ClaimResult(Struct, frozen=True, omit_defaults=True):
    """What a claim found: the outcome of exactly this effect, None if it is to be carried out.
    `changed`: other code asked something else at this place, and the program had come to it."""

    outcome: EffectOutcome | None = None
    changed: bool = False


class KeptOutcome(Struct, frozen=True):
    """What came of an attempt, kept before anything else was done with it. `bill` is what this
    attempt costs, 0 for a tool; the outcome tells what all attempts cost."""

    program: ProgramId
    key: EffectKey
    attempt: int
    bill: Money
    outcome: EffectOutcome


class Journal(Protocol):
    """Truth about answers: what was recorded is never bought again. Each run has one writer. A
    write is kept when it returns.

    A journal of one program holds one unfinished run at most, and `begin` takes it up. One that a
    user's programs share holds many, and `begin` takes up what `resume` names.
    """

    @property
    def shared(self) -> bool: ...

    def begin(self, run: RunRecord, resume: ProgramId | None = None) -> Awaitable[RunRecord]:
        """Take up the run that `resume` names, also one that has ended, or else begin this one."""
        ...

    def end(self, now: int) -> Awaitable[None]: ...

    def together(self) -> AbstractContextManager[None]:
        """What is called in the block, here and on a ledger in the same place, is one transaction.
        The block calls and does not wait; elsewhere each call is a transaction of its own."""
        ...

    def is_new(self, key: EffectKey) -> bool:
        """Whether nothing is known of the place of this effect. Then nothing recorded has to be
        looked for, and it may be claimed in the transaction that reserves for it."""
        ...

    def holds(self, ledger: Ledger) -> bool:
        """Whether what is called `together` on both is one transaction."""
        ...

    def find(self, key: EffectKey) -> Awaitable[RecordedOutcome | None]: ...

    def claim(
        self, effect: Effect, now: int, *, speculative: bool = False
    ) -> Awaitable[ClaimResult]:
        """Before it is carried out. What was there already is left as it is, and answered; a claim
        that is not speculative commits it."""
        ...

    def commit(self, key: EffectKey) -> Awaitable[None]:
        """The program has come to what was claimed speculatively. It need not be waited for, but
        is kept before anything that is claimed after it."""
        ...

    def record(self, key: EffectKey, outcome: EffectOutcome) -> Awaitable[None]:
        """What was claimed. The first outcome stays."""
        ...

    def keep(self, key: EffectKey, attempt: int, bill: Money, outcome: EffectOutcome) -> None:
        """Keep it so that `kill -9` after this call does not lose it. It does not wait, so that
        nothing comes between a reply and its being kept; `record` follows."""
        ...

    def kept(self) -> Awaitable[Sequence[KeptOutcome]]:
        """Return what this run kept in an earlier process and may not have recorded."""
        ...

    def drop(self, key: EffectKey) -> Awaitable[None]:
        """A claim that is to be made anew when it is wanted: of what was never sent, or of what
        was speculative and came to no answer."""
        ...

    def reopen(self, keys: Sequence[EffectKey]) -> Awaitable[None]:
        """These outcomes failed the run: they are not final, and are asked again when it goes on.
        A model call that was charged becomes an `Unknown` to be asked again, so that what it cost
        stays known; one that was not is as if it had only been claimed; everything else is
        forgotten. Keys that have no outcome, or are not of this run, are passed over. What was
        claimed after one of them is no longer committed: the run may ask otherwise there now."""
        ...

    def cut_off(self) -> Awaitable[Sequence[UnfinishedEffect]]:
        """What this run left without an outcome."""
        ...

    def charges(self) -> Awaitable[Sequence[tuple[EffectKey, Money]]]:
        """What the recorded model calls of this run came to."""
        ...

    def runs(self) -> Awaitable[Sequence[RunRecord]]:
        """The first first."""
        ...

    def aclose(self) -> Awaitable[None]: ...


# Documents, and what was said.


class Store(Protocol):
    """Small documents by (kind, key), each under a version: a lost update is impossible."""

    def get(self, kind: str, key: str) -> Awaitable[tuple[bytes, int] | None]:
        """The document and its version."""
        ...

    def put(self, kind: str, key: str, value: bytes, *, expected: int) -> Awaitable[bool]:
        """Writes version `expected + 1` if `expected` is the version there now; 0 creates."""
        ...

    def delete(self, kind: str, key: str, *, expected: int) -> Awaitable[bool]: ...

    def keys(self, kind: str, *, after: str = "", limit: int = 100) -> Awaitable[Sequence[str]]:
        """In order, a page at a time."""
        ...

    def aclose(self) -> Awaitable[None]: ...


class Memory(Protocol):
    """What was said, by owner: a process's name, so that its next life remembers.

    An append is a turn, written whole or not at all, and carried out to its end even if its caller
    is cancelled. Whoever appends next, in this process or another, is read after it.
    """

    def append(
        self, owner: str, messages: Sequence[Message], *, key: str | None = None
    ) -> Awaitable[bool]:
        """Whether it was written: a turn whose key the owner used before is there already."""
        ...

    def load(self, owner: str, limit: int = 100) -> Awaitable[Sequence[Message]]:
        """The last messages, oldest first. A turn that does not fit into `limit` whole is left out,
        and all before it: a tool call is never parted from its result."""
        ...

    def search(self, owner: str, query: str, limit: int = 10) -> Awaitable[Sequence[Message]]:
        """Those that hold every word of the query, latest first, in whatever case. A query is words
        and has no syntax; its first hundred different words count."""
        ...

    def forget(self, owner: str) -> Awaitable[None]:
        """All that was said, and the keys."""
        ...

    def aclose(self) -> Awaitable[None]: ...


# Who is told what happened: traces and the audit.


class Sink(Protocol):
    """Where call records go. Recording never waits and never fails the call it records."""

    def record(self, call: CallTraced) -> None: ...

    def aclose(self) -> Awaitable[None]:
        """Everything recorded so far is written."""
        ...


class AuditLevel(StrEnum):
    """What is kept of a tool's calls: nothing, who did what, or also what it was given and gave."""

    NONE = "none"
    BASIC = "basic"
    DETAILED = "detailed"


class AuditEntry(Struct, frozen=True, omit_defaults=True):
    """One decision or one effect. `actor` acts for `user`; `decision` is what was decided before,
    `result` what came of it; `inputs` and `result` are kept at level detailed only."""

    at_ms: int
    actor: str
    action: str
    subject: str
    user: str = ""
    tenant: TenantId = TenantId("local")
    inputs: Any = None
    decision: str = ""
    result: str = ""
    cost: Money = Money(0)
    trace_id: TraceId = TraceId("")


class AuditHead(Struct, frozen=True):
    """How many entries there are, and the hash of the last one, which stands for all of them. Kept
    elsewhere, it shows later whether any was changed or the end cut off."""

    count: int
    hash: str


class Audit(Protocol):
    """What was decided and done, as a chain that shows any change. Several processes may append."""

    def append(self, entry: AuditEntry, level: AuditLevel = AuditLevel.BASIC) -> Awaitable[None]:
        """Without keys. It is kept when this returns: a decision is appended before its effect."""
        ...

    def head(self) -> Awaitable[AuditHead]: ...

    def aclose(self) -> Awaitable[None]: ...
