"""The seams: small protocols that hosts and adapters implement (pure).

    pure rooms ── actions ──▶ Host ── events ──▶ pure rooms
    the gate   ── requests ─▶ Model, Tool, Ledger, Sink

Ports speak the words of the pure rooms below them. A port stands here only when two rooms meet at
it; each has one conformance suite that every implementation passes. A method that waits says so by
returning an Awaitable.
"""

from collections.abc import AsyncGenerator, Awaitable, Coroutine, Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from vegakit.conversation import Message, ModelChunk, ModelReply, ModelRequest, ToolSpec
from vegakit.effects import Effect
from vegakit.events import CallTraced, EffectOutcome, HostEvent
from vegakit.ids import Digest, EffectKey, HolderId, ProgramId, ScopeId, TenantId, TraceId
from vegakit.money import Money
from vegakit.policy import Admission, Claim, Scope, ScopeAdmission, ScopeRule, Settled
from vegakit.prices import PriceRow

__all__ = [
    "Audit",
    "AuditHead",
    "AuditLevel",
    "Audited",
    "Begun",
    "ChildInput",
    "ChildOutput",
    "Clock",
    "Host",
    "Journal",
    "Launched",
    "Launcher",
    "Ledger",
    "Memory",
    "Model",
    "Ran",
    "Recorded",
    "Run",
    "Sandbox",
    "Sink",
    "Store",
    "Tool",
]


class Clock(Protocol):
    def now(self) -> int:
        """Steady milliseconds: set by the wall clock once, then moved by the monotonic clock only.

        So a clock that is stepped by an hour neither opens a rate limit nor stalls a timer.
        """
        ...

    def wait_until(self, at_ms: int) -> Coroutine[Any, Any, None]: ...


class Host(Protocol):
    """Carries out what a program decided; answers come back as events, never as return values."""

    def start(self, effect: Effect) -> None: ...

    def cancel(self, key: EffectKey) -> None: ...

    def next(self) -> Awaitable[Sequence[HostEvent]]:
        """At least one event, in program order. Raises what ends the program: `ProgramChanged`,
        or a journal that fails."""
        ...

    @property
    def now(self) -> int: ...


class Model(Protocol):
    """One model of one provider. Only the gate calls it; it never retries and never waits its turn.

    Failures are `WorldError`s with class, phase and retry-after. Cancelling a call, or closing a
    stream early, closes its connection.
    """

    @property
    def name(self) -> str:
        """`provider:name`, as prices and traces know it."""
        ...

    @property
    def price(self) -> PriceRow | None:
        """None fails closed: what has no price is not called."""
        ...

    @property
    def context_tokens(self) -> int | None: ...

    @property
    def default_max_tokens(self) -> int: ...

    def bound_input(self, request: ModelRequest) -> int:
        """No fewer tokens than the provider will bill as input, worked out without asking it."""
        ...

    def ask(self, request: ModelRequest) -> Awaitable[ModelReply]: ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        """Deltas, then the whole reply as the last chunk."""
        ...


class Tool(Protocol):
    @property
    def spec(self) -> ToolSpec: ...

    @property
    def repeatable(self) -> bool:
        """Whether calling it again with the same arguments does no harm."""
        ...

    @property
    def timeout_ms(self) -> int: ...

    def call(self, arguments: Mapping[str, Any], deps: object) -> Awaitable[str]:
        """Raises what it raises; the gate turns it into an error result that the model sees."""
        ...


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
    ) -> Awaitable[Admission]:
        """`sent`: marked so at once, for who sends as soon as it is reserved."""
        ...

    def mark_sent(self, effect: EffectKey, attempt: int) -> Awaitable[bool]: ...

    def answer(
        self, effect: EffectKey, attempt: int, bill: Money, now: int
    ) -> Awaitable[Settled]: ...

    def cut_off(self, effect: EffectKey, attempt: int, now: int) -> Awaitable[Settled]: ...

    def release(self, effect: EffectKey, attempt: int, now: int) -> Awaitable[Settled]: ...

    def claim(self, effect: EffectKey, attempt: int) -> Awaitable[Claim | None]: ...

    def renew(self, holder: HolderId, until_ms: int) -> Awaitable[None]: ...

    def expire(self, now: int) -> Awaitable[Sequence[tuple[str, Settled]]]:
        """In any order."""
        ...

    def prune(self, before_ms: int) -> Awaitable[int]:
        """Forgets what was settled before then, and the closed scopes that this leaves empty."""
        ...

    def aclose(self) -> Awaitable[None]: ...


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


class Run(Struct, frozen=True, omit_defaults=True):
    """One run of a program, as a journal keeps it: enough to start it again. `raised` is how much
    its budget was raised while it was paused."""

    program: ProgramId
    started_ms: int
    command: tuple[str, ...] = ()
    folder: str = ""
    ended_ms: int | None = None
    raised: Money = Money(0)


Recorded: TypeAlias = tuple[Digest, EffectOutcome | None]
"""The digest of what was asked, and what came of it; None: it was claimed."""


class Begun(Struct, frozen=True):
    """An effect that was claimed and has no outcome."""

    key: EffectKey
    kind: str
    repeatable: bool


class Journal(Protocol):
    """Truth about answers: what was recorded is never bought again. It has one writer, and holds
    one unfinished run at most. A write is kept when it returns."""

    def begin(self, run: Run) -> Awaitable[Run]:
        """The unfinished run of this journal, or else this one."""
        ...

    def end(self, now: int) -> Awaitable[None]: ...

    def find(self, key: EffectKey) -> Awaitable[Recorded | None]: ...

    def claim(self, effect: Effect, now: int) -> Awaitable[Recorded | None]:
        """Before it is carried out. What was there already is left as it is, and answered."""
        ...

    def record(self, key: EffectKey, outcome: EffectOutcome) -> Awaitable[None]:
        """What was claimed. The first outcome stays."""
        ...

    def drop(self, key: EffectKey) -> Awaitable[None]:
        """A claim of what was never sent."""
        ...

    def cut_off(self) -> Awaitable[Sequence[Begun]]:
        """What this run left without an outcome."""
        ...

    def charges(self) -> Awaitable[Sequence[tuple[EffectKey, Money]]]:
        """What the recorded model calls of this run came to."""
        ...

    def runs(self) -> Awaitable[Sequence[Run]]:
        """The first first."""
        ...

    def aclose(self) -> Awaitable[None]: ...


class Sink(Protocol):
    """Where call records go. Recording never waits and never fails the call it records."""

    def record(self, call: CallTraced) -> None: ...

    def aclose(self) -> Awaitable[None]:
        """Everything recorded so far is written."""
        ...


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


class AuditLevel(StrEnum):
    """What is kept of a tool's calls: nothing, who did what, or also what it was given and gave."""

    NONE = "none"
    BASIC = "basic"
    DETAILED = "detailed"


class Audited(Struct, frozen=True, omit_defaults=True):
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

    def append(self, entry: Audited, level: AuditLevel = AuditLevel.BASIC) -> Awaitable[None]:
        """Without keys. It is kept when this returns: a decision is appended before its effect."""
        ...

    def head(self) -> Awaitable[AuditHead]: ...

    def aclose(self) -> Awaitable[None]: ...


class ChildOutput(Protocol):
    def read(self, n: int = -1) -> Coroutine[Any, Any, bytes]: ...

    def readline(self) -> Coroutine[Any, Any, bytes]: ...


class ChildInput(Protocol):
    def write(self, data: bytes) -> None: ...

    def drain(self) -> Coroutine[Any, Any, None]: ...

    def close(self) -> None: ...


class Launched(Protocol):
    """A command and everything it started."""

    @property
    def pid(self) -> int: ...

    @property
    def stdin(self) -> ChildInput | None: ...

    @property
    def stdout(self) -> ChildOutput: ...

    @property
    def stderr(self) -> ChildOutput: ...

    def wait(self) -> Coroutine[Any, Any, int]:
        """The exit code, negative for a signal, when the whole tree is gone."""
        ...

    def end(self, grace_ms: int = ...) -> Coroutine[Any, Any, int]: ...


class Launcher(Protocol):
    """The one owner of OS children."""

    def start(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        owner: str,
        stdin: int = ...,
    ) -> Coroutine[Any, Any, Launched]: ...


class Ran(Struct, frozen=True):
    """What a command did. `notes` say what was done to it: ended, cut, set aside."""

    exit_code: int
    stdout: str
    stderr: str
    duration_ms: int
    notes: tuple[str, ...] = ()


class Sandbox(Protocol):
    """Runs commands where they can do no harm, or not at all."""

    @property
    def name(self) -> str: ...

    def run(self, argv: Sequence[str], *, owner: str) -> Awaitable[Ran]: ...
