"""The part of the wallets that one send may spend.

| the send               | held in the wallets      | a call is held in | settled late in |
|------------------------|--------------------------|-------------------|-----------------|
| has a budget, or tools | its part, from the start | the part          | the wallets     |
| has tools in Vega      | its part, from the start | a session, which  | the session     |
|                        |                          | its tools share   |                 |
| has neither            | nothing                  | the wallets       | the wallets     |
| is of a program that a | nothing                  | the part and the  | the wallets     |
| model wrote            |                          | wallets           |                 |

When a send is given up, its part goes back but for what is still under way: that stays held, now
in the wallets themselves, until its outcome is known. The next life that takes the letter has only
the rest of the part: a message costs no more for being asked again after a crash.
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

__all__ = ["Parts", "part_of"]


class Parts:
    def __init__(self, purses: Purses) -> None:
        self._purses = purses

    def open(
        self, path: str, body: AgentBody, prompt: Prompt, key: str, earlier: int = 0
    ) -> tuple[Wallet, str] | Fell:
        """The part, and the session that its calls are paid from: `key` if they have one.
        `earlier` is what lives that ended spent of it."""
        cap = self._cap(path, body, prompt, earlier)
        if cap is None:
            return Wallet(), prompt.session
        shared = bool(body.fibers or body.authors)
        raised = self._purses.raised
        if not shared and self._purses.is_quoted(path):
            poor = self._purses.short(path, cap, prompt.session)
            part = Wallet(cap, loose=True, raised=raised), prompt.session
            return part if poor is None else _too_poor("this send may spend", cap, poor)
        if shared:
            poor, opened = self._purses.open_session(key, path, cap, prompt.session), key
        else:
            poor, opened = self._purses.hold(path, cap, prompt.session), prompt.session
        if poor is not None:
            return _too_poor("this send may spend", cap, poor)
        return Wallet(None if shared else cap, raised=raised), opened

    def hold(self, path: str, send: Send, amount: Money) -> Fell | None:
        poor = None if send.part.fits(amount) else f"this send of {path}"
        if poor is None and (send.part.cap is None or send.part.loose):
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
        if send is None or send.part.cap is None or send.part.loose:
            self._purses.settle(path, flight.held, charged, flight.session)

    def give_back(self, path: str, send: Send) -> None:
        if send.part.loose:
            return
        if send.part.cap is not None:
            free = send.part.cap - send.part.held
            self._purses.settle(path, free, send.part.spent, send.session)
        elif self._purses.owner_of(send.session) == path:
            self._purses.close_session(send.session, forgotten=True)

    def charged(self, path: str, send: Send) -> Money:
        """With what its tools and programs spent of it."""
        return Money(self._part(path, send).spent)

    def spent(self, path: str, send: Send) -> int:
        """What is under way counts in full."""
        part = self._part(path, send)
        return part.spent + part.held

    def _part(self, path: str, send: Send) -> Wallet:
        if send.part.cap is None and self._purses.owner_of(send.session) == path:
            return self._purses.of_session(send.session)
        return send.part

    def _cap(self, path: str, body: AgentBody, prompt: Prompt, earlier: int) -> Money | None:
        """Without a budget an agent that has tools gets fifty cents, or what is left; and what the
        dearest program that its model writes may cost."""
        part = part_of(body, prompt.budget)
        if part is None:
            return None
        left = Money(max(part - earlier, 0))
        is_said = body.budget is not None or prompt.budget is not None
        room = None if is_said else self._purses.room(path, prompt.session)
        return left if room is None else min(left, room)


def part_of(body: AgentBody, budget: Money | None) -> Money | None:
    """What a send may spend at most; None where only the wallets limit it."""
    cap = body.budget if budget is None else budget
    if cap is not None or not body.rule.tools:
        return cap
    return Money(DEFAULT_PART + max((one.cost for one in body.authors.values()), default=0))


def _too_poor(what: str, amount: Money, poor: str) -> Fell:
    return Fell(
        BudgetExceeded.__name__,
        f"{what} {show(amount)}, which is more than is left for {poor}; "
        "raise its wallet or budget, or lower max_tokens",
    )
