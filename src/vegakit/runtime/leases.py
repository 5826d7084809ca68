"""The lease of a runtime on its ledger: while it is kept, what is reserved under it stays so.

    take ─▶ keep: renew ─▶ settle what dead holders left ─▶ forget old claims ─▶ wait ─┐
              ▲      └─ the ledger fails: wait a little, longer each time ─────────────┤
              └────────────────────────────────────────────────────────────────────────┘

A ledger that is away for a while (a server that restarts, a file that is locked) must not end the
renewing: nobody would notice until the first reservation is refused. Reservations renew the lease
too, see `policy.budget.leases`; this loop is for a runtime that waits for answers.
"""

import asyncio
import logging

from vegakit.ids import HolderId
from vegakit.policy import LEASE_MS, LeaseWatch
from vegakit.ports import Clock, Ledger

__all__ = ["Lease"]

_LOG = logging.getLogger("vegakit")
_RENEWALS = 4
"""How often it is renewed in its length, so that three in a row may fail."""
_FIRST_RETRY_MS = 100
_PRUNE_MS = 60_000
_REMEMBER_MS = 86_400_000
"""How long a late bill still finds its claim."""
_REMEMBER_IN_MEMORY_MS = 900_000
"""Longer than any call waits for its answer."""


class Lease:
    """`lasting`: the ledger outlives this runtime."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        holder: HolderId,
        *,
        lasting: bool,
        length_ms: int = LEASE_MS,
    ) -> None:
        self._ledger, self._clock, self._holder = ledger, clock, holder
        self._length_ms = length_ms
        self._others = LeaseWatch(length_ms)
        self._remember_ms = _REMEMBER_MS if lasting else _REMEMBER_IN_MEMORY_MS
        self._prune_at = 0
        self._keeping: asyncio.Task[None] | None = None

    async def take(self) -> None:
        """And settle what holders left behind who died. A ledger that cannot be used is told."""
        await self._renew()

    def keep(self) -> None:
        """Renew it from now on, until `aclose`."""
        self._keeping = asyncio.ensure_future(self._renew_for_ever())
        self._keeping.set_name(f"vega lease of {self._holder}")
        self._keeping.add_done_callback(self._on_ended)

    async def aclose(self) -> None:
        """Stop renewing. What is still reserved is settled by others when the lease ends."""
        keeping, self._keeping = self._keeping, None
        if keeping is not None:
            keeping.cancel()
            await asyncio.wait([keeping])

    def _on_ended(self, ended: "asyncio.Task[None]") -> None:
        """Nothing ends it but `aclose`; should something else, it is begun again, and told. In a
        loop that is being closed that fails, and nothing is left to be renewed."""
        if ended is not self._keeping or asyncio.get_running_loop().is_closed():
            return
        failure = None if ended.cancelled() else ended.exception()
        _LOG.error(
            "renewing the lease of %s ended and begins again", self._holder, exc_info=failure
        )
        self.keep()

    async def _renew_for_ever(self) -> None:
        failures = 0
        while True:
            now = self._clock.now()
            due = now + self._length_ms // _RENEWALS
            try:
                await self._renew()
                await self._prune()
            except Exception as error:  # noqa: BLE001  (whatever it is, it may pass)
                due = min(due, now + _FIRST_RETRY_MS * 2**failures)
                if not failures:  # a long outage is told once
                    _LOG.warning(
                        "the lease of %s is not renewed: %s; trying again until it is",
                        self._holder,
                        error,
                    )
                failures += 1
            else:
                if failures:
                    _LOG.warning("the lease of %s is renewed again", self._holder)
                failures = 0
            await self._clock.wait_until(due)

    async def _renew(self) -> None:
        """Renews before it looks at others: nothing that goes wrong there may cost the lease."""
        now = self._clock.now()
        await self._ledger.renew(self._holder, now + self._length_ms)
        leases = dict(await self._ledger.leases())
        leases.pop(self._holder, None)
        now = self._clock.now()
        ended = self._others.ended(leases, now)
        if ended:
            await self._ledger.expire(ended, now)

    async def _prune(self) -> None:
        """Old claims are forgotten now and then, so that a long life stays small."""
        now = self._clock.now()
        if now >= self._prune_at:
            await self._ledger.prune(now - self._remember_ms)
            self._prune_at = now + _PRUNE_MS
