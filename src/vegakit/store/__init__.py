"""Where truth is kept (adapter, host): money, small documents, what was said.

Each comes in memory, gone with its process, and on a SQLite file that several processes share.
Both pass the same suite: `LEDGER_CHECKS`, `STORE_CHECKS` and `MEMORY_CHECKS` of `vegakit.testing`.
"""

from vegakit.store.journals import MemoryJournal
from vegakit.store.memories import TransientMemory
from vegakit.store.memories_sqlite import SqliteMemory
from vegakit.store.memory import MemoryLedger, MemoryStore
from vegakit.store.sqlite_ledger import SqliteLedger
from vegakit.store.sqlite_store import SqliteStore

__all__ = [
    "MemoryJournal",
    "MemoryLedger",
    "MemoryStore",
    "SqliteLedger",
    "SqliteMemory",
    "SqliteStore",
    "TransientMemory",
]
