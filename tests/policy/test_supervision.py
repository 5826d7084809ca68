"""The supervisor's table, row by row, with a host that answers when the test says so."""

from msgspec import json

from tests.policy.supervisors import (
    BOOM,
    ESCALATED,
    NORMAL,
    PERMANENT,
    SHUTDOWN,
    TEMPORARY,
    states,
    up,
)
from vegakit.policy import (
    Backoff,
    ChildRecord,
    ChildState,
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
    SupervisorAction,
    SupervisorMachine,
    WakeAt,
)
from vegakit.records import from_json, to_json


def test_children_start_one_after_the_other() -> None:
    """The next one starts when the one before is up; then the supervisor is ready."""
    supervisor = SupervisorMachine(children={"a": ChildRecord(), "b": ChildRecord()})
    assert supervisor.start(0) == [StartChild("a", 1)]
    assert supervisor.on_started("a", 1, 1) == [StartChild("b", 1)]
    assert supervisor.on_started("b", 1, 2) == [ReportReady()]
    assert states(supervisor) == {"a": "up", "b": "up"}


def test_a_supervisor_without_children_is_ready() -> None:
    """Agents are spawned later."""
    assert SupervisorMachine().start(0) == [ReportReady()]


def test_a_failed_first_start_fails_the_opening() -> None:
    """It is not counted; what was started is stopped; the cause is told."""
    supervisor = SupervisorMachine(
        children={"a": ChildRecord(), "b": ChildRecord(), "c": ChildRecord()}
    )
    supervisor.start(0)
    supervisor.on_started("a", 1, 0)
    assert supervisor.on_exited("b", 1, BOOM, 7) == [StopChild("a", 1, 5007), WakeAt(5007)]
    assert supervisor.on_exited("a", 1, SHUTDOWN, 8) == [ExitSupervisor(ESCALATED)]
    assert supervisor.restarts == ()
    assert supervisor.children == {}


def test_an_exit_before_the_start_is_a_failed_start() -> None:
    """Also a normal one: it never came up."""
    supervisor = SupervisorMachine(children={"a": ChildRecord()})
    supervisor.start(0)
    escalated = ExitReason(ExitKind.ESCALATED, "normal")
    assert supervisor.on_exited("a", 1, NORMAL, 0) == [ExitSupervisor(escalated)]


def test_a_crash_while_opening_is_restarted_at_once() -> None:
    """The opening goes on beside it."""
    supervisor = SupervisorMachine(children={"a": ChildRecord(), "b": ChildRecord()})
    supervisor.start(0)
    supervisor.on_started("a", 1, 0)
    assert supervisor.on_exited("a", 1, BOOM, 1) == [StartChild("a", 2)]
    assert supervisor.on_exited("a", 2, BOOM, 1) == [WakeAt(1)]
    assert supervisor.on_started("b", 1, 1) == [ReportReady()]
    assert supervisor.on_timer(1) == [StartChild("a", 3)]


def test_a_failure_restarts_with_the_next_generation() -> None:
    """The attempt is made at once and counted at its time."""
    supervisor = up(a=ChildRecord())
    assert supervisor.on_exited("a", 1, BOOM, 50) == [StartChild("a", 2)]
    assert supervisor.restarts == (50,)
    assert supervisor.on_started("a", 2, 51) == []


def test_a_finished_child_stays_down() -> None:
    """Finishing is not failing, unless it was declared permanent."""
    supervisor = up(a=ChildRecord(), b=ChildRecord(PERMANENT))
    assert supervisor.on_exited("a", 1, NORMAL, 0) == [ReportEnded("a", 1, NORMAL)]
    assert supervisor.on_exited("b", 1, NORMAL, 0) == [StartChild("b", 2)]
    assert states(supervisor) == {"a": "down", "b": "starting"}


def test_a_temporary_child_is_forgotten() -> None:
    """Whatever it ends of, it never counts."""
    supervisor = up(a=ChildRecord(TEMPORARY))
    assert supervisor.on_exited("a", 1, BOOM, 0) == [ReportEnded("a", 1, BOOM)]
    assert supervisor.children == {}
    assert supervisor.restarts == ()


def test_stop_makes_every_child_temporary() -> None:
    """Reported and forgotten, permanent or not."""
    supervisor = up(RestartRule(RestartStrategy.STOP), a=ChildRecord(PERMANENT), b=ChildRecord())
    assert supervisor.on_exited("a", 1, BOOM, 0) == [ReportEnded("a", 1, BOOM)]
    assert states(supervisor) == {"b": "up"}


def test_escalate_ends_at_the_first_failure() -> None:
    """Siblings are stopped first; the parent hears an abnormal reason."""
    supervisor = up(
        RestartRule(RestartStrategy.ESCALATE), a=ChildRecord(), b=ChildRecord(stop_within_ms=9)
    )
    assert supervisor.on_exited("a", 1, BOOM, 1) == [StopChild("b", 1, 10), WakeAt(10)]
    assert supervisor.on_exited("b", 1, SHUTDOWN, 2) == [ExitSupervisor(ESCALATED)]


def test_too_many_restarts_give_up() -> None:
    """One is allowed: the second failure within the window is one too many, and the last word."""
    supervisor = up(RestartRule(max_restarts=1, window_ms=100), a=ChildRecord())
    supervisor.on_exited("a", 1, BOOM, 0)
    supervisor.on_started("a", 2, 0)
    assert supervisor.on_exited("a", 2, BOOM, 100) == [ExitSupervisor(ESCALATED)]
    assert supervisor.stop(101) == []


def test_old_restarts_are_forgotten() -> None:
    """A restart per window goes on for ever and keeps one stamp."""
    supervisor = up(RestartRule(max_restarts=1, window_ms=100), a=ChildRecord())
    for life in range(1, 6):
        assert supervisor.on_exited("a", life, BOOM, life * 101) == [StartChild("a", life + 1)]
        supervisor.on_started("a", life + 1, life * 101)
    assert supervisor.restarts == (505,)


def test_a_failed_restart_is_tried_again_through_the_host() -> None:
    """So that a stop can come between; each attempt counts when it is made."""
    supervisor = up(RestartRule(max_restarts=2), a=ChildRecord(), b=ChildRecord())
    supervisor.on_exited("a", 1, BOOM, 5)
    assert supervisor.on_exited("a", 2, BOOM, 6) == [WakeAt(6)]
    assert supervisor.restarts == (5,)
    assert supervisor.on_timer(6) == [StartChild("a", 3)]
    assert supervisor.restarts == (5, 6)
    supervisor.on_exited("a", 3, BOOM, 7)
    assert supervisor.on_timer(8) == [StopChild("b", 1, 5008), WakeAt(5008)]
    assert supervisor.on_exited("b", 1, SHUTDOWN, 9) == [ExitSupervisor(ESCALATED)]


def test_a_stop_between_two_attempts_wins() -> None:
    """Nothing is started any more."""
    supervisor = up(a=ChildRecord())
    supervisor.on_exited("a", 1, BOOM, 5)
    supervisor.on_exited("a", 2, BOOM, 6)
    assert supervisor.stop(6) == [ExitSupervisor(SHUTDOWN)]
    assert supervisor.on_timer(6) == []


def test_backoff_waits_longer_with_each_restart() -> None:
    """The wait is drawn, and the attempt is counted at its end."""
    supervisor = up(RestartRule(backoff=Backoff(100, 2.0, 5_000)), a=ChildRecord())
    assert supervisor.on_exited("a", 1, BOOM, 10, 0.5) == [WakeAt(60)]
    assert supervisor.restarts == ()
    assert supervisor.on_timer(59) == []
    assert supervisor.on_timer(60) == [StartChild("a", 2)]
    assert supervisor.restarts == (60,)
    assert supervisor.on_exited("a", 2, BOOM, 70) == [WakeAt(270)]
    assert supervisor.on_timer(270) == [StartChild("a", 3)]
    supervisor.on_started("a", 3, 280)
    assert supervisor.on_exited("a", 3, BOOM, 300) == [WakeAt(700)]


def test_the_earliest_attempt_comes_first() -> None:
    """A late host makes both, in the order they were due; each counts."""
    supervisor = up(RestartRule(backoff=Backoff(100)), a=ChildRecord(), b=ChildRecord())
    supervisor.on_exited("a", 1, BOOM, 0, 1.0)
    supervisor.on_exited("b", 1, BOOM, 0, 0.5)
    assert supervisor.on_timer(200) == [StartChild("b", 2), StartChild("a", 2)]
    assert supervisor.restarts == (200, 200)
    assert supervisor.due is None


def test_an_attempt_for_the_group_takes_waiting_siblings_along() -> None:
    """They are started with it and count nothing of their own."""
    rule = RestartRule(RestartStrategy.RESTART_ALL, backoff=Backoff(100))
    supervisor = up(rule, a=ChildRecord(), b=ChildRecord())
    supervisor.on_exited("a", 1, BOOM, 0)
    supervisor.on_exited("b", 1, BOOM, 0)
    assert supervisor.on_timer(100) == [StartChild("a", 2)]
    assert supervisor.on_started("a", 2, 100) == [StartChild("b", 2)]
    assert supervisor.restarts == (100,)
    assert supervisor.due is None


def test_an_old_life_is_not_heard() -> None:
    """Neither its late start nor its late end touches the new one."""
    supervisor = up(a=ChildRecord())
    supervisor.on_exited("a", 1, BOOM, 0)
    assert supervisor.on_started("a", 1, 1) == []
    assert supervisor.on_exited("a", 1, BOOM, 1) == []
    assert supervisor.on_exited("a", 1, BOOM, 1) == []
    assert states(supervisor) == {"a": "starting"}
    assert supervisor.on_started("nobody", 1, 1) == supervisor.on_exited("nobody", 1, BOOM, 1) == []


def test_the_same_end_twice_is_one_end() -> None:
    """Down or waiting, its life is over."""
    supervisor = up(RestartRule(backoff=Backoff(100)), a=ChildRecord(), b=ChildRecord())
    supervisor.on_exited("a", 1, NORMAL, 0)
    supervisor.on_exited("b", 1, BOOM, 0)
    assert supervisor.on_exited("a", 1, BOOM, 1) == supervisor.on_exited("b", 1, BOOM, 1) == []
    assert states(supervisor) == {"a": "down", "b": "waiting"}


def test_actions_are_values() -> None:
    """Equal ones are one, and each comes back from JSON as what it was."""
    actions = [
        StartChild("a", 1),
        StopChild("a", 1, None),
        KillChild("a", 1),
        WakeAt(5),
        ReportEnded("a", 1, BOOM),
        ReportReady(),
        ExitSupervisor(BOOM),
    ]
    assert len({*actions, *actions}) == len(actions)
    assert json.decode(to_json(actions), type=list[SupervisorAction]) == actions


def test_a_private_supervisor_is_small() -> None:
    """At rest it holds its child's name and life, and no empty container."""
    supervisor = SupervisorMachine(children={"agent": ChildRecord()})
    supervisor.start(0)
    supervisor.on_started("agent", 1, 0)
    assert to_json(supervisor) == b'{"children":{"agent":{"generation":1,"state":"up"}}}'
    assert from_json(SupervisorMachine, to_json(supervisor)) == supervisor
    assert supervisor.plan is supervisor.due is supervisor.ending is None


def test_work_under_way_is_stored_small_too() -> None:
    """A plan says what is left of it, a deadline has no cause."""
    supervisor = up(a=ChildRecord(), b=ChildRecord())
    supervisor.stop(0)
    assert to_json(supervisor.plan) == b'{"stops":["a","b"]}'
    assert to_json(supervisor.due) == b'{"b":{"at_ms":5000}}'


def test_a_child_s_state_is_stored_by_name() -> None:
    """Stored states are read again by the next release."""
    assert [state.value for state in ChildState] == [state.name.lower() for state in ChildState]
