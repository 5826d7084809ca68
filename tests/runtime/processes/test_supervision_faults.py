"""The comparison of real processes with the model can fail: each fault makes a difference."""

import asyncio

import pytest

from tests.runtime.processes.supervision_oracle import Tie
from tests.runtime.processes.test_supervision_properties import History
from vegakit.host import LocalHost
from vegakit.policy import ChildType, ExitKind, ExitReason, RestartRule, SupervisorMachine
from vegakit.program import ProcessRecord
from vegakit.program.processes import Incarnations, Supervisors
from vegakit.testing import run_virtual

ENOUGH_S = 7_200
"""Of virtual time."""

_carry_out, _end_incarnation = Supervisors._carry_out, Incarnations._end_incarnation
_mark_to_go = SupervisorMachine._mark_to_go


def takes_the_latest_order(self: Supervisors) -> None:
    key, order = self._orders.pop()
    if key in self._core.state.supervisors:
        _carry_out(self, key, order)


def forgets_why_it_ended(
    self: Incarnations, path: str, process: ProcessRecord, reason: ExitReason
) -> None:
    _end_incarnation(self, path, process, ExitReason(ExitKind.CRASHED))


def kills_nobody(self: Supervisors, key: str, name: str) -> None:
    pass


def stops_the_first_first(self: SupervisorMachine, group: list[str]) -> list[str]:
    return _mark_to_go(self, group)[::-1]


def counts_for_ever(rule: RestartRule, restarts: tuple[int, ...], now: int) -> tuple[int, ...]:
    return restarts


def restarts_what_finished(kind: ChildType, reason: ExitReason) -> bool:
    return True


def cancels_nothing(self: LocalHost, key: str, *, late: bool = False) -> None:
    pass


FAULTS: list[tuple[object, str, object]] = [
    (Supervisors, "carry_out_next", takes_the_latest_order),
    (Supervisors, "_kill_child", kills_nobody),
    (Incarnations, "_end_incarnation", forgets_why_it_ended),
    (SupervisorMachine, "_mark_to_go", stops_the_first_first),
    (RestartRule, "recent", counts_for_ever),
    (ChildType, "needs_restart", restarts_what_finished),
    (LocalHost, "cancel", cancels_nothing),
]


@pytest.mark.parametrize(
    ("owner", "name", "fault"), FAULTS, ids=[getattr(f[2], "__name__", f[1]) for f in FAULTS]
)
def test_a_planted_fault_is_found(
    owner: object, name: str, fault: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within two hundred histories."""
    monkeypatch.setattr(owner, name, fault)
    found = 0
    for seed in range(200):
        try:
            run_virtual(asyncio.wait_for(History(seed).live(), ENOUGH_S))
        except Tie:
            continue
        except (AssertionError, TimeoutError):
            found = seed
            break
    else:
        pytest.fail("no history shows it")
    print(f"found by history {found}")
