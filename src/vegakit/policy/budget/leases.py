"""Leases: how long a holder's reservations stay reserved after its last sign of life.

A holder (a runtime, a worker) writes into the ledger until when it is alive, by its own clock, and
writes it anew every few seconds and with every reservation. Whoever else uses the ledger settles
what a holder left behind once its lease has ended. Clocks cannot be trusted for that: a machine may
be a day ahead, a wall clock is set back while a process keeps counting from the time it started
with, a laptop sleeps. A dead holder must not keep money because its clock was ahead, and a living
one must not be settled again and again because its clock is behind. So an observer believes the
written time only where nothing else is known, and otherwise measures with its own clock how long
the lease has stood there unchanged:

| what the observer saw                             | the lease ends                              |
|---------------------------------------------------|---------------------------------------------|
| it never changed, and its time has come           | now: the usual end, also after a restart    |
| it never changed, and its time is yet to come     | then, but at most one length after first    |
|                                                   | seen: a clock that is ahead holds nothing   |
| it changed: the holder was alive under our eyes   | one length after the change was seen,       |
|                                                   | whatever time is written there              |

One case is left: an observer that has just started meets a living holder whose clock is behind by
more than a lease. It settles what that holder has in flight as UNKNOWN, once; the answers correct
it, and the holder's next reservation writes the lease anew. Waiting one length instead would keep
the money of every dead holder for that long after each start.
"""

from collections.abc import Mapping

from msgspec import Struct, field

from vegakit.ids import HolderId

__all__ = ["LEASE_MS", "LeaseWatch"]

LEASE_MS = 20_000


class _Sighting(Struct):
    until_ms: int
    since_ms: int
    """When it was first seen like this, by the observer's own clock."""
    changed: bool


class LeaseWatch(Struct):
    """What one observer has seen of the leases of others, by its own steady clock."""

    length_ms: int = LEASE_MS
    seen: dict[HolderId, _Sighting] = field(default_factory=dict)

    def ended(self, leases: Mapping[HolderId, int], now: int) -> dict[HolderId, int]:
        """Return those of `leases` that have ended, each with the time that is written there.

        A holder that is not among them any more stays known for a few lengths: one that comes back
        shows that it is alive, and is not a stranger whose written time would be believed.
        """
        ended: dict[HolderId, int] = {}
        for holder, until_ms in leases.items():
            seen = self.seen.get(holder)
            if seen is None or seen.until_ms != until_ms:
                seen = self.seen[holder] = _Sighting(until_ms, now, seen is not None)
            if now - seen.since_ms >= self.length_ms or (not seen.changed and until_ms <= now):
                ended[holder] = until_ms
        for holder in [*self.seen]:
            if holder not in leases and now - self.seen[holder].since_ms > 10 * self.length_ms:
                del self.seen[holder]
        return ended
