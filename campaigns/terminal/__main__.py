"""Measure the terminal of `vega code` from outside: `python -m campaigns.terminal [full] [PART…]`.

Parts are measures, keys, faults and beside; all of them if none is named. Prints its figures last;
exits 1 when one falls short.
"""

import sys
import time
from datetime import UTC, datetime

from benchmarks.figures import Figure, show

from campaigns.code_complaints.__main__ import into_own_network
from campaigns.terminal.beside import beside
from campaigns.terminal.faults import FAULTS, seen
from campaigns.terminal.measures import COMMIT, FULL, Notes, Sizes, measure
from campaigns.terminal.reduced import reduced_storms
from campaigns.terminal.storms import storms

__all__ = ["main"]

PARTS = ("measures", "keys", "faults", "beside")


def keys(notes: Notes, *, full: bool) -> None:
    """Press random keys, on the pty and at the reducer."""
    on_pty, reduced = (200, 4_800) if full else (12, 988)
    storms(notes, on_pty)
    faults = reduced_storms(reduced)
    name = f"inputs lost and approvals by accident in {reduced:,} sequences at the reducer"
    notes.none(name, faults)


def planted(notes: Notes) -> None:
    """Plant each fault, and see that its check falls short."""
    unseen: list[str] = []
    for name in FAULTS:
        found = seen(name, COMMIT)
        print(f"  planted {name}: {'seen' if found else 'NOT SEEN'}", flush=True)
        unseen += [] if found else [name]
    notes.none(f"planted faults not seen, of {len(FAULTS)}", unseen)


def main(*words: str) -> int:
    """Measure, and print the figures."""
    into_own_network()
    full = "full" in words
    parts = [word for word in words if word in PARTS] or [*PARTS]
    sizes = FULL if full else Sizes()
    notes, began = Notes(), time.monotonic()
    if "measures" in parts:
        measure(notes, sizes)
    if "keys" in parts:
        keys(notes, full=full)
    if "faults" in parts:
        planted(notes)
    if "beside" in parts:
        print(beside(3 if full else 1))
    print(f"{datetime.now(UTC):%Y-%m-%d}, {time.monotonic() - began:.0f} s")
    figures: list[Figure] = notes.figures
    if figures:
        print(show(figures))
    return int(not all(figure.holds for figure in figures))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
