"""The store keeps the truth (adapter, host): money, small documents, what was said, the audit.

Each comes in memory, gone with its process, on a SQLite file that several processes share, and on a
PostgreSQL server that several machines share: one folder a backend, found by the scheme of a URL in
`registry`. All pass the same suites: `LEDGER_CHECKS` and `JOURNAL_CHECKS` of `vegakit.testing`, and
`STORE_CHECKS` and `MEMORY_CHECKS` of our own tests.
"""

from vegakit.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__spec__)
