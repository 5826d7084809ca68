"""The lease of a runtime on its ledger: while it is kept, what is reserved under it stays so."""

from vegakit.ids import HolderId
from vegakit.ports import Clock, Ledger

__all__ = ["Lease"]

_LEASE_MS = 20_000
_RENEW_MS = 5_000
_PRUNE_MS = 60_000
_REMEMBER_MS = 86_400_000
"""How long a late bill still finds its claim."""
_REMEMBER_IN_MEMORY_MS = 900_000
"""Longer than any call waits for its answer."""


class Lease:
    """`lasting`: the ledger outlives this runtime."""

    def __init__(self, ledger: Ledger, clock: Clock, holder: HolderId, *, lasting: bool) -> None:
        self._ledger, self._clock, self._holder = ledger, clock, holder
        self._remember_ms = _REMEMBER_MS if lasting else _REMEMBER_IN_MEMORY_MS

    async def take(self) -> None:
        """And settle what holders left behind who died."""
        now = self._clock.now()
        await self._ledger.renew(self._holder, now + _LEASE_MS)
        await self._ledger.expire(now)

    async def keep(self) -> None:
        """Until cancelled. Old claims are forgotten now and then, so that a long life stays
        small."""
        prune_at = 0
        while True:
            await self.take()
            now = self._clock.now()
            if now >= prune_at:
                await self._ledger.prune(now - self._remember_ms)
                prune_at = now + _PRUNE_MS
            await self._clock.wait_until(now + _RENEW_MS)
