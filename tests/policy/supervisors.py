"""Supervisors in a known state, and the words their tests share."""

from vegakit.policy import (
    ChildRecord,
    ChildType,
    ExitKind,
    ExitReason,
    RestartRule,
    RestartStrategy,
    SupervisorMachine,
)

BOOM = ExitReason(ExitKind.CRASHED, "boom")
NORMAL = ExitReason(ExitKind.NORMAL)
SHUTDOWN = ExitReason(ExitKind.SHUTDOWN)
ESCALATED = ExitReason(ExitKind.ESCALATED, "crashed(boom)")
PERMANENT, TEMPORARY = ChildType.PERMANENT, ChildType.TEMPORARY
RESTART_ALL = RestartRule(RestartStrategy.RESTART_ALL)
REST_FOR_ONE = RestartRule(RestartStrategy.REST_FOR_ONE)


def up(rule: RestartRule | None = None, **children: ChildRecord) -> SupervisorMachine:
    """All children were started at 0."""
    supervisor = SupervisorMachine(rule or RestartRule(), children)
    supervisor.start(0)
    for name in list(children):
        supervisor.on_started(name, 1, 0)
    return supervisor


def states(supervisor: SupervisorMachine) -> dict[str, str]:
    return {name: child.state.value for name, child in supervisor.children.items()}
