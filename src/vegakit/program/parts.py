"""The part of the wallets that one send may spend.

| the send               | held in the wallets      | a call is held in | settled late in |
|------------------------|--------------------------|-------------------|-----------------|
| has a budget, or tools | its part, from the start | the part          | the wallets     |
| has neither            | nothing                  | the wallets       | the wallets     |

When a send is given up, its part goes back but for what is still under way: that stays held, now
in the wallets themselves, until its outcome is known.
"""

from vegakit.errors import BudgetExceeded
from vegakit.events import EffectOutcome, charged_for
from vegakit.money import Money, dollars, show
from vegakit.program.bodies import AgentBody
from vegakit.program.mail import Fell, Prompt
from vegakit.program.purses import Purses
from vegakit.program.state import Flight, Process, Send
from vegakit.program.wallet import Wallet

__all__ = ["Parts"]

_DEFAULT = dollars("$0.50")


class Parts:
    def __init__(self, purses: Purses) -> None:
        self._purses = purses

    def open(self, path: str, body: AgentBody, prompt: Prompt) -> Wallet | Fell:
        cap = self._cap(path, body, prompt)
        if cap is None or (poor := self._purses.hold(path, cap)) is None:
            return Wallet(cap)
        return _too_poor("this send may spend", cap, poor)

    def hold(self, path: str, send: Send, amount: Money) -> Fell | None:
        poor = None if send.part.fits(amount) else f"this send of {path}"
        if poor is None and send.part.cap is None:
            poor = self._purses.hold(path, amount)
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
            self._purses.settle(path, flight.held, charged)

    def give_back(self, path: str, send: Send) -> None:
        if send.part.cap is not None:
            self._purses.settle(path, send.part.cap - send.part.held, send.part.spent)

    def _cap(self, path: str, body: AgentBody, prompt: Prompt) -> Money | None:
        """Without a budget an agent that has tools gets fifty cents, or what is left."""
        cap = prompt.budget or body.budget
        if cap is not None or not body.rule.tools:
            return cap
        room = self._purses.room(path)
        return _DEFAULT if room is None else min(_DEFAULT, room)


def _too_poor(what: str, amount: Money, poor: str) -> Fell:
    return Fell(
        BudgetExceeded.__name__,
        f"{what} {show(amount)}, which is more than is left for {poor}; "
        "raise its wallet or budget, or lower max_tokens",
    )
