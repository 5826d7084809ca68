"""Budget scopes of a fiber: sessions that open and close, and what it is told of its budget."""

from msgspec import convert

from vegakit.errors import BudgetExceeded
from vegakit.money import Money, show
from vegakit.program.core import Core
from vegakit.program.purses import Purses
from vegakit.program.running import Run
from vegakit.vm import AskBudget, CloseScope, OpenScope

__all__ = ["Scopes"]

_UNLIMITED = Money(2**63 - 1)


class Scopes:
    def __init__(self, core: Core, purses: Purses) -> None:
        self._core = core
        self._purses = purses

    def open(self, run: Run, want: OpenScope) -> bool:
        inside, key = run.session(want.inside), run.session(want.ticket)
        poor = self._purses.open_session(key, run.path, Money(want.amount), inside)
        if poor is None:
            session, settings = self._core.state.sessions[key], want.settings or {}
            session.confirm, session.speculate = settings.get("confirm"), settings.get("speculate")
            run.vm.answer(want.ticket, None)
        else:
            room = self._purses.seen_room(run.path, inside)
            asked = f"a session of {show(Money(want.amount))} does not fit: {poor} has only"
            why = f"{asked} {show(room)} left; ask for less, or give it more"
            run.vm.fail(want.ticket, BudgetExceeded.__name__, why)
        return True

    def close(self, run: Run, want: CloseScope) -> bool:
        self._purses.close_session(run.session(want.scope))
        return False

    def look(self, run: Run, want: AskBudget) -> bool:
        """As if nothing had ever been begun in vain. What was cancelled is waited for until it
        lands: before, nobody knows what it cost."""
        if self._core.is_settling:
            run.fiber.looking = {**run.fiber.looking, want.ticket: want}
            self._core.state.looking[run.path] = run.letter
            return False
        wallet = self._purses.nearest(run.path, run.session(want.scope))
        known = (_UNLIMITED, Money(0), _UNLIMITED)
        if wallet is not None and wallet.room is not None:
            known = (wallet.room + wallet.wasted, wallet.spent - wallet.wasted, wallet.cap)
        run.vm.answer(want.ticket, {"$": "money", "of": known[want.what]})
        return True

    def look_again(self, run: Run) -> None:
        if not self._core.is_settling:
            looking, run.fiber.looking = run.fiber.looking, {}
            for want in looking.values():
                self.look(run, convert(want, AskBudget))
