"""The registry knows which backend a place is of: it is the one table that knows them all, with the
operations by place."""

import re
from collections.abc import Callable
from os import PathLike, fspath

from vegakit.config import hide_secrets_of_url
from vegakit.errors import SettingsError
from vegakit.ports import Bus, Clock, Journal, Ledger, Store, TenantStore
from vegakit.store.bus import LocalBus
from vegakit.store.journal import ForgottenRuns, RetentionRule
from vegakit.store.runs import Backend, RecordedCall, RecordedEffect, RunSummary
from vegakit.store.sqlite import SQLITE
from vegakit.store.tenants import MemoryTenantStore

IN_MEMORY = ":memory:"


def _postgres() -> Backend:
    from vegakit.store.postgres import POSTGRES

    return POSTGRES


_BACKENDS: dict[str, Callable[[], Backend]] = {
    "": lambda: SQLITE,
    "postgresql": _postgres,
    "postgres": _postgres,
}
"""By the scheme of the URL; the path of a file has none. A server's backend is loaded with its
first URL."""


_CONNECTION_WORDS = re.compile(r"(?:^|\s)(?:host|dbname|port)\s*=")
"""Another spelling of PostgreSQL's. Taken for a path it would be a new file, empty and unshared."""


def _backend_of(place: str) -> Backend:
    scheme = _scheme(place)
    if not scheme and _CONNECTION_WORDS.search(place):
        raise SettingsError(
            "a store on a server is named by a URL, not by words as in host=… dbname=…; write "
            "postgresql://USER@HOST:PORT/DATABASE"
        )
    if scheme not in _BACKENDS:
        known = ", ".join(f"{name}://…" for name in _BACKENDS if name)
        raise SettingsError(
            f"no store is reached by {scheme}:// in {show_place(place)}; write the path of a file, "
            f"or one of {known}"
        )
    return _BACKENDS[scheme]()


def _scheme(place: str) -> str:
    """Return the scheme of a URL; "" for the path of a file."""
    scheme, separator, _ = place.partition("://")
    return scheme.lower() if separator else ""


def show_place(place: str) -> str:
    """Return the name of a place as people may see it: a URL without user, password and options."""
    return hide_secrets_of_url(place) if _scheme(place) else place


def open_ledger(place: str | PathLike[str]) -> Ledger:
    """Return the ledger in a file or on the server of a URL. Nothing is opened until it is used."""
    return _backend_of(fspath(place)).ledger(fspath(place))


def open_journal(
    place: str | PathLike[str], *, shared: bool = False, keep: RetentionRule | None = None
) -> Journal:
    """Return the journal in a file or on the server of a URL. `shared` is one that many runs of a
    user share; `keep` says which runs that have ended are kept."""
    return _backend_of(fspath(place)).journal(fspath(place), shared=shared, keep=keep)


def open_stores(place: str | PathLike[str]) -> tuple[Store, ...]:
    """Return the documents in a file or on the server of a URL: those beside the journal first,
    then those of `Runtime(store=…)`, where these are others. Nothing is opened until it is used."""
    return _backend_of(fspath(place)).stores(fspath(place))


def open_tenants(place: str | PathLike[str]) -> TenantStore:
    """Return the state of tenants in a file, on the server of a URL, or in this process where the
    place is `IN_MEMORY`."""
    if fspath(place) == IN_MEMORY:
        return MemoryTenantStore()
    return _backend_of(fspath(place)).tenants(fspath(place))


def open_bus(place: str, clock: Clock) -> Bus:
    """Return the bus on the Redis server of a URL, or in this process where the place is
    `IN_MEMORY`."""
    if place == IN_MEMORY:
        return LocalBus(clock)
    if _scheme(place) not in ("redis", "rediss", "unix"):
        raise SettingsError(
            f"no bus is reached by {show_place(place)}; write redis://HOST:PORT/DATABASE, or "
            f"{IN_MEMORY} for a bus of this process alone"
        )
    from vegakit.store.redis import RedisBus

    return RedisBus(place, clock)


def list_runs(place: str | PathLike[str]) -> list[RunSummary]:
    """Return the runs in a journal, the first first. Nothing is written to it."""
    return _backend_of(fspath(place)).runs(fspath(place))


def recorded_calls(place: str | PathLike[str]) -> list[RecordedCall]:
    """Return the model calls in a journal that `list_runs` can read."""
    return _backend_of(fspath(place)).calls(fspath(place))


def recorded_effects(place: str | PathLike[str], program: str) -> list[RecordedEffect]:
    """Return the effects of a run in a journal that `list_runs` can read, in no order."""
    return _backend_of(fspath(place)).effects(fspath(place), program)


def forget_runs(
    place: str | PathLike[str],
    before_ms: int,
    most_bytes: int,
    *,
    dry_run: bool = False,
    shrink: bool = False,
) -> ForgottenRuns:
    """Forget runs that ended before then, and the oldest ones while the rest is larger than
    `most_bytes`; `shrink` gives the space back to the disk."""
    forget = _backend_of(fspath(place)).forget
    return forget(fspath(place), before_ms, most_bytes, dry_run=dry_run, shrink=shrink)


def journal_size(place: str | PathLike[str]) -> int | None:
    """Return how many bytes a journal takes; None where nothing is recorded yet."""
    return _backend_of(fspath(place)).size(fspath(place))
