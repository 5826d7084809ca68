"""The histories can fail: each rule of the supervisor, broken on purpose, makes a difference."""

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.policy.supervision_histories import SupervisorAgainstOtp
from vegakit.policy import (
    ChildRecord,
    ChildType,
    ExitKind,
    ExitReason,
    RestartRule,
    SupervisorAction,
    SupervisorMachine,
    WakeAt,
    supervision as supervisor,
)

ENOUGH = settings(
    max_examples=2000,
    stateful_step_count=25,
    phases=[Phase.generate],
    report_multiple_bugs=False,
)

attempt, wait, mark_to_go = (
    SupervisorMachine._attempt,
    SupervisorMachine._wait,
    SupervisorMachine._mark_to_go,
)


def exclusive_window(rule: RestartRule, restarts: tuple[int, ...], now: int) -> tuple[int, ...]:
    return tuple(at for at in restarts if at > now - rule.window_ms)


def window_that_starts_anew(
    rule: RestartRule, restarts: tuple[int, ...], now: int
) -> tuple[int, ...]:
    return restarts if restarts and now - restarts[0] <= rule.window_ms else ()


def count_for_ever(rule: RestartRule, restarts: tuple[int, ...], now: int) -> tuple[int, ...]:
    return restarts


def count_per_child(
    self: SupervisorMachine, name: str, child: ChildRecord, cause: ExitReason, now: int
) -> list[SupervisorAction]:
    counted, self.restarts = self.restarts, (now,) * (child.generation - 1)
    said = attempt(self, name, child, cause, now)
    self.restarts = (*self.rule.recent(counted, now), now)
    return said


def count_each_of_the_group(
    self: SupervisorMachine, name: str, child: ChildRecord, cause: ExitReason, now: int
) -> list[SupervisorAction]:
    said = attempt(self, name, child, cause, now)
    if self.plan is not None:
        self.restarts += (now,) * (len(self.plan.starts) - 1)
    return said


def count_when_scheduled(
    self: SupervisorMachine, name: str, child: ChildRecord, cause: ExitReason, now: int, draw: float
) -> list[SupervisorAction]:
    self.restarts += (now,)
    return wait(self, name, child, cause, now, draw)


def stop_the_first_first(self: SupervisorMachine, group: list[str]) -> list[str]:
    return mark_to_go(self, group)[::-1]


def any_life(self: SupervisorMachine, name: str, generation: int) -> ChildRecord | None:
    child = self.children.get(name)
    return child if child is not None and child.is_alive else None


def never_restarted(kind: ChildType, reason: ExitReason) -> bool:
    return False


def restart_what_finished(kind: ChildType, reason: ExitReason) -> bool:
    return True


def nobody_is_temporary(self: SupervisorMachine, child: ChildRecord) -> bool:
    return child.type is ChildType.TEMPORARY and child.generation == 0


@property
def shutdown_for_a_reason_is_abnormal(reason: ExitReason) -> bool:
    return reason.kind is not ExitKind.NORMAL and str(reason) != "shutdown"


def give_up_with_shutdown(cause: ExitReason) -> ExitReason:
    return ExitReason(ExitKind.SHUTDOWN)


def no_deadlines(self: SupervisorMachine, name: str, due: supervisor.Due) -> list[SupervisorAction]:
    return [WakeAt(due.at_ms)]


def restart_only_the_failed(self: SupervisorMachine, name: str) -> None:
    self.plan = supervisor.Plan(starts=[name])


FAULTS: list[tuple[object, str, object]] = [
    (RestartRule, "recent", exclusive_window),
    (RestartRule, "recent", window_that_starts_anew),
    (RestartRule, "recent", count_for_ever),
    (SupervisorMachine, "_attempt", count_per_child),
    (SupervisorMachine, "_attempt", count_each_of_the_group),
    (SupervisorMachine, "_wait", count_when_scheduled),
    (SupervisorMachine, "_mark_to_go", stop_the_first_first),
    (SupervisorMachine, "_current_child", any_life),
    (ChildType, "needs_restart", never_restarted),
    (ChildType, "needs_restart", restart_what_finished),
    (SupervisorMachine, "_is_temporary", nobody_is_temporary),
    (ExitReason, "is_abnormal", shutdown_for_a_reason_is_abnormal),
    (supervisor, "escalated", give_up_with_shutdown),
    (SupervisorMachine, "_set_due", no_deadlines),
    (SupervisorMachine, "_restart_group", restart_only_the_failed),
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
