"""Where truth is kept (adapter, host): money, small documents, what was said, the audit.

Each comes in memory, gone with its process, on a SQLite file that several processes share, and on a
PostgreSQL server that several machines share. All pass the same suites: `LEDGER_CHECKS`,
`STORE_CHECKS` and `MEMORY_CHECKS` of `vegakit.testing`.
"""

from vegakit.store.audit import SqliteAudit, read_audit, verify_audit
from vegakit.store.audit_chain import AuditVerdict, Fault, FaultKind, Link, parse_head
from vegakit.store.journal_calls import RecordedCall, recorded_calls
from vegakit.store.journal_runs import RunSummary, is_running, list_runs
from vegakit.store.journals import MemoryJournal, Replay
from vegakit.store.memories import TransientMemory
from vegakit.store.memories_sqlite import SqliteMemory
from vegakit.store.memory import MemoryLedger, MemoryStore
from vegakit.store.postgres_ledger import PostgresLedger
from vegakit.store.postgres_memory import PostgresMemory
from vegakit.store.postgres_store import PostgresStore
from vegakit.store.retention import Forgotten, forget_runs
from vegakit.store.sqlite_journal import Keep, SqliteJournal
from vegakit.store.sqlite_ledger import SqliteLedger
from vegakit.store.sqlite_store import SqliteStore

__all__ = [
    "AuditVerdict",
    "Fault",
    "FaultKind",
    "Forgotten",
    "Keep",
    "Link",
    "MemoryJournal",
    "MemoryLedger",
    "MemoryStore",
    "PostgresLedger",
    "PostgresMemory",
    "PostgresStore",
    "RecordedCall",
    "Replay",
    "RunSummary",
    "SqliteAudit",
    "SqliteJournal",
    "SqliteLedger",
    "SqliteMemory",
    "SqliteStore",
    "TransientMemory",
    "forget_runs",
    "is_running",
    "list_runs",
    "parse_head",
    "read_audit",
    "recorded_calls",
    "verify_audit",
]
