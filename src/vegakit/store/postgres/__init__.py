"""Stores on a PostgreSQL server that several machines share."""

from vegakit.store.postgres.connection import PostgresSession
from vegakit.store.postgres.journal import (
    PostgresJournal,
    forget_runs,
    journal_size,
    list_runs,
    open_stores,
    recorded_calls,
    recorded_effects,
)
from vegakit.store.postgres.stores import (
    PostgresLedger,
    PostgresMemory,
    PostgresStore,
    postgres_tenants,
)
from vegakit.store.runs import Backend

POSTGRES = Backend(
    ledger=PostgresLedger,
    journal=PostgresJournal,
    runs=list_runs,
    calls=recorded_calls,
    effects=recorded_effects,
    forget=forget_runs,
    size=journal_size,
    tenants=postgres_tenants,
    stores=open_stores,
)

__all__ = [
    "POSTGRES",
    "PostgresJournal",
    "PostgresLedger",
    "PostgresMemory",
    "PostgresSession",
    "PostgresStore",
]
