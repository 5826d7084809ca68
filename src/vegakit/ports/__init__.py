"""The seams: small protocols that hosts and adapters implement (pure).

    pure rooms ── actions ──▶ Host ── events ──▶ pure rooms
    the gate   ── requests ─▶ Model, Tool, Ledger, Sink

Ports speak the words of the pure rooms below them. A port stands here only when two rooms meet at
it; each has one conformance suite that every implementation passes. A method that waits says so by
returning an Awaitable.
"""

from vegakit.ports.execution import (
    ChildInput,
    ChildLauncher,
    ChildOutput,
    Clock,
    CommandResult,
    GuardedFolder,
    GuardsOutdatedError,
    Host,
    LaunchedChild,
    Model,
    PathGuard,
    Sandbox,
    Tool,
)
from vegakit.ports.storage import (
    Audit,
    AuditEntry,
    AuditHead,
    AuditLevel,
    ClaimResult,
    Journal,
    KeptOutcome,
    Ledger,
    Memory,
    RecordedOutcome,
    RunRecord,
    Sink,
    Store,
    UnfinishedEffect,
)

__all__ = [
    "Audit",
    "AuditEntry",
    "AuditHead",
    "AuditLevel",
    "ChildInput",
    "ChildLauncher",
    "ChildOutput",
    "ClaimResult",
    "Clock",
    "CommandResult",
    "GuardedFolder",
    "GuardsOutdatedError",
    "Host",
    "Journal",
    "KeptOutcome",
    "LaunchedChild",
    "Ledger",
    "Memory",
    "Model",
    "PathGuard",
    "RecordedOutcome",
    "RunRecord",
    "Sandbox",
    "Sink",
    "Store",
    "Tool",
    "UnfinishedEffect",
]
