"""The seams: small protocols that hosts and adapters implement (pure).

    pure rooms ── actions ──▶ Host ── events ──▶ pure rooms
    the gate   ── requests ─▶ Model, Tool, Ledger, Sink

Ports speak the words of the pure rooms below them. A port stands here only when two rooms meet at
it; each has one conformance suite that every implementation passes. A method that waits says so by
returning an Awaitable.
"""

from vegakit.ports.calling import Model, Tool
from vegakit.ports.hosting import Clock, Host
from vegakit.ports.journals import Begun, Claimed, Journal, Kept, Recorded, Run
from vegakit.ports.keeping import Memory, Store
from vegakit.ports.launching import (
    ChildInput,
    ChildOutput,
    Guard,
    Guarded,
    GuardsOutdatedError,
    Launched,
    Launcher,
    Ran,
    Sandbox,
)
from vegakit.ports.ledgers import Ledger
from vegakit.ports.watching import Audit, Audited, AuditHead, AuditLevel, Sink

__all__ = [
    "Audit",
    "AuditHead",
    "AuditLevel",
    "Audited",
    "Begun",
    "ChildInput",
    "ChildOutput",
    "Claimed",
    "Clock",
    "Guard",
    "Guarded",
    "GuardsOutdatedError",
    "Host",
    "Journal",
    "Kept",
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
