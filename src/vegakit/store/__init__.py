"""The store keeps the truth (adapter, host): money, small documents, what was said, the audit.

Each comes in memory, gone with its process, on a SQLite file that several processes share, and on a
PostgreSQL server that several machines share: one folder a backend, found by the scheme of a URL in
`registry`. All pass the same suites: `LEDGER_CHECKS`, `JOURNAL_CHECKS`, `STORE_CHECKS` and
`MEMORY_CHECKS` of `vegakit.testing`.
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
from vegakit.store.journal import ForgottenRuns, RetentionRule
from vegakit.store.memory import MemoryJournal, MemoryLedger, MemoryStore, ReplayJournal
from vegakit.store.postgres import PostgresJournal, PostgresLedger, PostgresMemory, PostgresStore
from vegakit.store.registry import (
    forget_runs,
    journal_size,
    list_runs,
    open_journal,
    open_ledger,
    recorded_calls,
    show_place,
)
from vegakit.store.runs import RecordedCall, RunSummary
from vegakit.store.sqlite import SqliteJournal, SqliteLedger, SqliteMemory, SqliteStore

__all__ = [
    "AuditFault",
    "AuditFaultKind",
    "AuditLink",
    "AuditVerdict",
    "ForgottenRuns",
    "MemoryJournal",
    "MemoryLedger",
    "MemoryStore",
    "PostgresJournal",
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
    "journal_size",
    "list_runs",
    "open_journal",
    "open_ledger",
    "parse_head",
    "read_audit",
    "recorded_calls",
    "show_place",
    "verify_audit",
]
