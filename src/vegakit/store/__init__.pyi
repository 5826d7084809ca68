from vegakit.store.audit import (
    AuditFault as AuditFault,
    AuditFaultKind as AuditFaultKind,
    AuditLink as AuditLink,
    AuditVerdict as AuditVerdict,
    SqliteAudit as SqliteAudit,
    parse_head as parse_head,
    read_audit as read_audit,
    verify_audit as verify_audit,
)
from vegakit.store.bus import LocalBus as LocalBus
from vegakit.store.journal import (
    ForgottenRuns as ForgottenRuns,
    RetentionRule as RetentionRule,
)
from vegakit.store.memory import (
    MemoryJournal as MemoryJournal,
    MemoryLedger as MemoryLedger,
    MemoryStore as MemoryStore,
    ReplayJournal as ReplayJournal,
)
from vegakit.store.postgres import (
    PostgresJournal as PostgresJournal,
    PostgresLedger as PostgresLedger,
    PostgresMemory as PostgresMemory,
    PostgresStore as PostgresStore,
)
from vegakit.store.records import (
    MemoryRecords as MemoryRecords,
    PostgresRecords as PostgresRecords,
    RecordsConflict as RecordsConflict,
    RecordsTimeout as RecordsTimeout,
    RecordStore as RecordStore,
    RecordTransaction as RecordTransaction,
    SqlDialect as SqlDialect,
    SqliteRecords as SqliteRecords,
    open_records as open_records,
)
from vegakit.store.redis import (
    RedisBus as RedisBus,
)
from vegakit.store.registry import (
    forget_runs as forget_runs,
    journal_size as journal_size,
    list_runs as list_runs,
    open_bus as open_bus,
    open_journal as open_journal,
    open_ledger as open_ledger,
    open_stores as open_stores,
    open_tenants as open_tenants,
    recorded_calls as recorded_calls,
    recorded_effects as recorded_effects,
    show_place as show_place,
)
from vegakit.store.runs import (
    RecordedCall as RecordedCall,
    RecordedEffect as RecordedEffect,
    RunSummary as RunSummary,
)
from vegakit.store.sqlite import (
    ReplyCache as ReplyCache,
    SqliteJournal as SqliteJournal,
    SqliteLedger as SqliteLedger,
    SqliteMemory as SqliteMemory,
    SqliteStore as SqliteStore,
)
