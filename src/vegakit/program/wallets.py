"""Wallets: money set aside for processes, sessions and sends, held and settled (pure).

A wallet with a cap of its own is a part, which is held as a whole in the wallet of its spawner; the
walk up ends there. A process without one spends from its spawner's wallet. A session is a part of
the wallet of the process that opened it, or of the session around it: when the walk up reaches that
process, it enters the session instead, and ends there.

Inside a program that a model or a client sent, the walk up only ends at the program's own wallet,
which is its quote: sessions and wallets inside are loose. They cap what is spent in them but take
no part out of the quote, since it covers what all calls may cost and not the sum of all caps.

| the send               | held in the wallets      | a call is held in | settled late in |
|------------------------|--------------------------|-------------------|-----------------|
| has a budget, or tools | its part, from the start | the part          | the wallets     |
| has tools in Vega      | its part, from the start | a session, which  | the session     |
|                        |                          | its tools share   |                 |
| has neither            | nothing                  | the wallets       | the wallets     |
| is of a program whose  | nothing                  | the part and the  | the wallets     |
| wallet is its quote    |                          | wallets           |                 |

When a send is cancelled, its part is given back except for calls in flight: those stay held, now in
the wallets themselves, until their outcomes are known. The next incarnation that takes the message
has only the rest of the part, so that a message does not cost more after a crash.
"""

from collections.abc import Container, Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import convert

from vegakit.errors import BudgetExceeded, Paused
from vegakit.events import Answered, EffectOutcome, Unknown, charged_for
from vegakit.money import Money, format_money
from vegakit.policy import BINDING, OnExceed
from vegakit.prices import DEFAULT_SEND_BUDGET
from vegakit.program.bodies import AgentBody, FiberRun, StandInBody
from vegakit.program.core import Core
from vegakit.program.messages import MessageFailed, Prompt
from vegakit.program.protocol import CostAlert
from vegakit.program.state import (
    BudgetSession,
    InFlightEffect,
    ProcessRecord,
    Send,
    Wallet,
    root_of,
    wallet_key_of,
)

if TYPE_CHECKING:
    from vegakit.vm import AskBudget, CloseScope, OpenScope

# Money is held and settled in every wallet that a call has to fit.


class Wallets:
    """The wallets of processes and sessions. Money held in one is held in those above it, up to the
    nearest with a cap: that whole cap is held above it already."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def open(self, caps: Mapping[str, Money], spawner: str, session: str = "") -> str | None:
        """Take these parts for new wallets. If they do not all fit, take none and return the path
        of the wallet that has no room."""
        wallets = self._core.state.wallets
        parts = {key: cap for key, cap in caps.items() if key not in wallets}
        # Inside a program that a model wrote parts are limits only. Its quote is the sum of what
        # its calls may cost; to set parts aside in it would refuse what the quote allows.
        loose = self.is_quoted(spawner)
        if parts and spawner:
            take = self.short if loose else self.hold
            exhausted = take(spawner, sum(parts.values()), session)
            if exhausted is not None:
                return exhausted
        raised = 0 if self._is_by_model(spawner) else self.raised
        made = {key: Wallet(cap, loose=loose, raised=raised) for key, cap in parts.items()}
        wallets.update(made)
        return None

    @property
    def raised(self) -> int:
        """Return what a person added to all budgets when the run was resumed."""
        return self._core.state.bounds.raised

    @property
    def paused(self) -> str:
        """Return what to do where a budget that is set to ask refuses."""
        if self._core.state.recorded:
            return "it is set to ask: raise it to go on: vega resume --budget '+$1'"
        return "it is set to ask, but the run is not recorded: raise it, and run it again"

    def _is_by_model(self, spawner: str) -> bool:
        """Return whether the spawner is an agent. The wallet that is opened is then the quote of a
        program that its model wrote, which is never raised, since nobody approved more."""
        process = self._core.state.processes.get(spawner)
        return process is not None and isinstance(self._core.body_of(process), AgentBody)

    def close(self, path: str, process: ProcessRecord) -> None:
        """Close the wallet of a process. The wallets of a group stay open as long as the group,
        whichever of its children end."""
        if process.supervision and root_of(path, process) in self._core.state.supervisors:
            return
        self._close(wallet_key_of(path, process), process.spawner, process.session)

    def close_group(self, root: str, spawner: str) -> None:
        """Close the wallets of a group, except those of processes that its members spawned, which
        are given back to their spawners."""
        state = self._core.state
        for key in [key for key in state.wallets if key.startswith(f"{root}/")]:
            if key not in state.processes:
                self._close(key, spawner)

    def of(self, path: str) -> Wallet | None:
        """Return the wallet that a process spends from, if it was opened."""
        process = self._core.state.processes[path]
        return self._core.state.wallets.get(wallet_key_of(path, process))

    def top(self, path: str) -> Wallet:
        """Return the outermost wallet that a call of the process has to fit."""
        return [wallet for _, wallet in self._chain(path, "", looks=True)][-1]

    def spent(self, path: str) -> Money:
        """Return what a process has spent."""
        wallet = self.of(path)
        return Money(0 if wallet is None else wallet.spent)

    def open_session(self, key: str, owner: str, cap: Money | None, inside: str = "") -> str | None:
        """Open a session; returns as `open` does. Without a cap it only counts what is spent."""
        loose = cap is None or self.is_quoted(owner)
        exhausted = None
        if cap is not None:
            exhausted = (self.short if loose else self.hold)(owner, cap, inside)
        if exhausted is None:
            self._core.state.wallets[key] = Wallet(cap, loose=loose, raised=self.raised)
            self._core.state.sessions[key] = BudgetSession(owner, inside)
        return exhausted

    def short(self, path: str, amount: int, session: str = "") -> str | None:
        """Check a part inside a program that a model wrote. It has to fit the caps around it, but
        not the quote, and nothing is held. Returns as `hold` does."""
        for above, wallet in self._chain(path, session, looks=True):
            own = above in self._core.state.authored
            if wallet.loose and not own and not wallet.fits(amount):
                return above
        return None

    def is_quoted(self, path: str) -> bool:
        """Return whether the process is part of a program whose wallet is its quote."""
        state = self._core.state
        while (process := state.processes.get(path)) is not None:
            if process.spec.quoted or path in state.authored:
                return True
            path = process.spawner
        return False

    def spends_its_quote(self, path: str, session: str) -> bool:
        """Return whether the quote of such a program is the first cap. The quote covers all its
        calls, in whatever order they are made."""
        chain = self._chain(path, session, looks=True)
        capped = [(name, wallet) for name, wallet in chain if wallet.cap is not None]
        authored = self._core.state.authored.get(capped[0][0]) if len(capped) == 1 else None
        return authored is not None and not authored.is_capped

    def owner_of(self, key: str) -> str | None:
        """Return the process that opened a session."""
        session = self._core.state.sessions.get(key)
        return None if session is None else session.owner

    def of_session(self, key: str) -> Wallet:
        """Return the wallet of a session."""
        return self._core.state.wallets[key]

    def around(self, key: str) -> Iterator[str]:
        """Yield the session and those around it."""
        while (session := self._core.state.sessions.get(key)) is not None:
            yield key
            key = session.inside

    def close_session(self, key: str, *, forgotten: bool = False) -> None:
        """Close a session. With `forgotten` nobody waits for the sends in it any more."""
        session = self._core.state.sessions[key]
        session.over = True
        if forgotten:
            session.sends = 0
        self._close_if_over(key)

    def enter(self, key: str) -> None:
        """Count a send into its session. A send that has not begun holds nothing yet, but will
        spend from it."""
        session = self._core.state.sessions.get(key)
        if session is not None:
            session.sends += 1

    def leave(self, key: str) -> None:
        """Note that a send of a session is over; a session that is closed ends with its last
        send."""
        session = self._core.state.sessions.get(key)
        if session is not None:
            session.sends -= 1
            self._close_if_over(key)

    def _close_if_over(self, key: str) -> None:
        session = self._core.state.sessions.get(key)
        if session is None or not session.over or session.sends:
            return
        # A call in flight still holds its money here; settling it comes back to this method.
        if self._core.state.wallets[key].held:
            return
        del self._core.state.sessions[key]
        self._close(key, session.owner, session.inside)

    def nearest(self, path: str, session: str = "") -> Wallet | None:
        """Return the nearest wallet with a cap, at or above the process; None if nothing limits
        it."""
        wallets = (wallet for _, wallet in self._chain(path, session, looks=True))
        return next((wallet for wallet in wallets if wallet.cap is not None), None)

    def room(self, path: str, session: str = "") -> Money | None:
        """Return the least that any wallet of the chain still allows, or None without a cap."""
        rooms = (wallet.room for _, wallet in self._chain(path, session, looks=True))
        return min((room for room in rooms if room is not None), default=None)

    def seen_room(self, path: str, session: str = "") -> Money:
        """Return the room as the program sees it, without wasted calls."""
        wallet = self.nearest(path, session)
        return Money(0 if wallet is None else (wallet.room or 0) + wallet.wasted)

    def hold(self, path: str, amount: int, session: str = "") -> str | None:
        """Hold an amount in every wallet of the chain. If one has no room, hold nothing and return
        its path."""
        # All are asked before any is changed, so that a refusal leaves nothing held.
        chain = list(self._chain(path, session))
        for above, wallet in chain:
            if not wallet.fits(amount):
                return above
        for _, wallet in chain:
            wallet.held += amount
        return None

    def settle(self, path: str, held: int, charged: int, session: str = "", spare: int = 0) -> None:
        """Free what was held and charge what was billed, in every wallet of the chain. What it
        could have cost more counts for the run at once, or when the cap around it is closed."""
        for above, wallet in self._chain(path, session):
            wallet.settle(held, charged)
            self._alert(above, wallet)
            process = self._core.state.processes.get(above)
            if process is not None and not process.spawner:
                self._core.state.saved += spare
            elif wallet.cap is not None:
                wallet.save(held, charged, spare)
                spare = 0
        while session:
            opened = self._core.state.sessions.get(session)
            if opened is not None:
                self._warn(session, opened)
            self._close_if_over(session)
            session = "" if opened is None else opened.inside

    def note_cut(self, path: str, session: str, charged: int) -> None:
        """Count the charge of a call that our own death cut off. If a person accepted it, a program
        that a model wrote may exceed its quote by it. A send to a function that stands in for an
        agent may exceed its quote in any case: the wallets around it bound the run."""
        state = self._core.state
        for above, wallet in self._chain(path, session):
            if above in state.authored:
                wallet.cut += charged
                wallet.raised += charged if state.bounds.accepted else 0
        for key in self.around(session):
            owner = state.processes[state.sessions[key].owner]
            if isinstance(self._core.body_of(owner), StandInBody):
                state.wallets[key].raised += charged

    def paused_by_kill(self, path: str) -> str | None:
        """Return the advice if a quote refuses a call because other calls were cut off, else
        None."""
        state = self._core.state
        wallet = self.of(path) if path in state.authored else None
        if wallet is None or not wallet.cut or not state.recorded or state.bounds.accepted:
            return None
        return (
            f"{format_money(wallet.cut)} of its quote is charged for calls that were cut off; to "
            "let it spend as much beside its quote, type: vega resume --yes"
        )

    def waste(self, path: str, session: str, amount: int) -> None:
        """Count an amount that is spent already as waste: the program did not use the call."""
        for _, wallet in self._chain(path, session):
            wallet.wasted += amount

    def _close(self, key: str, spawner: str, session: str = "") -> None:
        """Close a wallet, unless something is held in it; then settling that closes it."""
        wallet = self._core.state.wallets.get(key)
        if wallet is None or wallet.held:
            return
        del self._core.state.wallets[key]
        if wallet.cap is not None and spawner and not wallet.loose:
            self.settle(spawner, wallet.cap, wallet.spent, session, wallet.saved)
            self.waste(spawner, session, wallet.wasted)

    def shortage(
        self, path: str, amount: int, session: str, behind: Container[str]
    ) -> tuple[str, str, Money] | None:
        """Return the name and the key of the wallet in which an amount has to wait for others, and
        how much these hold there. None if it fits now or never does. In a wallet that is `behind`
        others wait already."""
        short = None
        for name, key, wallet in self._links(path, session, looks=True):
            if wallet.cap is not None and wallet.spent + amount > wallet.cap + wallet.raised:
                return None
            if short is None and (key in behind or not wallet.fits(amount)):
                short = name, key, Money(wallet.held)
        return short

    def _chain(
        self, path: str, session: str, *, looks: bool = False
    ) -> Iterator[tuple[str, Wallet]]:
        """Yield the wallets that a call has to fit, from the inside out. With `looks` missing
        wallets are not opened."""
        return ((name, wallet) for name, _, wallet in self._links(path, session, looks=looks))

    def _links(self, path: str, session: str, *, looks: bool) -> Iterator[tuple[str, str, Wallet]]:
        """Yield them with their keys."""
        state = self._core.state
        opened = state.sessions.get(session)
        while path:
            if opened is not None and opened.owner == path:
                yield name_of_session(path), session, state.wallets[session]
                if not state.wallets[session].loose:
                    return
                session = opened.inside
                opened = state.sessions.get(session)
                continue
            process = state.processes[path]
            wallet_key = wallet_key_of(path, process)
            wallet = state.wallets.get(wallet_key)
            if wallet is None:
                wallet = Wallet()
                if not looks:
                    state.wallets[wallet_key] = wallet
            yield path, wallet_key, wallet
            if wallet.loose:
                session = process.session
                opened = state.sessions.get(session)
            path = process.spawner if wallet.cap is None or wallet.loose else ""

    def alert(self, path: str, spent: Money, alert_at: Money) -> None:
        """Tell that a process has spent more than somebody wants to know of."""
        self._core.out.append(CostAlert(path, spent, alert_at))

    def _warn(self, key: str, session: BudgetSession) -> None:
        """Tell once that a session has spent more than it should."""
        spent = Money(self._core.state.wallets[key].spent)
        if session.alert_at is not None and spent > session.alert_at:
            self.alert(session.owner, spent, Money(session.alert_at))
            session.alert_at = None

    def asks(self, key: str, amount: int) -> bool:
        """Return whether the session in which an amount does not fit is set to ask for more."""
        for one in self.around(key):
            wallet = self._core.state.wallets[one]
            if not wallet.fits(amount):
                return self._core.state.sessions[one].asks
            if not wallet.loose:
                break
        return False

    def _alert(self, path: str, wallet: Wallet) -> None:
        process = self._core.state.processes.get(path)
        at = None if process is None else process.spec.alert_at
        if process is not None and at is not None and wallet.spent >= at and not process.alerted:
            process.alerted = True
            self.alert(path, Money(wallet.spent), at)


class SendBudgets:
    """The part of a wallet that one send may spend."""

    def __init__(self, wallets: Wallets) -> None:
        self._wallets = wallets

    def open(
        self, path: str, body: AgentBody, prompt: Prompt, key: str, earlier: int = 0
    ) -> tuple[Wallet, str] | MessageFailed:
        """Return the part, and the session that its calls are paid from: `key` if they have one.
        `earlier` is what ended incarnations spent of it. A budget that does not bind takes no part:
        only the wallets limit what is spent."""
        shared = bool(body.fibers or body.authors)
        cap = self._cap(path, body, prompt, earlier)
        if cap is None and shared:
            self._wallets.open_session(key, path, None, prompt.session)
        if cap is None:
            return Wallet(), key if shared else prompt.session
        raised = self._wallets.raised
        if not shared and self._wallets.is_quoted(path):
            exhausted = self._wallets.short(path, cap, prompt.session)
            part = Wallet(cap, loose=True, raised=raised), prompt.session
            return (
                part
                if exhausted is None
                else budget_exceeded("this send may spend", cap, exhausted)
            )
        if shared:
            exhausted, opened = self._wallets.open_session(key, path, cap, prompt.session), key
        else:
            exhausted, opened = self._wallets.hold(path, cap, prompt.session), prompt.session
        if exhausted is not None:
            asks = self._wallets.asks(prompt.session, cap)
            paused = self._wallets.paused if asks else None
            return budget_exceeded("this send may spend", cap, exhausted, paused)
        return Wallet(None if shared else cap, raised=raised), opened

    def part(self, path: str, body: AgentBody, prompt: Prompt, earlier: int) -> Money | None:
        """Return the part that a send holds from its start, None if it holds none."""
        return None if self._wallets.is_quoted(path) else self._cap(path, body, prompt, earlier)

    def hold(
        self, path: str, send: Send, amount: Money, on_exceed: OnExceed
    ) -> MessageFailed | None:
        """Hold the most that a call may cost, or return why it does not fit. An agent that is set
        to ask pauses the run where its own budget is not enough, not where a wallet is; a session
        that is, where the session is not enough."""
        exhausted = None if send.part.fits(amount) else f"this send of {path}"
        is_its_own = exhausted is not None
        if exhausted is None and (send.part.cap is None or send.part.loose):
            exhausted = self._wallets.hold(path, amount, send.session)
            is_its_own = exhausted == name_of_session(path)
        if exhausted is not None:
            asks = is_its_own and on_exceed is OnExceed.ASK
            asks = asks or self._wallets.asks(send.session, amount)
            by_kill = self._wallets.paused_by_kill(exhausted)
            paused = self._wallets.paused if asks else by_kill
            return budget_exceeded("the next call could cost", amount, exhausted, paused)
        send.part.held += amount
        return None

    def settle(
        self,
        path: str,
        process: ProcessRecord,
        flight: InFlightEffect,
        outcome: EffectOutcome,
        body: AgentBody | None,
    ) -> None:
        """Charge a call to its send, also if that incarnation has ended since."""
        charged, send = charged_for(outcome), None
        if flight.generation == process.generation:
            send = (process.sends or {}).get(flight.message_id)
        could = flight.held if isinstance(outcome, Answered) and send is not None else charged
        spare = max(0, could - charged)
        if send is not None:
            send.part.settle(flight.held, charged)
            send.part.save(flight.held, charged, spare)
        if send is None or send.part.cap is None or send.part.loose:
            self._wallets.settle(path, flight.held, charged, flight.session, spare)
        if isinstance(outcome, Unknown) and outcome.cut:
            self._wallets.note_cut(path, flight.session, charged)
        if send is not None and body is not None and body.on_exceed is OnExceed.WARN:
            spent = self.charged(path, send)
            if body.budget is not None and spent > body.budget and not send.alerted:
                send.alerted = True
                self._wallets.alert(path, spent, body.budget)

    def give_back(self, path: str, send: Send, *, is_answered: bool = False) -> None:
        """Give back what a send did not spend. One without an answer may be made again, with what
        is left of its part, so nothing of that is saved."""
        part, saved = send.part, send.part.saved if is_answered else 0
        if part.loose:
            return
        if part.cap is not None:
            free = part.cap - part.held
            self._wallets.settle(path, free, part.spent, send.session, saved)
        elif self._wallets.owner_of(send.session) == path:
            self._wallets.of_session(send.session).spare *= is_answered
            self._wallets.close_session(send.session, forgotten=True)

    def charged(self, path: str, send: Send) -> Money:
        """Return what the send is charged, with what its tools and programs spent."""
        return Money(self._part(path, send).spent)

    def spent(self, path: str, send: Send) -> int:
        """Return what the send has spent. Calls in flight count in full."""
        part = self._part(path, send)
        return part.spent + part.held

    def _part(self, path: str, send: Send) -> Wallet:
        if send.part.cap is None and self._wallets.owner_of(send.session) == path:
            return self._wallets.of_session(send.session)
        return send.part

    def _cap(self, path: str, body: AgentBody, prompt: Prompt, earlier: int) -> Money | None:
        """Return the cap of the part. Without a budget an agent with tools gets fifty cents, or
        what is left; and in addition the most that a program of its model may cost."""
        part = send_budget(body, prompt.budget)
        if part is None:
            return None
        left = Money(max(part - earlier, 0))
        is_explicit = body.budget is not None or prompt.budget is not None
        room = None if is_explicit else self._wallets.room(path, prompt.session)
        return left if room is None else min(left, room)


def send_budget(body: AgentBody, budget: Money | None) -> Money | None:
    """Return the most that a send may spend, None if only the wallets limit it: the agent has no
    budget or one that warns or allows, and who sends names none."""
    if budget is None and body.on_exceed not in BINDING:
        return None
    cap = body.budget if budget is None else budget
    if cap is not None or not body.rule.tools:
        return cap
    return Money(DEFAULT_SEND_BUDGET + max((one.cost for one in body.authors.values()), default=0))


def name_of_session(owner: str) -> str:
    """Return how people are told of a session of a process."""
    return f"a session of {owner}"


def budget_exceeded(
    what: str, amount: Money, exhausted: str, paused: str | None = None
) -> MessageFailed:
    """Return the failure of a send whose part, or whose next call, does not fit. `paused` is what
    to do where that pauses the run."""
    kind = BudgetExceeded if paused is None else Paused
    fix = paused or "raise its wallet or budget, or lower max_tokens"
    what = f"{what} {format_money(amount)}, which is more than is left for {exhausted}"
    return MessageFailed(kind.__name__, f"{what}; {fix}")


# Sessions that a fiber opens and closes, and its questions about its budget.


_UNLIMITED = Money(2**63 - 1)


class BudgetSessions:
    """Carries out `budget` blocks of programs."""

    def __init__(self, core: Core, wallets: Wallets) -> None:
        self._core = core
        self._wallets = wallets

    def open(self, run: FiberRun, request: "OpenScope") -> bool:
        """Open a session, or fail the task if it does not fit. One that only warns, or allows all,
        takes no part: what is around it limits what is spent."""
        inside, key = run.session(request.inside), run.session(request.ticket)
        settings = request.settings or {}
        on_exceed = settings.get("on_exceed")
        cap = None if on_exceed in (OnExceed.WARN, OnExceed.ALLOW) else Money(request.amount)
        exhausted = self._wallets.open_session(key, run.path, cap, inside)
        if exhausted is None:
            session = self._core.state.sessions[key]
            session.asks = on_exceed == OnExceed.ASK
            session.alert_at = request.amount if on_exceed == OnExceed.WARN else None
            session.confirm, session.speculate = settings.get("confirm"), settings.get("speculate")
            run.vm.answer(request.ticket, None)
        else:
            room = self._wallets.seen_room(run.path, inside)
            why = (
                f"a budget of {format_money(Money(request.amount))} does not fit: {exhausted} has "
                f"only {format_money(room)} left; ask for less, or give it more"
            )
            run.vm.fail(request.ticket, BudgetExceeded.__name__, why)
        return True

    def close(self, run: FiberRun, request: "CloseScope") -> bool:
        """Close a session."""
        self._wallets.close_session(run.session(request.scope))
        return False

    def read_budget(self, run: FiberRun, request: "AskBudget") -> bool:
        """Answer as if no speculative call had been wasted. While a cancelled call is still in
        flight its cost is unknown, so the question waits until it lands."""
        if self._core.is_settling:
            run.fiber.budget_queries = {**run.fiber.budget_queries, request.ticket: request}
            self._core.state.budget_queries[run.path] = run.message_id
            return False
        wallet = self._wallets.nearest(run.path, run.session(request.scope))
        ceiling = self._core.state.bounds.ceiling
        if wallet is None and ceiling is not None:
            # No wallet of the program limits it, but the cap of the runtime around it does.
            top = self._wallets.top(run.path)
            wallet = Wallet(Money(ceiling), top.spent, top.held, wasted=top.wasted)
        known = (_UNLIMITED, Money(0), _UNLIMITED)
        if wallet is not None and wallet.room is not None:
            known = (wallet.room + wallet.wasted, wallet.spent - wallet.wasted, wallet.cap)
        run.vm.answer(request.ticket, {"$": "money", "of": known[request.what]})
        return True

    def retry_budget_queries(self, run: FiberRun) -> None:
        """Answer the questions about money that waited for calls in flight."""
        if not self._core.is_settling:
            from vegakit.vm import AskBudget

            budget_queries, run.fiber.budget_queries = run.fiber.budget_queries, {}
            for request in budget_queries.values():
                self.read_budget(run, convert(request, AskBudget))
