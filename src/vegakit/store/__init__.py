"""Where truth is kept (adapter, host): the ledger of money, and small documents.

Each comes in memory, gone with its process, and on a SQLite file that several processes share.
Both pass the same suite, `vegakit.testing.LEDGER_CHECKS` and `STORE_CHECKS`.
"""

from vegakit.store.memory import MemoryLedger, MemoryStore
from vegakit.store.sqlite_ledger import SqliteLedger
from vegakit.store.sqlite_store import SqliteStore

__all__ = ["MemoryLedger", "MemoryStore", "SqliteLedger", "SqliteStore"]
