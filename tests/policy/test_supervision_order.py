"""What a supervisor does one by one: groups, deadlines, and children that come and go."""

from tests.policy.supervisors import (
    BOOM,
    ESCALATED,
    NORMAL,
    PERMANENT,
    REST_FOR_ONE,
    RESTART_ALL,
    SHUTDOWN,
    TEMPORARY,
    states,
    up,
)
from vegakit.policy import (
    Backoff,
    ChildRecord,
    ExitSupervisor,
    KillChild,
    ReportEnded,
    ReportReady,
    RestartRule,
    RestartStrategy,
    StartChild,
    StopChild,
    SupervisorMachine,
    WakeAt,
)
from vegakit.policy.supervision import ChildRefused


def test_restart_all_waits_for_each_stop() -> None:
    """Last started, first stopped; then all start, first first; it counts one."""
    supervisor = up(RESTART_ALL, a=ChildRecord(), b=ChildRecord(), c=ChildRecord())
    assert supervisor.on_exited("b", 1, BOOM, 1) == [StopChild("c", 1, 5001), WakeAt(5001)]
    assert states(supervisor) == {"a": "leaving", "b": "down", "c": "stopping"}
    assert supervisor.on_exited("c", 1, SHUTDOWN, 2) == [StopChild("a", 1, 5002), WakeAt(5002)]
    assert supervisor.on_exited("a", 1, SHUTDOWN, 3) == [StartChild("a", 2)]
    assert supervisor.on_started("a", 2, 4) == [StartChild("b", 2)]
    assert supervisor.on_started("b", 2, 5) == [StartChild("c", 2)]
    assert supervisor.on_started("c", 2, 6) == []
    assert supervisor.restarts == (1,)
    assert supervisor.plan is None


def test_rest_for_one_leaves_those_before_alone() -> None:
    """Only c was started after b."""
    supervisor = up(REST_FOR_ONE, a=ChildRecord(), b=ChildRecord(), c=ChildRecord())
    assert supervisor.on_exited("b", 1, BOOM, 1) == [StopChild("c", 1, 5001), WakeAt(5001)]
    assert supervisor.on_exited("c", 1, SHUTDOWN, 2) == [StartChild("b", 2)]
    assert states(supervisor) == {"a": "up", "b": "starting", "c": "down"}


def test_a_temporary_child_taken_along_is_forgotten() -> None:
    """It is stopped with its group, reported, and not started again."""
    supervisor = up(RESTART_ALL, a=ChildRecord(), b=ChildRecord(TEMPORARY))
    supervisor.on_exited("a", 1, BOOM, 1)
    assert supervisor.on_exited("b", 1, SHUTDOWN, 2) == [
        ReportEnded("b", 1, SHUTDOWN),
        StartChild("a", 2),
    ]
    assert supervisor.on_started("a", 2, 3) == []
    assert states(supervisor) == {"a": "up"}


def test_a_crash_of_one_that_has_to_go_counts_nothing() -> None:
    """Neither while it waits for its turn nor after it was asked."""
    supervisor = up(RESTART_ALL, a=ChildRecord(), b=ChildRecord(), c=ChildRecord())
    supervisor.on_exited("a", 1, BOOM, 1)
    assert supervisor.on_exited("b", 1, BOOM, 2) == []
    assert supervisor.on_exited("c", 1, BOOM, 3) == [StartChild("a", 2)]
    assert supervisor.restarts == (1,)


def test_a_failure_meanwhile_widens_the_group() -> None:
    """While b starts again, a fails before it: b is stopped, then both start; that is two."""
    supervisor = up(REST_FOR_ONE, a=ChildRecord(), b=ChildRecord(stop_within_ms=None))
    assert supervisor.on_exited("b", 1, BOOM, 1) == [StartChild("b", 2)]
    assert supervisor.on_exited("a", 1, BOOM, 2) == [StopChild("b", 2, None)]
    assert supervisor.on_started("b", 2, 3) == []
    assert supervisor.on_exited("b", 2, SHUTDOWN, 4) == [StartChild("a", 2)]
    assert supervisor.on_started("a", 2, 5) == [StartChild("b", 3)]
    assert supervisor.restarts == (1, 2)


def test_a_start_that_fails_in_a_group_leaves_the_rest_down() -> None:
    """Those before stay up; the next attempt takes the group from the failed one."""
    supervisor = up(REST_FOR_ONE, a=ChildRecord(), b=ChildRecord(), c=ChildRecord())
    supervisor.on_exited("b", 1, BOOM, 1)
    supervisor.on_exited("c", 1, SHUTDOWN, 1)
    assert supervisor.on_exited("b", 2, BOOM, 2) == [WakeAt(2)]
    assert states(supervisor) == {"a": "up", "b": "waiting", "c": "down"}
    assert supervisor.plan is None
    assert supervisor.on_timer(2) == [StartChild("b", 3)]
    assert supervisor.on_started("b", 3, 3) == [StartChild("c", 2)]


def test_who_does_not_stop_is_killed_once() -> None:
    """At its deadline, not before; then its exit is waited for."""
    supervisor = up(a=ChildRecord(stop_within_ms=100), b=ChildRecord(stop_within_ms=0))
    assert supervisor.stop(10) == [StopChild("b", 1, 10), WakeAt(10)]
    assert supervisor.on_timer(10) == [KillChild("b", 1)]
    assert supervisor.on_timer(11) == []
    assert supervisor.on_exited("b", 1, BOOM, 12) == [StopChild("a", 1, 112), WakeAt(112)]
    assert supervisor.on_timer(111) == []
    assert supervisor.on_timer(112) == [KillChild("a", 1)]
    assert supervisor.on_exited("a", 1, BOOM, 113) == [ExitSupervisor(SHUTDOWN)]


def test_a_deadline_is_over_when_the_child_is() -> None:
    """The timer of a child that stopped in time does nothing."""
    supervisor = up(a=ChildRecord())
    supervisor.terminate("a", 0)
    supervisor.on_exited("a", 1, SHUTDOWN, 1)
    assert supervisor.on_timer(5000) == []
    assert supervisor.due is None


def test_a_supervisor_below_has_all_the_time() -> None:
    """No deadline, no timer."""
    supervisor = up(a=ChildRecord(PERMANENT, None))
    assert supervisor.stop(0) == [StopChild("a", 1, None)]
    assert supervisor.on_timer(10**9) == []


def test_a_start_under_way_is_stopped_too() -> None:
    """Nobody waits for it to come up first; if it does, it still has to go."""
    supervisor = SupervisorMachine(children={"a": ChildRecord(), "b": ChildRecord()})
    supervisor.start(0)
    assert supervisor.stop(1) == [StopChild("a", 1, 5001), WakeAt(5001)]
    assert supervisor.on_started("a", 1, 2) == []
    assert supervisor.on_exited("a", 1, SHUTDOWN, 3) == [ExitSupervisor(SHUTDOWN)]


def test_a_second_stop_changes_nothing() -> None:
    """The first one is under way, for its own reason."""
    supervisor = up(
        RestartRule(RestartStrategy.ESCALATE), a=ChildRecord(), b=ChildRecord(), c=ChildRecord()
    )
    supervisor.on_exited("a", 1, BOOM, 0)
    assert supervisor.stop(1) == []
    assert supervisor.on_exited("c", 1, SHUTDOWN, 2) == [StopChild("b", 1, 5002), WakeAt(5002)]
    assert supervisor.on_exited("b", 1, SHUTDOWN, 3) == [ExitSupervisor(ESCALATED)]


def test_a_child_is_added_and_started() -> None:
    """Beside its siblings; it stands last."""
    supervisor = up(a=ChildRecord())
    assert supervisor.add("b", ChildRecord()) == [StartChild("b", 1)]
    assert supervisor.add("c", ChildRecord()) == [StartChild("c", 1)]
    assert list(supervisor.children) == ["a", "b", "c"]


def test_a_child_added_meanwhile_waits_for_its_turn() -> None:
    """A group that is being restarted comes first, then the new ones in their order."""
    supervisor = up(RESTART_ALL, a=ChildRecord(), b=ChildRecord())
    supervisor.on_exited("b", 1, BOOM, 1)
    assert supervisor.add("c", ChildRecord()) == []
    assert supervisor.add("d", ChildRecord()) == []
    assert supervisor.on_exited("a", 1, SHUTDOWN, 2) == [StartChild("a", 2)]
    assert supervisor.on_started("a", 2, 3) == [StartChild("b", 2)]
    assert supervisor.on_started("b", 2, 4) == [StartChild("c", 1)]
    assert supervisor.on_started("c", 1, 5) == [StartChild("d", 1)]


def test_an_added_child_that_cannot_start_is_forgotten() -> None:
    """Its first start is not counted and not repeated."""
    supervisor = up(RESTART_ALL, a=ChildRecord())
    supervisor.add("b", ChildRecord(PERMANENT))
    assert supervisor.on_exited("b", 1, BOOM, 0) == [ReportEnded("b", 1, BOOM)]
    assert states(supervisor) == {"a": "up"}
    assert supervisor.restarts == ()


def test_a_child_that_cannot_be_added() -> None:
    """A name stands for one child, and an end is an end."""
    supervisor = up(a=ChildRecord())
    assert supervisor.add("a", ChildRecord()) == ChildRefused(
        "a cannot be added: remove the child of this name first"
    )
    supervisor.stop(0)
    assert supervisor.add("b", ChildRecord()) == ChildRefused(
        "b cannot be added: its supervisor is ending"
    )


def test_a_terminated_child_keeps_its_place() -> None:
    """It counts nothing, and the restart of its group brings it back."""
    supervisor = up(RESTART_ALL, a=ChildRecord(), b=ChildRecord())
    assert supervisor.terminate("b", 1) == [StopChild("b", 1, 5001), WakeAt(5001)]
    assert supervisor.terminate("b", 2) == []
    assert supervisor.on_exited("b", 1, SHUTDOWN, 3) == []
    assert states(supervisor) == {"a": "up", "b": "down"}
    assert supervisor.on_exited("a", 1, BOOM, 4) == [StartChild("a", 2)]
    assert supervisor.on_started("a", 2, 5) == [StartChild("b", 2)]


def test_a_removed_child_is_forgotten() -> None:
    """At once if it is down, else when it has stopped."""
    supervisor = up(a=ChildRecord(PERMANENT), b=ChildRecord())
    supervisor.on_exited("b", 1, NORMAL, 0)
    assert supervisor.remove("b", 0) == []
    assert states(supervisor) == {"a": "up"}
    supervisor.remove("a", 0)
    assert supervisor.on_exited("a", 1, SHUTDOWN, 1) == [ReportEnded("a", 1, SHUTDOWN)]
    assert supervisor.children == {}
    assert supervisor.remove("a", 2) == supervisor.terminate("a", 2) == []


def test_a_child_that_waits_can_be_terminated() -> None:
    """Its next attempt is called off."""
    supervisor = up(RestartRule(backoff=Backoff(100)), a=ChildRecord())
    supervisor.on_exited("a", 1, BOOM, 0)
    assert supervisor.terminate("a", 1) == []
    assert states(supervisor) == {"a": "down"}
    assert supervisor.on_timer(100) == []


def test_a_child_terminated_before_its_turn_is_not_started() -> None:
    """Nor does the opening wait for one that is stopped while it starts."""
    supervisor = SupervisorMachine(
        children={"a": ChildRecord(), "b": ChildRecord(), "c": ChildRecord(TEMPORARY)}
    )
    supervisor.start(0)
    assert supervisor.terminate("c", 0) == []
    assert supervisor.terminate("a", 0) == [
        StopChild("a", 1, 5000),
        WakeAt(5000),
        StartChild("b", 1),
    ]
    assert supervisor.on_started("b", 1, 1) == [ReportReady()]
    assert states(supervisor) == {"a": "stopping", "b": "up"}


def test_the_last_one_awaited_may_be_removed() -> None:
    """Then the supervisor is ready without it."""
    supervisor = SupervisorMachine(children={"a": ChildRecord(), "b": ChildRecord()})
    supervisor.start(0)
    assert supervisor.remove("b", 0) == []
    assert supervisor.remove("a", 0) == [StopChild("a", 1, 5000), WakeAt(5000), ReportReady()]
