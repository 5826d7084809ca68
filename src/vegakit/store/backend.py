"""A backend says what a place to store things in offers.

A place is the path of a file, or a URL whose scheme says which backend it is of. A backend is a
folder beside this module and a row of the table in `registry`.
"""

from collections.abc import Callable
from typing import NamedTuple

from vegakit.ports import Journal, Ledger
from vegakit.store.journal import ForgottenRuns
from vegakit.store.runs import RecordedCall, RunSummary


class Backend(NamedTuple):
    """The operations of one kind of place, each of which takes the place as its first argument."""

    ledger: Callable[[str], Ledger]
    journal: Callable[..., Journal]
    """Open a journal; `shared` and `keep` are those of `SqlJournal`."""
    runs: Callable[[str], list[RunSummary]]
    """Return the runs of a journal, the first first, without writing to it."""
    calls: Callable[[str], list[RecordedCall]]
    """Return the model calls of a journal."""
    forget: Callable[..., ForgottenRuns]
    """Forget runs that have ended, by age and size."""
    size: Callable[[str], int | None]
    """Return how many bytes a journal takes; None where nothing is recorded yet."""
