"""Lives: how processes end, who restarts them, who is told (pure)."""

from vegakit.policy.supervision.actions import (
    ExitSupervisor,
    KillChild,
    ReportEnded,
    ReportReady,
    StartChild,
    StopChild,
    SupervisorAction,
    WakeAt,
)
from vegakit.policy.supervision.child import Child, ChildState
from vegakit.policy.supervision.exits import ExitKind, ExitReason, escalated
from vegakit.policy.supervision.lifecycle import MoveRefused, ProcessState, move
from vegakit.policy.supervision.restart_rule import ChildType, RestartRule, RestartStrategy
from vegakit.policy.supervision.signals import EndProcess, SendDown, SendExit, Signal, Signals
from vegakit.policy.supervision.supervisor import ChildRefused, Supervisor
from vegakit.policy.supervision.terminal import TerminalReason, Terminate

__all__ = [
    "Child",
    "ChildRefused",
    "ChildState",
    "ChildType",
    "EndProcess",
    "ExitKind",
    "ExitReason",
    "ExitSupervisor",
    "KillChild",
    "MoveRefused",
    "ProcessState",
    "ReportEnded",
    "ReportReady",
    "RestartRule",
    "RestartStrategy",
    "SendDown",
    "SendExit",
    "Signal",
    "Signals",
    "StartChild",
    "StopChild",
    "Supervisor",
    "SupervisorAction",
    "TerminalReason",
    "Terminate",
    "WakeAt",
    "escalated",
    "move",
]
