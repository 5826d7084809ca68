"""Time and effects: what a program's host must do."""

from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any, Protocol

from vegakit.effects import Effect
from vegakit.events import HostEvent
from vegakit.ids import EffectKey

__all__ = [
    "Clock",
    "Host",
]


class Clock(Protocol):
    def now(self) -> int:
        """Steady milliseconds: set by the wall clock once, then moved by the monotonic clock only.

        So a clock that is stepped by an hour neither opens a rate limit nor stalls a timer.
        """
        ...

    def wait_until(self, at_ms: int) -> Coroutine[Any, Any, None]: ...


class Host(Protocol):
    """Carries out what a program decided; answers come back as events, never as return values."""

    def start(self, effect: Effect) -> None: ...

    def cancel(self, key: EffectKey) -> None: ...

    def next(self) -> Awaitable[Sequence[HostEvent]]:
        """At least one event, in program order. Raises what ends the program: `ProgramChanged`,
        or a journal that fails."""
        ...

    @property
    def now(self) -> int: ...
