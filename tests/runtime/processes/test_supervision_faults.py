"""The comparison of real processes with the model can fail: each fault makes a difference."""

import asyncio

import pytest

from tests.runtime.processes.supervision_oracle import Tie
from tests.runtime.processes.test_supervision_properties import History
from vegakit.policy import ChildType, ExitKind, ExitReason, RestartRule, Supervisor
from vegakit.program.families import Families
from vegakit.program.lives import Lives
from vegakit.program.state import Process
from vegakit.runtime.processes import LocalHost
from vegakit.testing.simulation import run_virtual

ENOUGH_S = 7_200
"""Of virtual time."""

_carry_out, _end_life = Families._carry_out, Lives._end_life
_mark_to_go = Supervisor._mark_to_go


def takes_the_latest_order(self: Families) -> None:
    key, order = self._orders.pop()
    if key in self._core.state.families:
        _carry_out(self, key, order)


def forgets_why_it_ended(self: Lives, path: str, process: Process, reason: ExitReason) -> None:
    _end_life(self, path, process, ExitReason(ExitKind.CRASHED))


def kills_nobody(self: Families, key: str, name: str) -> None:
    pass


def stops_the_first_first(self: Supervisor, group: list[str]) -> list[str]:
    return _mark_to_go(self, group)[::-1]


def counts_for_ever(rule: RestartRule, restarts: tuple[int, ...], now: int) -> tuple[int, ...]:
    return restarts


def restarts_what_finished(kind: ChildType, reason: ExitReason) -> bool:
    return True


def cancels_nothing(self: LocalHost, key: str, *, late: bool = False) -> None:
    pass


FAULTS: list[tuple[object, str, object]] = [
    (Families, "carry_out_next", takes_the_latest_order),
    (Families, "_kill_child", kills_nobody),
    (Lives, "_end_life", forgets_why_it_ended),
    (Supervisor, "_mark_to_go", stops_the_first_first),
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
