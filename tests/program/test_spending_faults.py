"""The property of spending can fail: each fault planted in the wallets is found."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.program.spending import Spending
from vegakit.program import Wallet
from vegakit.program.wallets import SendBudgets, Wallets

SEEDS = 300


def everything_fits(self: Wallet, amount: int) -> bool:
    return True


def money_is_released_twice(self: Wallet, held: int, charged: int) -> None:
    self.held -= 2 * held
    self.spent += charged


def a_send_that_has_not_begun_is_forgotten(self: Wallets, key: str) -> None:
    pass


def a_session_costs_nothing(self: Wallets, key: str, spawner: str, session: str = "") -> None:
    wallet = self._core.state.wallets.get(key)
    if wallet is not None and not wallet.held:
        del self._core.state.wallets[key]
        if wallet.cap is not None and spawner:
            self.settle(spawner, wallet.cap, 0, session)


_chain: Callable[..., Iterator[Any]] = Wallets._chain


def sessions_are_not_seen(self: Wallets, path: str, session: str, **looks: Any) -> Any:
    return _chain(self, path, "", **looks)


def parts_are_kept(self: SendBudgets, path: str, send: Any) -> None:
    pass


FAULTS = [
    (Wallet, "fits", everything_fits),
    (Wallet, "settle", money_is_released_twice),
    (Wallets, "enter", a_send_that_has_not_begun_is_forgotten),
    (Wallets, "_close", a_session_costs_nothing),
    (Wallets, "_chain", sessions_are_not_seen),
    (SendBudgets, "give_back", parts_are_kept),
]


@pytest.mark.parametrize(("owner", "name", "fault"), FAULTS, ids=[f[2].__name__ for f in FAULTS])
def test_a_planted_fault_is_found(
    owner: type, name: str, fault: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within three hundred programs."""
    monkeypatch.setattr(owner, name, fault)
    for seed in range(SEEDS):
        try:
            Spending(seed).run()
        except (AssertionError, KeyError) as found:
            print(f"found by seed {seed}: {found!r}"[:200])
            return
    pytest.fail("no program shows it")
