"""The simulation can fail: each fault planted in the runtime breaks an invariant it names."""

import random
from typing import Any

import pytest
from campaigns import simulation_invariants as watching, simulation_workload as world
from campaigns.simulation import run_seeds
from msgspec import structs

from vegakit.events import EffectOutcome
from vegakit.host import LocalHost, Questions
from vegakit.ids import EffectKey
from vegakit.money import Money
from vegakit.policy import Mailbox, RestartRule
from vegakit.policy.scopes import CapCheck
from vegakit.program import InFlightEffect, Wallet
from vegakit.program.bodies import FiberRun
from vegakit.program.core import Core
from vegakit.program.processes import Incarnations
from vegakit.program.requests import FiberRequests
from vegakit.program.sends import OpenSend, SendWorker
from vegakit.store import MemoryLedger
from vegakit.vm import Vm, VmState

SEEDS = 500


def money_is_released_twice(self: Wallet, held: int, charged: int) -> None:
    self.held -= 2 * held
    self.spent += charged


def a_crash_loses_its_letters(self: Mailbox[Any]) -> None:
    self.line = (self.line or [])[self.out :] or None
    self.out = 0


_on_landed = Incarnations.on_landed


def a_stale_reply_is_delivered(
    self: Incarnations, flight: InFlightEffect, outcome: EffectOutcome
) -> None:
    generation = self._core.state.processes[flight.path].generation
    _on_landed(self, structs.replace(flight, generation=generation), outcome)


_give_up = SendWorker._give_up


def a_cancel_frees_what_is_held(self: SendWorker, at: OpenSend) -> None:
    self._budgets._wallets.settle(at.path, at.send.part.held, 0)
    _give_up(self, at)


@property
def one_restart_more_is_allowed(rule: RestartRule) -> int:
    return rule.max_restarts + 1


def what_was_cut_off_costs_nothing(
    self: MemoryLedger, effect: EffectKey, attempt: int, now: int
) -> Any:
    return self.answer(effect, attempt, Money(0), now)


def every_reservation_fits(self: CapCheck, amount: int) -> bool:
    return True


def asks_stay_open(self: Core, message: Any, outcome: Any) -> None:
    if message.ask:
        self._return(message, outcome)


def what_has_not_begun_is_lost(self: LocalHost, key: EffectKey) -> None:
    self._tasks.pop(key, None)


_from_json = watching.from_json


def timers_are_not_stored(kind: Any, text: bytes) -> Any:
    state = _from_json(kind, text)
    state.timers.clear()
    return state


def chance_has_no_seed(self: world.SimulatedModel) -> list[Any]:
    return [world.TextDelta("word ")] * random.randint(0, 3)


async def a_question_outlives_who_asked(self: Questions, interrupt_id: Any) -> None:
    pass


def what_it_opened_stays_open(self: FiberRequests, run: FiberRun) -> None:
    pass


_written = Vm.written


def waiting_is_not_stored(self: Vm) -> VmState:
    state = _written(self)
    for task in state.tasks.values():
        task.waits = ""
    return state


FAULTS: list[tuple[object, str, object, str]] = [
    (Wallet, "settle", money_is_released_twice, "below nothing"),
    (Mailbox, "put_back", a_crash_loses_its_letters, "asks without an answer"),
    (Incarnations, "on_landed", a_stale_reply_is_delivered, "by a life that is over"),
    (SendWorker, "_give_up", a_cancel_frees_what_is_held, "below nothing"),
    (RestartRule, "allowed", one_restart_more_is_allowed, "more often than"),
    (MemoryLedger, "cut_off", what_was_cut_off_costs_nothing, "not due"),
    (CapCheck, "fits", every_reservation_fits, "over its cap"),
    (Core, "answer", asks_stay_open, "answered twice"),
    (LocalHost, "_sweep", what_has_not_begun_is_lost, "not come to an end"),
    (Questions, "_withdraw", a_question_outlives_who_asked, "left over, questions"),
    (FiberRequests, "close", what_it_opened_stays_open, "left over"),
    (Vm, "written", waiting_is_not_stored, "differs"),
    (watching, "from_json", timers_are_not_stored, "differs"),
    (world.SimulatedModel, "_words", chance_has_no_seed, "differs"),
]


@pytest.mark.parametrize(
    ("owner", "name", "fault", "broken"),
    FAULTS,
    ids=[getattr(fault[2], "__name__", fault[1]) for fault in FAULTS],
)
def test_a_planted_fault_is_found(
    owner: object,
    name: str,
    fault: object,
    broken: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Within five hundred seeds, by the invariant that it breaks."""
    monkeypatch.setattr(owner, name, fault)
    told: list[str] = []
    for seed in range(SEEDS):
        told += run_seeds([seed], restore_every=5).failures
        if any(broken in failure for failure in told):
            print(f"found by seed {seed}")
            return
    pytest.fail(f"no seed shows it; told was {told[:3]}")
