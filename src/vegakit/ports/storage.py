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
from vegakit.money import Money, Period
from vegakit.policy import (
    LEASE_MS,
    NO_RULES,
    Admission,
    Claim,
    Counter,
    Deadlock,
    Scope,
    ScopeAdmission,
    ScopeRule,
    ScopeRules,
    Settlement,
)

# Truth about money.


class Ledger(Protocol):
    """Truth about money, shared by every runtime that opens it. The rules are `policy.Budget`'s.

    Each method is one transaction: the claim and the scopes it moves change together. Methods are
    carried out in the order they are called. One that has begun is carried out to its end even if
    its caller is cancelled: who does not know whether it reserved asks for the `claims`.
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
        """Open a scope. One that is open already keeps its figures and takes the new rule, so that
        every process may declare it; a part is opened once, and closed when its holder's lease
        ends."""
        ...

    def close(self, scope_id: ScopeId) -> Awaitable[None]:
        """Admit nothing more in a scope and all inside it; an unspent part goes back to its
        parent."""
        ...

    def set_limits(self, owner: ScopeId, rules: Sequence[ScopeRule]) -> Awaitable[None]:
        """Set all limits of an owner, which hold from now on for every reservation under it. Only
        the owner may do it: a user in a personal ledger, or an administrator."""
        ...

    @property
    def is_personal(self) -> bool:
        """Whether one user has the ledger alone, with the limits of the user's settings."""
        ...

    def scope(self, scope_id: ScopeId) -> Awaitable[Scope | None]:
        """Return a scope with its figures of all time; None if there is none of this name."""
        ...

    def counter(self, owner: ScopeId, period: Period | None, now: int) -> Awaitable[Counter]:
        """Return the counter of an owner in the present window of a period; without a period, of
        all time."""
        ...

    def room(
        self, scope_id: ScopeId, now: int, rules: ScopeRules = NO_RULES, *, settled: bool = False
    ) -> Awaitable[Money | None]:
        """Return the largest call that would be admitted now; None where nothing limits it. With
        `settled` calls in flight hold nothing. `rules` are those of the client, as in `reserve`."""
        ...

    def reserve(
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
    ) -> Awaitable[Admission]:
        """Reserve the worst case of an attempt, which counts as sent from now on. `rules` are the
        constraints that the client brings: each replaces the rule of its scope for this call,
        whatever other clients have declared there; one of an owner that is no scope around the
        call counts with that owner. The holder's lease is renewed in the same transaction where
        that is due: a loop that stalled for longer than its lease finds its reservations before
        its renewal in the queue. The reservation and its settlement count in the windows of
        `now`."""
        ...

    def answer(
        self,
        effect: EffectKey,
        attempt: int,
        bill: Money,
        now: int,
        *,
        rules: ScopeRules = NO_RULES,
    ) -> Awaitable[Settlement]:
        """Settle an attempt by its bill. Notices are about the `rules` of the client, as in
        `reserve`."""
        ...

    def cut_off(
        self, effect: EffectKey, attempt: int, now: int, *, rules: ScopeRules = NO_RULES
    ) -> Awaitable[Settlement]:
        """Settle an attempt whose answer is lost: all that was reserved is charged."""
        ...

    def claims(
        self, effects: Sequence[EffectKey]
    ) -> Awaitable[Mapping[EffectKey, tuple[Claim, ...]]]:
        """Return the claims of all attempts at these effects, in order. Effects without a claim are
        left out."""
        ...

    def wait(
        self,
        effect: EffectKey,
        scope_id: ScopeId,
        wanted: Money,
        inside: Sequence[EffectKey],
        holder: HolderId,
        now: int,
        rules: ScopeRules = NO_RULES,
    ) -> Awaitable[Deadlock | None]:
        """Note that a call which runs inside of others waits for an amount that did not fit. Return
        None while it may wait, and who holds the money if it has to be refused: it is the youngest
        of calls that wait for each other, in all processes. Then the note is gone, as it
        is when the lease of its holder ends. `rules` are those of the client, as in `reserve`."""
        ...

    def end_wait(self, effect: EffectKey) -> Awaitable[None]:
        """Forget that a call waits."""
        ...

    def renew(self, holder: HolderId, until_ms: int) -> Awaitable[None]:
        """Extend the lease of a holder, whose reservations stay until it ends."""
        ...

    def leases(self) -> Awaitable[Mapping[HolderId, int]]:
        """Return until when each holder says it is alive, by its own clock."""
        ...

    def expire(
        self, ended: Mapping[HolderId, int], now: int
    ) -> Awaitable[Sequence[tuple[str, Settlement]]]:
        """Settle what these holders left behind, in any order, unless they renewed the lease that
        was seen. Whose lease has ended a `policy.LeaseWatch` tells."""
        ...

    def prune(self, before_ms: int) -> Awaitable[int]:
        """Forget what was settled before then, and the closed scopes that this leaves empty; return
        how many claims that were."""
        ...

    def aclose(self) -> Awaitable[None]:
        """Carry out everything that was called before, and let go of the place."""
        ...


# Truth about answers.


class RunQuote(Struct, frozen=True, omit_defaults=True):
    """The quote of a run, made with its arguments before its first call. `at_most` is without the
    budgets around the run, which are `cap`, None where nothing else bounds it; `typical` is no
    promise. A run that goes on keeps to the one that it began with. `cut` is added to it: the
    charges of the calls that our own death cut off. `kill` is the most that one kill of this life
    may add, `program` the digest of the program that is quoted."""

    at_most: Money | None = None
    typical: Money | None = None
    cap: Money | None = None
    cut: Money = Money(0)
    kill: Money | None = None
    program: str = ""

    @property
    def wallet(self) -> Money | None:
        """Return what the run may spend by its quote; None where its cap is reached before."""
        if self.at_most is None or (self.cap is not None and self.cap <= self.at_most):
            return None
        maximum = self.at_most + self.cut
        return Money(maximum if self.cap is None else min(maximum, self.cap))

    def live(self, spent: int, saved: int, raised: int = 0, beyond: int = 0) -> Money | None:
        """Return the most that it comes to, when so much is spent; it falls until it is that."""
        bound = self.bound(saved, raised, beyond)
        return None if bound is None else Money(max(spent, bound))

    def bound(self, saved: int = 0, raised: int = 0, beyond: int = 0) -> int | None:
        """Return the most that the run may still come to by its quote when calls cost `saved` less
        than they were quoted, and `raised` was added, of which `beyond` paid for more repeats than
        are quoted; None if nothing bounds it. Money that is added does not raise the quote."""
        most = None if self.at_most is None else self.at_most + self.cut - saved + beyond
        cap = None if self.cap is None else self.cap + raised
        return min((bound for bound in (most, cap) if bound is not None), default=None)


class ReusedRun(Struct, frozen=True, omit_defaults=True):
    """The run whose answers another one keeps: `kept` of them were found to fit before that began,
    `to_buy` were not, and `at_most` is what it was said to cost, which caps it; None: nothing
    does."""

    run: ProgramId
    kept: int = 0
    to_buy: int = 0
    at_most: Money | None = None


class Takeovers(Struct, frozen=True, omit_defaults=True):
    """The earlier lives of a run: `charged` for calls that were cut off, the part of it `accepted`
    by a person, the number of `replies`, and the number of `fruitless` lives at the end, which lost
    calls and brought no reply."""

    charged: Money = Money(0)
    accepted: Money = Money(0)
    replies: int = 0
    fruitless: int = 0


class RunRecord(Struct, frozen=True, omit_defaults=True):
    """One run of a program, as a journal keeps it: enough to start it again. `raised` is how much
    its budget was raised while it was paused. One process may make several runs one after another:
    `first` is the first of them, and `number` which of them this is, counted from 0. One that
    `is_given_up` ended before it was done; `refusal` is why it could not begin, behind "refused:",
    "denied:" or "not set up:", if it made no call. `paid_repeats` is its pool in percent of its
    sends; None is the rule of runs from before there were pools. `sends` are those of its quote
    with its arguments, None where its program says how many. One without a `quote` has only its
    budgets; `reused` is the run whose answers it keeps. `budget` is the rule that the settings set
    at its start; None if its program or its command set one. `models` are those that aliases stood
    for when it first asked them, `moved` those that answer in their place since a person had the
    run go on by other settings. `takeovers` are its earlier lives, None in the first. `script` is a
    digest of the Python script that began it."""

    program: ProgramId
    started_ms: int
    command: tuple[str, ...] = ()
    folder: str = ""
    ended_ms: int | None = None
    raised: Money = Money(0)
    first: ProgramId = ProgramId("")
    number: int = 0
    is_given_up: bool = False
    refusal: str = ""
    paid_repeats: int | None = None
    sends: int | None = None
    quote: RunQuote | None = None
    reused: ReusedRun | None = None
    budget: ScopeRule | None = None
    takeovers: Takeovers | None = None
    models: dict[str, tuple[str, ...]] = {}
    moved: dict[str, tuple[str, ...]] = {}
    script: str = ""


RecordedOutcome: TypeAlias = tuple[Digest, EffectOutcome | None]
"""The digest of what was asked, and what came of it; None: it was claimed."""


class UnfinishedEffect(Struct, frozen=True, omit_defaults=True):
    """An effect that was claimed and has no outcome. `speculative`: the program had not come to
    it."""

    key: EffectKey
    path: str
    kind: str
    idempotent: bool
    speculative: bool = False


class PastCall(Struct, frozen=True):
    """A model call of a run, and what came of it. `committed`: the program had come to it."""

    key: EffectKey
    path: str
    outcome: EffectOutcome
    committed: bool = True


class PastEffect(Struct, frozen=True):
    """An effect of any run of a journal: what was asked, by its digest, and what came of it."""

    path: str
    kind: str
    digest: Digest
    claimed_ms: int
    committed: bool
    outcome: EffectOutcome | None


class ClaimResult(Struct, frozen=True, omit_defaults=True):
    """The result of a claim: the outcome of exactly this effect, None if it is to be carried out.
    `changed`: other code asked something else at this place, and the program had come to it."""

    outcome: EffectOutcome | None = None
    changed: bool = False


class KeptOutcome(Struct, frozen=True):
    """The outcome of an attempt, kept before anything else was done with it. `bill` is what this
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
    def shared(self) -> bool:
        """Return whether many runs of a user are in it."""
        ...

    @property
    def place(self) -> str:
        """Return where it is, as people may see it; "" in memory."""
        ...

    def ledger(self) -> Ledger | None:
        """Return the ledger in the same place, which is closed with the journal; None if there is
        none."""
        ...

    def store(self) -> "Store | None":
        """Return the documents in the same place, closed with the journal; None if there are
        none."""
        ...

    def begin(self, run: RunRecord, resume: ProgramId | None = None) -> Awaitable[RunRecord]:
        """Take up the run that `resume` names, also one that has ended, or else begin this one."""
        ...

    def end(self, now: int, *, is_given_up: bool = False, refusal: str = "") -> Awaitable[None]:
        """Note that the run has come to its end, or that somebody gave it up, or why it could not
        begin: it is not taken up again."""
        ...

    def atomically(self) -> AbstractContextManager[None]:
        """Make one transaction of what is called in the block, here and on a ledger in the same
        place. The block calls and does not wait; elsewhere each call is a transaction of its
        own."""
        ...

    def is_new(self, key: EffectKey) -> bool:
        """Return whether nothing is known of the place of this effect. Then nothing recorded has to
        be looked for, and it may be claimed in the transaction that reserves for it."""
        ...

    def holds(self, ledger: Ledger) -> bool:
        """Return whether what is called `atomically` on both is one transaction."""
        ...

    def find(self, key: EffectKey) -> Awaitable[RecordedOutcome | None]:
        """Return what is recorded of an effect; None: it was never claimed."""
        ...

    def claim(
        self, effect: Effect, now: int, *, speculative: bool = False
    ) -> Awaitable[ClaimResult]:
        """Claim an effect before it is carried out. What was there already is left as it is, and
        returned; a claim that is not speculative commits it."""
        ...

    def commit(self, key: EffectKey) -> Awaitable[None]:
        """Note that the program has come to what was claimed speculatively. It need not be waited
        for, but is kept before anything that is claimed after it."""
        ...

    def record(self, key: EffectKey, outcome: EffectOutcome) -> Awaitable[None]:
        """Record the outcome of what was claimed. The first outcome stays."""
        ...

    def make_place(self, key: EffectKey, length: int) -> None:
        """Allocate a place for an answer of so many bytes before the call is sent, so that `keep`
        finds room on a disk that is full by then. Without one it raises `StoreError`."""
        ...

    def leave_place(self, key: EffectKey) -> None:
        """Give up the place of a call that has ended."""
        ...

    def keep(self, key: EffectKey, attempt: int, bill: Money, outcome: EffectOutcome) -> None:
        """Keep it so that `kill -9` after this call does not lose it. It does not wait, so that
        nothing comes between a reply and its being kept; `record` follows."""
        ...

    def kept(self) -> Awaitable[Sequence[KeptOutcome]]:
        """Return what this run kept in an earlier process and may not have recorded."""
        ...

    def drop(self, key: EffectKey) -> Awaitable[None]:
        """Drop a claim that is to be made anew when it is wanted: of what was never sent, or of
        what was speculative and came to no answer."""
        ...

    def reopen(self, keys: Sequence[EffectKey]) -> Awaitable[None]:
        """Ask these outcomes again when the run goes on: they failed it, and are not final. A model
        call that was charged becomes an `Unknown` to be asked again, so that what it cost stays
        known; one that was sent and not charged is as if it had only been claimed; everything else,
        calls that were refused too, is forgotten. Keys that have no outcome, or are not of this
        run, are passed over. What was claimed after one of them is no longer committed: the run may
        ask otherwise there now."""
        ...

    def cut_off(self) -> Awaitable[Sequence[UnfinishedEffect]]:
        """Return what this run left without an outcome."""
        ...

    def calls(self) -> Awaitable[Sequence[PastCall]]:
        """Return the recorded model calls of this run."""
        ...

    def refused(self) -> Awaitable[Sequence[EffectKey]]:
        """Return the model calls of this run that a budget refused."""
        ...

    def runs(self) -> Awaitable[Sequence[RunRecord]]:
        """Return its runs, the first first."""
        ...

    def past(self, program: ProgramId) -> Awaitable[Sequence[PastEffect]]:
        """Return the effects of one of its runs, in no order."""
        ...

    def note(self, run: RunRecord) -> Awaitable[None]:
        """Replace the record of the current run."""
        ...

    def is_running(self, run: RunRecord) -> Awaitable[bool]:
        """Return whether somebody carries on this run."""
        ...

    def tidy(self, now: int) -> Awaitable[None]:
        """Forget a few runs that have ended, if it was told which to keep. To be called when it is
        closed. What fails is logged: the run has ended well, and the next one tidies again."""
        ...

    def aclose(self) -> Awaitable[None]:
        """Carry out everything that was called before, and give up the run and the place."""
        ...


# Documents, and what was said.


class Store(Protocol):
    """Small documents by (kind, key), each under a version: a lost update is impossible."""

    def get(self, kind: str, key: str) -> Awaitable[tuple[bytes, int] | None]:
        """Return the document and its version; None if there is none."""
        ...

    def put(self, kind: str, key: str, value: bytes, *, expected: int) -> Awaitable[bool]:
        """Write version `expected + 1` if `expected` is the version there now; 0 creates. Return
        whether it was."""
        ...

    def delete(self, kind: str, key: str, *, expected: int) -> Awaitable[bool]:
        """Delete the document if `expected` is its version; return whether it was."""
        ...

    def keys(self, kind: str, *, after: str = "", limit: int = 100) -> Awaitable[Sequence[str]]:
        """Return the keys of a kind in order, a page at a time."""
        ...

    def aclose(self) -> Awaitable[None]:
        """Carry out everything that was called before, and let go of the place."""
        ...


class Memory(Protocol):
    """Keeps what was said, by owner: a process's name, so that its next incarnation remembers. An
    append is a turn, written whole or not at all, and carried out to its end even if its caller is
    cancelled. Whoever appends next, in this process or another, is read after it."""

    def append(
        self, owner: str, messages: Sequence[Message], *, key: str | None = None
    ) -> Awaitable[bool]:
        """Append a turn; return False if the owner used its key before, so that it is there
        already."""
        ...

    def load(self, owner: str, limit: int = 100) -> Awaitable[Sequence[Message]]:
        """Return the last messages, oldest first. A turn that does not fit into `limit` whole is
        left out, and all before it: a tool call is never parted from its result."""
        ...

    def search(self, owner: str, query: str, limit: int = 10) -> Awaitable[Sequence[Message]]:
        """Return the messages that hold every word of the query, latest first, in whatever case. A
        query is words and has no syntax; its first hundred different words count."""
        ...

    def forget(self, owner: str) -> Awaitable[None]:
        """Forget all that this owner said, and the keys."""
        ...

    def aclose(self) -> Awaitable[None]:
        """Carry out everything that was called before, and let go of the place."""
        ...


# Who is told what happened: traces and the audit.


class Sink(Protocol):
    """A sink takes call records. Recording never waits and never fails the call it records."""

    def record(self, call: CallTraced) -> None:
        """Take a call record, to be written soon."""
        ...

    def aclose(self) -> Awaitable[None]:
        """Write everything recorded so far."""
        ...


class SinkTrait(StrEnum):
    """Says what a sink is for, in its `traits` if it has any: it exports spans to where other
    code's spans of the same trace go, or it writes the content of calls."""

    EXPORTS = "exports"
    CONTENT = "content"


def traits_of(*sinks: Sink | None) -> frozenset[SinkTrait]:
    """Return the traits that at least one of the sinks has."""
    return frozenset[SinkTrait]().union(*(getattr(sink, "traits", ()) for sink in sinks))


def share_of(*sinks: Sink | None) -> float:
    """Return the largest share of all traces that one of the sinks takes: its `share`, or all."""
    return max((getattr(sink, "share", 1.0) for sink in sinks), default=1.0)


class AuditLevel(StrEnum):
    """Says what is kept of a tool's calls: nothing, who did what, or also what it was given and
    gave."""

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
    """The number of entries, and the hash of the last one, which stands for all of them. Kept
    elsewhere, it shows later whether any was changed or the end cut off."""

    count: int
    hash: str


class Audit(Protocol):
    """Keeps what was decided and done, as a chain that shows any change. Several processes may
    append."""

    def append(self, entry: AuditEntry, level: AuditLevel = AuditLevel.BASIC) -> Awaitable[None]:
        """Append an entry without keys. It is kept when this returns: a decision is appended before
        its effect."""
        ...

    def head(self) -> Awaitable[AuditHead]:
        """Return the head of the chain as it is now."""
        ...

    def aclose(self) -> Awaitable[None]:
        """Let go of the place."""
        ...
