"""What a supervisor asks of its host, and says to whoever is above it."""

from typing import TypeAlias

from msgspec import Struct

from vegakit.policy.supervision.exits import ExitReason

__all__ = [
    "ExitSupervisor",
    "KillChild",
    "ReportEnded",
    "ReportReady",
    "StartChild",
    "StopChild",
    "SupervisorAction",
    "WakeAt",
]


class StartChild(Struct, frozen=True, tag=True):
    name: str
    generation: int


class StopChild(Struct, frozen=True, tag=True):
    """Ask it to end. It will be killed at `deadline_ms`; without one it has all the time."""

    name: str
    generation: int
    deadline_ms: int | None


class KillChild(Struct, frozen=True, tag=True):
    name: str
    generation: int


class WakeAt(Struct, frozen=True, tag=True):
    """Call `on_timer` then or later; once too often does no harm."""

    due_ms: int


class ReportEnded(Struct, frozen=True, tag=True):
    """This life ended and is not restarted: tell those who wait for it."""

    name: str
    generation: int
    reason: ExitReason


class ReportReady(Struct, frozen=True, tag=True):
    """Every child was started: for a supervisor above, this one has started."""


class ExitSupervisor(Struct, frozen=True, tag=True):
    """No child is left: for a supervisor above, this one has exited."""

    reason: ExitReason


SupervisorAction: TypeAlias = (
    StartChild | StopChild | KillChild | WakeAt | ReportEnded | ReportReady | ExitSupervisor
)
