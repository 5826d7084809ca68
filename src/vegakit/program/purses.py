"""Holding and settling in every wallet that a call has to fit.

A wallet with a cap of its own is a part, held as a whole in the wallet of its spawner: the walk up
ends there. A process without one spends from its spawner's. A session is a part of the wallet of
the process that opened it, or of the session around it: where the walk up comes to that process,
it goes into the session instead and ends.

Inside a program that a model wrote the walk does not end before the program's own wallet, which is
its quote: sessions and wallets in it are loose. They cap what is spent in them, and take no part
out of the quote, since that holds what all calls may cost and not what all caps add up to.
"""

from collections.abc import Iterator, Mapping

from vegakit.money import Money
from vegakit.program.actions import CostAlert
from vegakit.program.bodies import AgentBody
from vegakit.program.core import Core
from vegakit.program.paths import purse_of, root_of
from vegakit.program.state import Process, Session
from vegakit.program.wallet import Wallet

__all__ = ["Purses"]


class Purses:
    def __init__(self, core: Core) -> None:
        self._core = core

    def open(self, caps: Mapping[str, Money], spawner: str, session: str = "") -> str | None:
        """The path of a wallet that has no room for these parts together; then none is taken."""
        wallets = self._core.state.wallets
        parts = {key: cap for key, cap in caps.items() if key not in wallets}
        loose = self.is_quoted(spawner)
        if parts and spawner:
            take = self.short if loose else self.hold
            poor = take(spawner, sum(parts.values()), session)
            if poor is not None:
                return poor
        raised = 0 if self._is_by_model(spawner) else self.raised
        made = {key: Wallet(cap, loose=loose, raised=raised) for key, cap in parts.items()}
        wallets.update(made)
        return None

    @property
    def raised(self) -> int:
        """What a person added to all budgets when the run went on."""
        return self._core.state.bounds.raised

    def _is_by_model(self, spawner: str) -> bool:
        """A program that a model wrote keeps its quote: nobody accepted more."""
        process = self._core.state.processes.get(spawner)
        return process is not None and isinstance(self._core.body_of(process), AgentBody)

    def close(self, path: str, process: Process) -> None:
        """The purses of a group stay while it lives, whichever of its children end."""
        if process.family and root_of(path, process) in self._core.state.families:
            return
        self._close(purse_of(path, process), process.spawner, process.session)

    def close_group(self, root: str, spawner: str) -> None:
        """What its members spawned is not the group's: it is given back to whom it came from."""
        state = self._core.state
        for key in [key for key in state.wallets if key.startswith(f"{root}/")]:
            if key not in state.processes:
                self._close(key, spawner)

    def of(self, path: str) -> Wallet | None:
        process = self._core.state.processes[path]
        return self._core.state.wallets.get(purse_of(path, process))

    def top(self, path: str) -> Wallet:
        """The last one that a call of it has to fit."""
        return [wallet for _, wallet in self._chain(path, "", looks=True)][-1]

    def spent(self, path: str) -> Money:
        wallet = self.of(path)
        return Money(0 if wallet is None else wallet.spent)

    def open_session(self, key: str, owner: str, cap: Money, inside: str = "") -> str | None:
        """As `open`."""
        loose = self.is_quoted(owner)
        poor = (self.short if loose else self.hold)(owner, cap, inside)
        if poor is None:
            self._core.state.wallets[key] = Wallet(cap, loose=loose, raised=self.raised)
            self._core.state.sessions[key] = Session(owner, inside)
        return poor

    def short(self, path: str, amount: int, session: str = "") -> str | None:
        """As `hold`, of a part inside such a program: it has to fit the caps around it, though not
        the quote, and is not held."""
        for above, wallet in self._chain(path, session, looks=True):
            own = above in self._core.state.authored
            if wallet.loose and not own and not wallet.fits(amount):
                return above
        return None

    def is_quoted(self, path: str) -> bool:
        """Whether it is part of a program that a model wrote."""
        return any(True for _ in self._core.authored_around(path))

    def spends_its_quote(self, path: str, session: str) -> bool:
        """Whether nothing caps it before the quote of such a program does: that holds what all its
        calls may cost, in whatever order they are made."""
        chain = self._chain(path, session, looks=True)
        capped = [(name, wallet) for name, wallet in chain if wallet.cap is not None]
        return len(capped) == 1 and capped[0][0] in self._core.state.authored

    def owner_of(self, key: str) -> str | None:
        session = self._core.state.sessions.get(key)
        return None if session is None else session.owner

    def of_session(self, key: str) -> Wallet:
        return self._core.state.wallets[key]

    def around(self, key: str) -> Iterator[str]:
        """The session and those it stands in."""
        while (session := self._core.state.sessions.get(key)) is not None:
            yield key
            key = session.inside

    def close_session(self, key: str, *, forgotten: bool = False) -> None:
        """`forgotten`: nobody hears of the sends in it any more."""
        session = self._core.state.sessions[key]
        session.over = True
        if forgotten:
            session.sends = 0
        self._close_if_over(key)

    def enter(self, key: str) -> None:
        """A send that has not begun holds nothing yet, and spends from it all the same."""
        session = self._core.state.sessions.get(key)
        if session is not None:
            session.sends += 1

    def leave(self, key: str) -> None:
        session = self._core.state.sessions.get(key)
        if session is not None:
            session.sends -= 1
            self._close_if_over(key)

    def _close_if_over(self, key: str) -> None:
        session = self._core.state.sessions.get(key)
        if session is None or not session.over or session.sends:
            return
        if self._core.state.wallets[key].held:
            return
        del self._core.state.sessions[key]
        self._close(key, session.owner, session.inside)

    def nearest(self, path: str, session: str = "") -> Wallet | None:
        """The nearest wallet with a cap, at or above it; None where nothing limits it."""
        wallets = (wallet for _, wallet in self._chain(path, session, looks=True))
        return next((wallet for wallet in wallets if wallet.cap is not None), None)

    def room(self, path: str, session: str = "") -> Money | None:
        rooms = (wallet.room for _, wallet in self._chain(path, session, looks=True))
        return min((room for room in rooms if room is not None), default=None)

    def seen_room(self, path: str, session: str = "") -> Money:
        """As a program sees it: nothing is wasted."""
        wallet = self.nearest(path, session)
        return Money(0 if wallet is None else (wallet.room or 0) + wallet.wasted)

    def hold(self, path: str, amount: int, session: str = "") -> str | None:
        """The path of the wallet that has no room; then nothing is held."""
        chain = list(self._chain(path, session))
        for above, wallet in chain:
            if not wallet.fits(amount):
                return above
        for _, wallet in chain:
            wallet.held += amount
        return None

    def settle(self, path: str, held: int, charged: int, session: str = "") -> None:
        for above, wallet in self._chain(path, session):
            wallet.settle(held, charged)
            self._alert(above, wallet)
        while session:
            opened = self._core.state.sessions.get(session)
            self._close_if_over(session)
            session = "" if opened is None else opened.inside

    def waste(self, path: str, session: str, amount: int) -> None:
        """Of what is spent already: the program did not come to it."""
        for _, wallet in self._chain(path, session):
            wallet.wasted += amount

    def _close(self, key: str, spawner: str, session: str = "") -> None:
        """Not while something is held in it: who settles that comes back here."""
        wallet = self._core.state.wallets.get(key)
        if wallet is None or wallet.held:
            return
        del self._core.state.wallets[key]
        if wallet.cap is not None and spawner and not wallet.loose:
            self.settle(spawner, wallet.cap, wallet.spent, session)
            self.waste(spawner, session, wallet.wasted)

    def _chain(
        self, path: str, session: str, *, looks: bool = False
    ) -> Iterator[tuple[str, Wallet]]:
        """Who only looks opens no purse."""
        state = self._core.state
        opened = state.sessions.get(session)
        while path:
            if opened is not None and opened.owner == path:
                yield f"a session of {path}", state.wallets[session]
                if not state.wallets[session].loose:
                    return
                session = opened.inside
                opened = state.sessions.get(session)
                continue
            process = state.processes[path]
            purse = purse_of(path, process)
            wallet = state.wallets.get(purse)
            if wallet is None:
                wallet = Wallet()
                if not looks:
                    state.wallets[purse] = wallet
            yield path, wallet
            if wallet.loose:
                session = process.session
                opened = state.sessions.get(session)
            path = process.spawner if wallet.cap is None or wallet.loose else ""

    def _alert(self, path: str, wallet: Wallet) -> None:
        process = self._core.state.processes.get(path)
        at = None if process is None else process.spec.alert_at
        if process is not None and at is not None and wallet.spent >= at and not process.alerted:
            process.alerted = True
            self._core.out.append(CostAlert(path, Money(wallet.spent), at))
