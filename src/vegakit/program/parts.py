"""The part of the wallets that one send may spend.

| the send               | held in the wallets      | a call is held in | settled late in |
|------------------------|--------------------------|-------------------|-----------------|
| has a budget, or tools | its part, from the start | the part          | the wallets     |
| has tools in Vega      | its part, from the start | a session, which  | the session     |
|                        |                          | its tools share   |                 |
| has neither            | nothing                  | the wallets       | the wallets     |

When a send is given up, its part goes back but for what is still under way: that stays held, now
in the wallets themselves, until its outcome is known.
"""

from vegakit.errors import BudgetExceeded
from vegakit.events import EffectOutcome, charged_for
from vegakit.money import Money, show
from vegakit.prices import DEFAULT_PART
from vegakit.program.bodies import AgentBody
from vegakit.program.mail import Fell, Prompt
from vegakit.program.purses import Purses
from vegakit.program.state import Flight, Process, Send
from vegakit.program.wallet import Wallet

__all__ = ["Parts"]


class Parts:
    def __init__(self, purses: Purses) -> None:
        self._purses = purses

    def open(
        self, path: str, body: AgentBody, prompt: Prompt, key: str
    ) -> tuple[Wallet, str] | Fell:
        """The part, and the session that its calls are paid from: `key` if they have one."""
        cap = self._cap(path, body, prompt)
        if cap is None:
            return Wallet(), prompt.session
        if body.fibers:
            poor, opened = self._purses.open_session(key, path, cap, prompt.session), key
        else:
            poor, opened = self._purses.hold(path, cap, prompt.session), prompt.session
        if poor is not None:
            return _too_poor("this send may spend", cap, poor)
        return Wallet(None if body.fibers else cap), opened

    def hold(self, path: str, send: Send, amount: Money) -> Fell | None:
        poor = None if send.part.fits(amount) else f"this send of {path}"
        if poor is None and send.part.cap is None:
            poor = self._purses.hold(path, amount, send.session)
        if poor is not None:
            return _too_poor("the next call could cost", amount, poor)
        send.part.held += amount
        return None

    def settle(self, path: str, process: Process, flight: Flight, outcome: EffectOutcome) -> None:
        charged, send = charged_for(outcome), None
        if flight.generation == process.generation:
            send = (process.sends or {}).get(flight.letter)
        if send is not None:
            send.part.settle(flight.held, charged)
        if send is None or send.part.cap is None:
            self._purses.settle(path, flight.held, charged, flight.session)

    def give_back(self, path: str, send: Send) -> None:
        if send.part.cap is not None:
            free = send.part.cap - send.part.held
            self._purses.settle(path, free, send.part.spent, send.session)
        elif self._purses.owner_of(send.session) == path:
            self._purses.close_session(send.session, forgotten=True)

    def _cap(self, path: str, body: AgentBody, prompt: Prompt) -> Money | None:
        """Without a budget an agent that has tools gets fifty cents, or what is left."""
        cap = body.budget if prompt.budget is None else prompt.budget
        if cap is not None or not body.rule.tools:
            return cap
        room = self._purses.room(path, prompt.session)
        return DEFAULT_PART if room is None else min(DEFAULT_PART, room)


def _too_poor(what: str, amount: Money, poor: str) -> Fell:
    return Fell(
        BudgetExceeded.__name__,
        f"{what} {show(amount)}, which is more than is left for {poor}; "
        "raise its wallet or budget, or lower max_tokens",
    )
