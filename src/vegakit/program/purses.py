"""Holding and settling in every wallet that a call has to fit.

A wallet with a cap of its own is a part, held as a whole in the wallet of its spawner: the walk up
ends there. A process without one spends from its spawner's.
"""

from collections.abc import Iterator, Mapping

from vegakit.money import Money
from vegakit.program.actions import CostAlert
from vegakit.program.core import Core
from vegakit.program.paths import purse_of, root_of
from vegakit.program.state import Process
from vegakit.program.wallet import Wallet

__all__ = ["Purses"]


class Purses:
    def __init__(self, core: Core) -> None:
        self._core = core

    def open(self, caps: Mapping[str, Money], spawner: str) -> str | None:
        """The path of a wallet that has no room for these parts together; then none is taken."""
        wallets = self._core.state.wallets
        parts = {key: cap for key, cap in caps.items() if key not in wallets}
        if parts and spawner and (poor := self.hold(spawner, sum(parts.values()))) is not None:
            return poor
        wallets.update({key: Wallet(cap) for key, cap in parts.items()})
        return None

    def close(self, path: str, process: Process) -> None:
        """The purses of a group stay while it lives, whichever of its children end."""
        if process.family and root_of(path, process) in self._core.state.families:
            return
        self._close(purse_of(path, process), process.spawner)

    def close_group(self, root: str, spawner: str) -> None:
        """What its members spawned is not the group's: it is given back to whom it came from."""
        state = self._core.state
        for key in [key for key in state.wallets if key.startswith(f"{root}/")]:
            if key not in state.processes:
                self._close(key, spawner)

    def of(self, path: str) -> Wallet | None:
        process = self._core.state.processes[path]
        return self._core.state.wallets.get(purse_of(path, process))

    def spent(self, path: str) -> Money:
        wallet = self.of(path)
        return Money(0 if wallet is None else wallet.spent)

    def room(self, path: str) -> Money | None:
        """Of the nearest wallet with a cap, at or above it; None where nothing limits it."""
        state = self._core.state
        while path:
            process = state.processes[path]
            wallet = state.wallets.get(purse_of(path, process))
            if wallet is not None and wallet.cap is not None:
                return wallet.room
            path = process.spawner
        return None

    def hold(self, path: str, amount: int) -> str | None:
        """The path of the wallet that has no room; then nothing is held."""
        chain = list(self._chain(path))
        for above, wallet in chain:
            if not wallet.fits(amount):
                return above
        for _, wallet in chain:
            wallet.held += amount
        return None

    def settle(self, path: str, held: int, charged: int) -> None:
        for above, wallet in self._chain(path):
            wallet.settle(held, charged)
            self._alert(above, wallet)

    def _close(self, key: str, spawner: str) -> None:
        """Not while something is held in it: who settles that comes back here."""
        wallet = self._core.state.wallets.get(key)
        if wallet is None or wallet.held:
            return
        del self._core.state.wallets[key]
        if wallet.cap is not None and spawner:
            self.settle(spawner, wallet.cap, wallet.spent)

    def _chain(self, path: str) -> Iterator[tuple[str, Wallet]]:
        state = self._core.state
        while path:
            process = state.processes[path]
            wallet = state.wallets.setdefault(purse_of(path, process), Wallet())
            yield path, wallet
            path = process.spawner if wallet.cap is None else ""

    def _alert(self, path: str, wallet: Wallet) -> None:
        process = self._core.state.processes[path]
        at = process.spec.alert_at
        if at is not None and wallet.spent >= at and not process.alerted:
            process.alerted = True
            self._core.out.append(CostAlert(path, Money(wallet.spent), at))
