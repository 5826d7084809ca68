"""Stores in SQLite files that several processes of one machine share."""

from vegakit.store.runs import Backend
from vegakit.store.sqlite.connection import SqliteHandle
from vegakit.store.sqlite.journal import (
    SqliteJournal,
    forget_runs,
    journal_size,
    list_runs,
    recorded_calls,
    recorded_effects,
)
from vegakit.store.sqlite.stores import (
    ReplyCache,
    SqliteLedger,
    SqliteMemory,
    SqliteStore,
    sqlite_stores,
    sqlite_tenants,
)

SQLITE = Backend(
    ledger=SqliteLedger,
    journal=SqliteJournal,
    runs=list_runs,
    calls=recorded_calls,
    effects=recorded_effects,
    forget=forget_runs,
    size=journal_size,
    tenants=sqlite_tenants,
    stores=sqlite_stores,
)

__all__ = [
    "SQLITE",
    "ReplyCache",
    "SqliteHandle",
    "SqliteJournal",
    "SqliteLedger",
    "SqliteMemory",
    "SqliteStore",
]
