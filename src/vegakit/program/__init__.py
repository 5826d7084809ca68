"""A whole program as one machine: processes, mailboxes, supervisors, wallets, turns (pure)."""

from vegakit.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__spec__)
