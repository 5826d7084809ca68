"""The supervisor's table, row by row, with a host that answers when the test says so."""

from vegakit.policy import (
    Backoff,
    Child,
    ChildRefused,
    ChildState,
    ChildType,
    ExitKind,
    ExitReason,
    ExitSupervisor,
    KillChild,
    ReportEnded,
    ReportReady,
    RestartRule,
    RestartStrategy,
    StartChild,
    StopChild,
    Supervisor,
    WakeAt,
)
from vegakit.records import from_json, to_json

BOOM = ExitReason(ExitKind.CRASHED, "boom")
NORMAL = ExitReason(ExitKind.NORMAL)
SHUTDOWN = ExitReason(ExitKind.SHUTDOWN)
ESCALATED = ExitReason(ExitKind.ESCALATED, "crashed(boom)")
PERMANENT, TEMPORARY = ChildType.PERMANENT, ChildType.TEMPORARY
RESTART_ALL = RestartRule(RestartStrategy.RESTART_ALL)
REST_FOR_ONE = RestartRule(RestartStrategy.REST_FOR_ONE)


def up(rule: RestartRule | None = None, **children: Child) -> Supervisor:
    """All children were started at 0."""
    supervisor = Supervisor(rule or RestartRule(), children)
    supervisor.start(0)
    for name in list(children):
        supervisor.on_started(name, 1, 0)
    return supervisor


def states(supervisor: Supervisor) -> dict[str, str]:
    return {name: child.state.value for name, child in supervisor.children.items()}


# opening


def test_children_start_one_after_the_other() -> None:
    """The next one starts when the one before is up; then the supervisor is ready."""
    supervisor = Supervisor(children={"a": Child(), "b": Child()})
    assert supervisor.start(0) == [StartChild("a", 1)]
    assert supervisor.on_started("a", 1, 1) == [StartChild("b", 1)]
    assert supervisor.on_started("b", 1, 2) == [ReportReady()]
    assert states(supervisor) == {"a": "up", "b": "up"}


def test_a_supervisor_without_children_is_ready() -> None:
    """Agents are spawned later."""
    assert Supervisor().start(0) == [ReportReady()]


def test_a_failed_first_start_fails_the_opening() -> None:
    """It is not counted; what was started is stopped; the cause is told."""
    supervisor = Supervisor(children={"a": Child(), "b": Child(), "c": Child()})
    supervisor.start(0)
    supervisor.on_started("a", 1, 0)
    assert supervisor.on_start_failed("b", 1, BOOM, 7) == [StopChild("a", 1, 5007), WakeAt(5007)]
    assert supervisor.on_exited("a", 1, SHUTDOWN, 8) == [ExitSupervisor(ESCALATED)]
    assert supervisor.restarts == ()
    assert supervisor.children == {}


def test_an_exit_before_the_start_is_a_failed_start() -> None:
    """Also a normal one: it never came up."""
    supervisor = Supervisor(children={"a": Child()})
    supervisor.start(0)
    escalated = ExitReason(ExitKind.ESCALATED, "normal")
    assert supervisor.on_exited("a", 1, NORMAL, 0) == [ExitSupervisor(escalated)]


def test_a_crash_while_opening_is_restarted_at_once() -> None:
    """The opening goes on beside it."""
    supervisor = Supervisor(children={"a": Child(), "b": Child()})
    supervisor.start(0)
    supervisor.on_started("a", 1, 0)
    assert supervisor.on_exited("a", 1, BOOM, 1) == [StartChild("a", 2)]
    assert supervisor.on_exited("a", 2, BOOM, 1) == [WakeAt(1)]
    assert supervisor.on_started("b", 1, 1) == [ReportReady()]
    assert supervisor.on_timer(1) == [StartChild("a", 3)]


# ends of children


def test_a_failure_restarts_with_the_next_generation() -> None:
    """The attempt is made at once and counted at its time."""
    supervisor = up(a=Child())
    assert supervisor.on_exited("a", 1, BOOM, 50) == [StartChild("a", 2)]
    assert supervisor.restarts == (50,)
    assert supervisor.on_started("a", 2, 51) == []


def test_a_finished_child_stays_down() -> None:
    """Finishing is not failing, unless it was declared permanent."""
    supervisor = up(a=Child(), b=Child(PERMANENT))
    assert supervisor.on_exited("a", 1, NORMAL, 0) == [ReportEnded("a", 1, NORMAL)]
    assert supervisor.on_exited("b", 1, NORMAL, 0) == [StartChild("b", 2)]
    assert states(supervisor) == {"a": "down", "b": "starting"}


def test_a_temporary_child_is_forgotten() -> None:
    """Whatever it ends of, it never counts."""
    supervisor = up(a=Child(TEMPORARY))
    assert supervisor.on_exited("a", 1, BOOM, 0) == [ReportEnded("a", 1, BOOM)]
    assert supervisor.children == {}
    assert supervisor.restarts == ()


def test_stop_makes_every_child_temporary() -> None:
    """Reported and forgotten, permanent or not."""
    supervisor = up(RestartRule(RestartStrategy.STOP), a=Child(PERMANENT), b=Child())
    assert supervisor.on_exited("a", 1, BOOM, 0) == [ReportEnded("a", 1, BOOM)]
    assert states(supervisor) == {"b": "up"}


def test_escalate_ends_at_the_first_failure() -> None:
    """Siblings are stopped first; the parent hears an abnormal reason."""
    supervisor = up(RestartRule(RestartStrategy.ESCALATE), a=Child(), b=Child(stop_within_ms=9))
    assert supervisor.on_exited("a", 1, BOOM, 1) == [StopChild("b", 1, 10), WakeAt(10)]
    assert supervisor.on_exited("b", 1, SHUTDOWN, 2) == [ExitSupervisor(ESCALATED)]


def test_too_many_restarts_give_up() -> None:
    """One is allowed: the second failure within the window is one too many, and the last word."""
    supervisor = up(RestartRule(max_restarts=1, window_ms=100), a=Child())
    supervisor.on_exited("a", 1, BOOM, 0)
    supervisor.on_started("a", 2, 0)
    assert supervisor.on_exited("a", 2, BOOM, 100) == [ExitSupervisor(ESCALATED)]
    assert supervisor.stop(101) == []


def test_old_restarts_are_forgotten() -> None:
    """A restart per window goes on for ever and keeps one stamp."""
    supervisor = up(RestartRule(max_restarts=1, window_ms=100), a=Child())
    for life in range(1, 6):
        assert supervisor.on_exited("a", life, BOOM, life * 101) == [StartChild("a", life + 1)]
        supervisor.on_started("a", life + 1, life * 101)
    assert supervisor.restarts == (505,)


# attempts that fail, and backoff


def test_a_failed_restart_is_tried_again_through_the_host() -> None:
    """So that a stop can come between; each attempt counts when it is made."""
    supervisor = up(RestartRule(max_restarts=2), a=Child())
    supervisor.on_exited("a", 1, BOOM, 5)
    assert supervisor.on_start_failed("a", 2, BOOM, 6) == [WakeAt(6)]
    assert supervisor.restarts == (5,)
    assert supervisor.on_timer(6) == [StartChild("a", 3)]
    assert supervisor.restarts == (5, 6)
    supervisor.on_start_failed("a", 3, BOOM, 7)
    assert supervisor.on_timer(8) == [ExitSupervisor(ESCALATED)]


def test_a_stop_between_two_attempts_wins() -> None:
    """Nothing is started any more."""
    supervisor = up(a=Child())
    supervisor.on_exited("a", 1, BOOM, 5)
    supervisor.on_start_failed("a", 2, BOOM, 6)
    assert supervisor.stop(6) == [ExitSupervisor(SHUTDOWN)]
    assert supervisor.on_timer(6) == []


def test_backoff_waits_longer_with_each_restart() -> None:
    """The wait is drawn, and the attempt is counted at its end."""
    supervisor = up(RestartRule(backoff=Backoff(100, 2.0, 5_000)), a=Child())
    assert supervisor.on_exited("a", 1, BOOM, 10, 0.5) == [WakeAt(60)]
    assert supervisor.restarts == ()
    assert supervisor.on_timer(59) == []
    assert supervisor.on_timer(60) == [StartChild("a", 2)]
    assert supervisor.restarts == (60,)
    assert supervisor.on_start_failed("a", 2, BOOM, 70, 1.0) == [WakeAt(270)]
    assert supervisor.on_timer(270) == [StartChild("a", 3)]
    supervisor.on_started("a", 3, 280)
    assert supervisor.on_exited("a", 3, BOOM, 300) == [WakeAt(700)]


def test_the_earliest_attempt_comes_first() -> None:
    """A late host makes both, in the order they were due; each counts."""
    supervisor = up(RestartRule(backoff=Backoff(100)), a=Child(), b=Child())
    supervisor.on_exited("a", 1, BOOM, 0, 1.0)
    supervisor.on_exited("b", 1, BOOM, 0, 0.5)
    assert supervisor.on_timer(200) == [StartChild("b", 2), StartChild("a", 2)]
    assert supervisor.restarts == (200, 200)
    assert supervisor.due is None


def test_an_attempt_for_the_group_takes_waiting_siblings_along() -> None:
    """They are started with it and count nothing of their own."""
    rule = RestartRule(RestartStrategy.RESTART_ALL, backoff=Backoff(100))
    supervisor = up(rule, a=Child(), b=Child())
    supervisor.on_exited("a", 1, BOOM, 0)
    supervisor.on_exited("b", 1, BOOM, 0)
    assert supervisor.on_timer(100) == [StartChild("a", 2)]
    assert supervisor.on_started("a", 2, 100) == [StartChild("b", 2)]
    assert supervisor.restarts == (100,)
    assert supervisor.due is None


# groups


def test_restart_all_waits_for_each_stop() -> None:
    """Last started, first stopped; then all start, first first; it counts one."""
    supervisor = up(RESTART_ALL, a=Child(), b=Child(), c=Child())
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
    supervisor = up(REST_FOR_ONE, a=Child(), b=Child(), c=Child())
    assert supervisor.on_exited("b", 1, BOOM, 1) == [StopChild("c", 1, 5001), WakeAt(5001)]
    assert supervisor.on_exited("c", 1, SHUTDOWN, 2) == [StartChild("b", 2)]
    assert states(supervisor) == {"a": "up", "b": "starting", "c": "down"}


def test_a_temporary_child_taken_along_is_forgotten() -> None:
    """It is stopped with its group, reported, and not started again."""
    supervisor = up(RESTART_ALL, a=Child(), b=Child(TEMPORARY))
    supervisor.on_exited("a", 1, BOOM, 1)
    assert supervisor.on_exited("b", 1, SHUTDOWN, 2) == [
        ReportEnded("b", 1, SHUTDOWN),
        StartChild("a", 2),
    ]
    assert supervisor.on_started("a", 2, 3) == []
    assert states(supervisor) == {"a": "up"}


def test_a_crash_of_one_that_has_to_go_counts_nothing() -> None:
    """Neither while it waits for its turn nor after it was asked."""
    supervisor = up(RESTART_ALL, a=Child(), b=Child(), c=Child())
    supervisor.on_exited("a", 1, BOOM, 1)
    assert supervisor.on_exited("b", 1, BOOM, 2) == []
    assert supervisor.on_exited("c", 1, BOOM, 3) == [StartChild("a", 2)]
    assert supervisor.restarts == (1,)


def test_a_failure_meanwhile_widens_the_group() -> None:
    """While b starts again, a fails before it: b is stopped, then both start; that is two."""
    supervisor = up(REST_FOR_ONE, a=Child(), b=Child(stop_within_ms=None))
    assert supervisor.on_exited("b", 1, BOOM, 1) == [StartChild("b", 2)]
    assert supervisor.on_exited("a", 1, BOOM, 2) == [StopChild("b", 2, None)]
    assert supervisor.on_started("b", 2, 3) == []
    assert supervisor.on_exited("b", 2, SHUTDOWN, 4) == [StartChild("a", 2)]
    assert supervisor.on_started("a", 2, 5) == [StartChild("b", 3)]
    assert supervisor.restarts == (1, 2)


def test_a_start_that_fails_in_a_group_leaves_the_rest_down() -> None:
    """Those before stay up; the next attempt takes the group from the failed one."""
    supervisor = up(REST_FOR_ONE, a=Child(), b=Child(), c=Child())
    supervisor.on_exited("b", 1, BOOM, 1)
    supervisor.on_exited("c", 1, SHUTDOWN, 1)
    assert supervisor.on_start_failed("b", 2, BOOM, 2) == [WakeAt(2)]
    assert states(supervisor) == {"a": "up", "b": "waiting", "c": "down"}
    assert supervisor.plan is None
    assert supervisor.on_timer(2) == [StartChild("b", 3)]
    assert supervisor.on_started("b", 3, 3) == [StartChild("c", 2)]


# deadlines


def test_who_does_not_stop_is_killed_once() -> None:
    """At its deadline, not before; then its exit is waited for."""
    supervisor = up(a=Child(stop_within_ms=100), b=Child(stop_within_ms=0))
    assert supervisor.stop(10) == [StopChild("b", 1, 10), WakeAt(10)]
    assert supervisor.on_timer(10) == [KillChild("b", 1)]
    assert supervisor.on_timer(11) == []
    assert supervisor.on_exited("b", 1, BOOM, 12) == [StopChild("a", 1, 112), WakeAt(112)]
    assert supervisor.on_timer(111) == []
    assert supervisor.on_timer(112) == [KillChild("a", 1)]
    assert supervisor.on_exited("a", 1, BOOM, 113) == [ExitSupervisor(SHUTDOWN)]


def test_a_deadline_is_over_when_the_child_is() -> None:
    """The timer of a child that stopped in time does nothing."""
    supervisor = up(a=Child())
    supervisor.terminate("a", 0)
    supervisor.on_exited("a", 1, SHUTDOWN, 1)
    assert supervisor.on_timer(5000) == []
    assert supervisor.due is None


def test_a_supervisor_below_has_all_the_time() -> None:
    """No deadline, no timer."""
    supervisor = up(a=Child(PERMANENT, None))
    assert supervisor.stop(0) == [StopChild("a", 1, None)]
    assert supervisor.on_timer(10**9) == []


def test_a_start_under_way_is_stopped_too() -> None:
    """Nobody waits for it to come up first; if it does, it still has to go."""
    supervisor = Supervisor(children={"a": Child(), "b": Child()})
    supervisor.start(0)
    assert supervisor.stop(1) == [StopChild("a", 1, 5001), WakeAt(5001)]
    assert supervisor.on_started("a", 1, 2) == []
    assert supervisor.on_exited("a", 1, SHUTDOWN, 3) == [ExitSupervisor(SHUTDOWN)]


def test_a_second_stop_changes_nothing() -> None:
    """The first one is under way, for its own reason."""
    supervisor = up(RestartRule(RestartStrategy.ESCALATE), a=Child(), b=Child(), c=Child())
    supervisor.on_exited("a", 1, BOOM, 0)
    assert supervisor.stop(1) == []
    assert supervisor.on_exited("c", 1, SHUTDOWN, 2) == [StopChild("b", 1, 5002), WakeAt(5002)]
    assert supervisor.on_exited("b", 1, SHUTDOWN, 3) == [ExitSupervisor(ESCALATED)]


# children that come and go


def test_a_child_is_added_and_started() -> None:
    """Beside its siblings; it stands last."""
    supervisor = up(a=Child())
    assert supervisor.add("b", Child()) == [StartChild("b", 1)]
    assert supervisor.add("c", Child()) == [StartChild("c", 1)]
    assert list(supervisor.children) == ["a", "b", "c"]


def test_a_child_added_meanwhile_waits_for_its_turn() -> None:
    """A group that is being restarted comes first, then the new ones in their order."""
    supervisor = up(RESTART_ALL, a=Child())
    supervisor.on_exited("a", 1, BOOM, 1)
    assert supervisor.add("b", Child()) == []
    assert supervisor.add("c", Child()) == []
    assert supervisor.on_started("a", 2, 2) == [StartChild("b", 1)]
    assert supervisor.on_started("b", 1, 2) == [StartChild("c", 1)]


def test_an_added_child_that_cannot_start_is_forgotten() -> None:
    """Its first start is not counted and not repeated."""
    supervisor = up(RESTART_ALL, a=Child())
    supervisor.add("b", Child(PERMANENT))
    assert supervisor.on_start_failed("b", 1, BOOM, 0) == [ReportEnded("b", 1, BOOM)]
    assert states(supervisor) == {"a": "up"}
    assert supervisor.restarts == ()


def test_a_child_that_cannot_be_added() -> None:
    """A name stands for one child, and an end is an end."""
    supervisor = up(a=Child())
    assert supervisor.add("a", Child()) == ChildRefused(
        "a cannot be added: remove the child of this name first"
    )
    supervisor.stop(0)
    assert supervisor.add("b", Child()) == ChildRefused(
        "b cannot be added: its supervisor is ending"
    )


def test_a_terminated_child_keeps_its_place() -> None:
    """It counts nothing, and the restart of its group brings it back."""
    supervisor = up(RESTART_ALL, a=Child(), b=Child())
    assert supervisor.terminate("b", 1) == [StopChild("b", 1, 5001), WakeAt(5001)]
    assert supervisor.terminate("b", 2) == []
    assert supervisor.on_exited("b", 1, SHUTDOWN, 3) == []
    assert states(supervisor) == {"a": "up", "b": "down"}
    assert supervisor.on_exited("a", 1, BOOM, 4) == [StartChild("a", 2)]
    assert supervisor.on_started("a", 2, 5) == [StartChild("b", 2)]


def test_a_removed_child_is_forgotten() -> None:
    """At once if it is down, else when it has stopped."""
    supervisor = up(a=Child(PERMANENT), b=Child())
    supervisor.on_exited("b", 1, NORMAL, 0)
    assert supervisor.remove("b", 0) == []
    assert states(supervisor) == {"a": "up"}
    supervisor.remove("a", 0)
    assert supervisor.on_exited("a", 1, SHUTDOWN, 1) == [ReportEnded("a", 1, SHUTDOWN)]
    assert supervisor.children == {}
    assert supervisor.remove("a", 2) == supervisor.terminate("a", 2) == []


def test_a_child_that_waits_can_be_terminated() -> None:
    """Its next attempt is called off."""
    supervisor = up(RestartRule(backoff=Backoff(100)), a=Child())
    supervisor.on_exited("a", 1, BOOM, 0)
    assert supervisor.terminate("a", 1) == []
    assert states(supervisor) == {"a": "down"}
    assert supervisor.on_timer(100) == []


def test_a_child_terminated_before_its_turn_is_not_started() -> None:
    """Nor does the opening wait for one that is stopped while it starts."""
    supervisor = Supervisor(children={"a": Child(), "b": Child(), "c": Child(TEMPORARY)})
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
    supervisor = Supervisor(children={"a": Child(), "b": Child()})
    supervisor.start(0)
    assert supervisor.remove("b", 0) == []
    assert supervisor.remove("a", 0) == [StopChild("a", 1, 5000), WakeAt(5000), ReportReady()]


# lives


def test_an_old_life_is_not_heard() -> None:
    """Neither its late start nor its late end touches the new one."""
    supervisor = up(a=Child())
    supervisor.on_exited("a", 1, BOOM, 0)
    assert supervisor.on_started("a", 1, 1) == []
    assert supervisor.on_exited("a", 1, BOOM, 1) == []
    assert supervisor.on_start_failed("a", 1, BOOM, 1) == []
    assert states(supervisor) == {"a": "starting"}
    assert supervisor.on_started("nobody", 1, 1) == supervisor.on_exited("nobody", 1, BOOM, 1) == []


def test_the_same_end_twice_is_one_end() -> None:
    """Down or waiting, its life is over."""
    supervisor = up(RestartRule(backoff=Backoff(100)), a=Child(), b=Child())
    supervisor.on_exited("a", 1, NORMAL, 0)
    supervisor.on_exited("b", 1, BOOM, 0)
    assert supervisor.on_exited("a", 1, BOOM, 1) == supervisor.on_exited("b", 1, BOOM, 1) == []
    assert states(supervisor) == {"a": "down", "b": "waiting"}


# size


def test_a_private_supervisor_is_small() -> None:
    """At rest it holds its child's name and life, and no empty container."""
    supervisor = Supervisor(children={"agent": Child()})
    supervisor.start(0)
    supervisor.on_started("agent", 1, 0)
    assert to_json(supervisor) == b'{"children":{"agent":{"generation":1,"state":"up"}}}'
    assert from_json(Supervisor, to_json(supervisor)) == supervisor
    assert supervisor.plan is supervisor.due is supervisor.ending is None


def test_a_child_s_state_is_stored_by_name() -> None:
    """Stored states are read again by the next release."""
    assert [state.value for state in ChildState] == [state.name.lower() for state in ChildState]
