"""The seams: small protocols that hosts and adapters implement (pure).

    pure rooms ── actions ──▶ Host ── events ──▶ pure rooms
    the gate   ── requests ─▶ Model, Tool, Ledger, Sink

Ports speak the words of the pure rooms below them. A port stands here only when two rooms meet at
it; each has one conformance suite that every implementation passes. A method that waits says so by
returning an Awaitable.
"""

from vegakit.ports.agents import AgentResult, AgentRun, AgentRunner, TenantSpending
from vegakit.ports.bus import (
    NUMBERS_PER_MS,
    Bell,
    Bus,
    BusLimits,
    KeptMessage,
    TopicMessage,
    TopicPage,
    topic_page,
)
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
    SinkTrait,
    Store,
    UnfinishedEffect,
    share_of,
    traits_of,
)
from vegakit.ports.tenants import (
    Document,
    EventPage,
    TenantEvent,
    TenantRecords,
    TenantStore,
)

__all__ = [
    "NUMBERS_PER_MS",
    "AgentResult",
    "AgentRun",
    "AgentRunner",
    "Audit",
    "AuditEntry",
    "AuditHead",
    "AuditLevel",
    "Bell",
    "Bus",
    "BusLimits",
    "ChildInput",
    "ChildLauncher",
    "ChildOutput",
    "ClaimResult",
    "Clock",
    "CommandResult",
    "Document",
    "EventPage",
    "GuardedFolder",
    "GuardsOutdatedError",
    "Host",
    "Journal",
    "KeptMessage",
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
    "SinkTrait",
    "Store",
    "TenantEvent",
    "TenantRecords",
    "TenantSpending",
    "TenantStore",
    "Tool",
    "TopicMessage",
    "TopicPage",
    "UnfinishedEffect",
    "share_of",
    "topic_page",
    "traits_of",
]
