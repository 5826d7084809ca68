"""Who is told what happened: traces and the audit."""

from collections.abc import Awaitable
from enum import StrEnum
from typing import Any, Protocol

from msgspec import Struct

from vegakit.events import CallTraced
from vegakit.ids import TenantId, TraceId
from vegakit.money import Money

__all__ = [
    "Audit",
    "AuditHead",
    "AuditLevel",
    "Audited",
    "Sink",
]


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
