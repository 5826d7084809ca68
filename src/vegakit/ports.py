"""The seams: small protocols that hosts and adapters implement (base, pure).

    pure rooms ── actions ──▶ Host ── events ──▶ pure rooms

A port stands here only when two rooms meet at it; each has one conformance suite that every
implementation passes.
"""

from collections.abc import Awaitable, Sequence
from typing import Protocol

from vegakit.effects import Effect
from vegakit.events import HostEvent
from vegakit.ids import EffectKey

__all__ = ["Clock", "Host"]


class Clock(Protocol):
    def now(self) -> int:
        """Steady milliseconds: set by the wall clock once, then moved by the monotonic clock only.

        So a clock that is stepped by an hour neither opens a rate limit nor stalls a timer.
        """
        ...


class Host(Protocol):
    """Carries out what a program decided; answers come back as events, never as return values."""

    def start(self, effect: Effect) -> None: ...

    def cancel(self, key: EffectKey) -> None: ...

    def next(self) -> Awaitable[Sequence[HostEvent]]:
        """At least one event, in program order."""
        ...

    @property
    def now(self) -> int: ...
