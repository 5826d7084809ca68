"""The histories can fail: each rule of the supervisor, broken on purpose, makes a difference."""

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.policy.supervision_histories import SupervisorAgainstOtp
from vegakit.policy import (
    Child,
    ChildType,
    ExitKind,
    ExitReason,
    RestartRule,
    Supervisor,
    SupervisorAction,
    WakeAt,
)
from vegakit.policy.supervision import supervisor

ENOUGH = settings(
    max_examples=2000,
    stateful_step_count=25,
    phases=[Phase.generate],
    report_multiple_bugs=False,
)

attempt, wait, mark_to_go = Supervisor._attempt, Supervisor._wait, Supervisor._mark_to_go


def exclusive_window(rule: RestartRule, restarts: tuple[int, ...], now: int) -> tuple[int, ...]:
    return tuple(at for at in restarts if at > now - rule.window_ms)


def window_that_starts_anew(
    rule: RestartRule, restarts: tuple[int, ...], now: int
) -> tuple[int, ...]:
    return restarts if restarts and now - restarts[0] <= rule.window_ms else ()


def count_for_ever(rule: RestartRule, restarts: tuple[int, ...], now: int) -> tuple[int, ...]:
    return restarts


def count_per_child(
    self: Supervisor, name: str, child: Child, cause: ExitReason, now: int
) -> list[SupervisorAction]:
    counted, self.restarts = self.restarts, (now,) * (child.generation - 1)
    said = attempt(self, name, child, cause, now)
    self.restarts = (*self.rule.recent(counted, now), now)
    return said


def count_each_of_the_group(
    self: Supervisor, name: str, child: Child, cause: ExitReason, now: int
) -> list[SupervisorAction]:
    said = attempt(self, name, child, cause, now)
    if self.plan is not None:
        self.restarts += (now,) * (len(self.plan.starts) - 1)
    return said


def count_when_scheduled(
    self: Supervisor, name: str, child: Child, cause: ExitReason, now: int, draw: float
) -> list[SupervisorAction]:
    self.restarts += (now,)
    return wait(self, name, child, cause, now, draw)


def stop_the_first_first(self: Supervisor, group: list[str]) -> list[str]:
    return mark_to_go(self, group)[::-1]


def any_life(self: Supervisor, name: str, generation: int) -> Child | None:
    child = self.children.get(name)
    return child if child is not None and child.is_alive else None


def never_restarted(kind: ChildType, reason: ExitReason) -> bool:
    return False


def restart_what_finished(kind: ChildType, reason: ExitReason) -> bool:
    return True


def nobody_is_temporary(self: Supervisor, child: Child) -> bool:
    return child.type is ChildType.TEMPORARY and child.generation == 0


@property
def shutdown_for_a_reason_is_abnormal(reason: ExitReason) -> bool:
    return reason.kind is not ExitKind.NORMAL and str(reason) != "shutdown"


def give_up_with_shutdown(cause: ExitReason) -> ExitReason:
    return ExitReason(ExitKind.SHUTDOWN)


def no_deadlines(self: Supervisor, name: str, due: supervisor.Due) -> list[SupervisorAction]:
    return [WakeAt(due.at_ms)]


def restart_only_the_failed(self: Supervisor, name: str) -> None:
    self.plan = supervisor.Plan(starts=[name])


FAULTS: list[tuple[object, str, object]] = [
    (RestartRule, "recent", exclusive_window),
    (RestartRule, "recent", window_that_starts_anew),
    (RestartRule, "recent", count_for_ever),
    (Supervisor, "_attempt", count_per_child),
    (Supervisor, "_attempt", count_each_of_the_group),
    (Supervisor, "_wait", count_when_scheduled),
    (Supervisor, "_mark_to_go", stop_the_first_first),
    (Supervisor, "_life", any_life),
    (ChildType, "needs_restart", never_restarted),
    (ChildType, "needs_restart", restart_what_finished),
    (Supervisor, "_is_temporary", nobody_is_temporary),
    (ExitReason, "is_abnormal", shutdown_for_a_reason_is_abnormal),
    (supervisor, "escalated", give_up_with_shutdown),
    (Supervisor, "_set_due", no_deadlines),
    (Supervisor, "_restart_group", restart_only_the_failed),
]


@pytest.mark.parametrize(
    ("owner", "name", "fault"), FAULTS, ids=[getattr(f[2], "__name__", f[1]) for f in FAULTS]
)
def test_a_planted_fault_is_found(
    owner: object, name: str, fault: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within two thousand histories, most within twenty."""
    monkeypatch.setattr(owner, name, fault)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(SupervisorAgainstOtp, settings=ENOUGH)
