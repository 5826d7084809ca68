"""Where truth is kept (adapter, host): money, small documents, what was said, the audit.

Each comes in memory, gone with its process, on a SQLite file that several processes share, and on a
PostgreSQL server that several machines share. All pass the same suites: `LEDGER_CHECKS`,
`STORE_CHECKS` and `MEMORY_CHECKS` of `vegakit.testing`.
"""

from vegakit.store.audit import (
    AuditFault,
    AuditFaultKind,
    AuditLink,
    AuditVerdict,
    SqliteAudit,
    parse_head,
    read_audit,
    verify_audit,
)
from vegakit.store.conversations import TransientMemory
from vegakit.store.memory import MemoryJournal, MemoryLedger, MemoryStore, ReplayJournal
from vegakit.store.postgres import PostgresLedger, PostgresMemory, PostgresStore
from vegakit.store.sqlite.journal import RetentionRule, SqliteJournal
from vegakit.store.sqlite.runs import (
    ForgottenRuns,
    RecordedCall,
    RunSummary,
    forget_runs,
    is_running,
    list_runs,
    recorded_calls,
)
from vegakit.store.sqlite.stores import SqliteLedger, SqliteMemory, SqliteStore

__all__ = [
    "AuditFault",
    "AuditFaultKind",
    "AuditLink",
    "AuditVerdict",
    "ForgottenRuns",
    "MemoryJournal",
    "MemoryLedger",
    "MemoryStore",
    "PostgresLedger",
    "PostgresMemory",
    "PostgresStore",
    "RecordedCall",
    "ReplayJournal",
    "RetentionRule",
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
