"""How urgent a process is, by the five names the language shows.

It orders the ready queue, the gate's slots, rate queues and budget waits.
"""

from enum import StrEnum

__all__ = ["Priority"]


class Priority(StrEnum):
    """The most urgent first."""

    REALTIME = "realtime"
    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"
    IDLE = "idle"

    @property
    def level(self) -> int:
        """0 for the most urgent; an effect carries this number."""
        return _LEVELS[self]


_LEVELS = {priority: level for level, priority in enumerate(Priority)}
