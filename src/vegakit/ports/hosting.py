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

    def start(self, effect: Effect, *, speculative: bool = False) -> None:
        """If it was cancelled and has not landed, it begins when it has: a key is never under way
        twice, and its outcomes come in the order in which it was started."""
        ...

    def commit(self, key: EffectKey) -> None:
        """The program has come to what was begun speculatively. Before that only an answer of it
        is kept: a refusal or a failure may not be met when its turn comes."""
        ...

    def cancel(self, key: EffectKey, *, late: bool = False) -> None:
        """The latest that was started under this key. Of one that has landed speculatively: it is
        not wanted, and will not be committed."""
        ...

    def next(self) -> Awaitable[Sequence[HostEvent]]:
        """At least one event, in program order. Raises what ends the program: `ProgramChanged`,
        or a journal that fails."""
        ...

    @property
    def now(self) -> int: ...
