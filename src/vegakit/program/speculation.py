"""Speculative calls: whether there is money for one, what became of it, and what was wasted (pure).

A speculative call must leave enough money for every call that comes before it in the program. Only
then does each call find the money that it would have found in sequential order.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from vegakit.effects import Cancel, Commit
from vegakit.events import EffectOutcome, charged_for
from vegakit.ids import ANY_AGENT
from vegakit.money import Money
from vegakit.prices import worst_case
from vegakit.program.bodies import AgentBody, FiberBody, FiberRun, StandInBody
from vegakit.program.core import Core
from vegakit.program.messages import ProcessMessage
from vegakit.program.protocol import OverlapReport, WastedCost
from vegakit.program.state import (
    AskedAt,
    CallBegan,
    CriticalPath,
    InFlightEffect,
    ProcessRecord,
    SpeculativeCallRecord,
    SupersededEffect,
    TimerKind,
    Wallet,
)
from vegakit.program.wallets import Wallets, send_budget

if TYPE_CHECKING:
    from vegakit.vm import PriorSend, SpeculativeCall

_NOWHERE = AskedAt("", 0)
_BYTES_A_TOKEN = 8
"""The most bytes of an answer that are assumed for each token."""

_STEPS = 2
"""Model calls of a send without tools: after an empty answer there is a second one."""

_AROUND = 1_000
"""The most tokens that a provider adds to a message."""


class Speculation:
    """Keeps account of calls begun before their turn, and of what they cost if they are not
    used."""

    def __init__(self, core: Core, wallets: Wallets) -> None:
        self._core = core
        self._wallets = wallets

    def admits(self, run: FiberRun, request: "SpeculativeCall") -> int | None:
        """Return the most that the call could cost, or None if it has to wait for its turn. A guess
        has to fit the limit on guesses, too."""
        # Money that a send of the program waits for is not for what is begun before its turn.
        worst = None if self._core.state.short else self._affordable(run, request)
        if worst is None or not request.guess:
            return worst
        return worst if self._may_guess(run.path, request, self.at_stake(run, request)) else None

    def at_stake(self, run: FiberRun, request: "SpeculativeCall") -> int | None:
        """Return the most that a guess may cost in vain, None if nothing bounds it or if it is no
        guess."""
        if request.mine is None or not request.guess:
            return None
        return self._worst(run.body, request.mine, quoted=True)

    def _may_guess(self, path: str, request: "SpeculativeCall", amount: int | None) -> bool:
        """Check the limits on guesses: those in flight and those in vain together may not cost
        more, unless they are fewer than a run may begin in any case."""
        if amount is None or request.mine is None:
            return False
        agent = request.mine.agent
        bounds = self._core.state.bounds
        guesses = self._core.state.guesses
        limit = bounds.agent_guesses.get(agent)
        if limit is not None and guesses.of_agents.get(agent, 0) + amount > limit:
            return False
        for program in self._core.authored_around(path):
            if program.guesses is not None and program.at_stake + amount > program.guesses:
                return False
        fits = guesses.at_stake + amount <= (bounds.guesses or 0)
        return fits or guesses.calls < bounds.least_guesses

    def _affordable(self, run: FiberRun, request: "SpeculativeCall") -> int | None:
        """Return the most that the call could cost, or None if there may be no money for it. Every
        cap is checked by itself: an older send counts against the caps in which it would be
        held."""
        if request.mine is None:
            return 0
        if run.path not in self._core.state.processes:
            return None  # it was killed in this step: nothing of it is to begin
        if self._is_stand_in(run.body, request.mine.agent):
            return None  # what it asks is committed at once, and counted: it is never in vain
        wallet = self._wallet(run, request.mine)
        room = self._room(run.path) if wallet is None else wallet.room
        if room is None or self._wallets.spends_its_quote(
            run.path, run.session(request.mine.scope)
        ):
            return 0
        # Older sends of another wallet do not take from this one, so they are left out: counted
        # in, they would hold back calls that can be paid for.
        beside = [*self._beside(run, request.older, wallet)]
        older = [request.mine, *(self._begun(run.ask_prefix, one) for one in beside)]
        worst = self._worst_of_all(run, older)
        mine, total = worst[0] or 0, sum(one or 0 for one in worst)
        fits = not request.many and None not in worst and total <= room
        return mine if fits and self._may_be_wasted(run.session(request.mine.scope), mine) else None

    def _beside(
        self, run: FiberRun, older: "Sequence[PriorSend]", wallet: Wallet | None
    ) -> "Iterator[PriorSend]":
        """Yield the older sends that take from the same wallet."""
        known: dict[tuple[str, str], bool] = {}
        for one in older:
            place = one.to, one.scope
            if place not in known:
                known[place] = self._wallet(run, one) is wallet
            if known[place]:
                yield one

    def _worst_of_all(self, run: FiberRun, sends: "Sequence[PriorSend]") -> list[int | None]:
        """Return the most that each of these sends may cost. Those of a loop are mostly alike, and
        each new call is weighed against all of them."""
        quoted = self._wallets.is_quoted(run.path)
        known: dict[object, int | None] = {}
        worst: list[int | None] = []
        for one in sends:
            alike = one.agent, one.size, one.answers, one.typed, one.budget, bool(one.in_flight)
            if alike not in known:
                known[alike] = self._worst(run.body, one, quoted=quoted)
            worst.append(known[alike])
        return worst

    def _may_be_wasted(self, session: str, amount: int) -> bool:
        """Check `speculate $m` of the sessions around: speculative calls in flight and wasted calls
        together may not cost more."""
        state = self._core.state
        for key in self._wallets.around(session):
            most = state.sessions[key].speculate
            if most is None:
                continue
            calls = state.speculative.values()
            speculative = sum(c.worst for c in calls if key in self._wallets.around(c.session))
            if speculative + state.wallets[key].wasted + amount > most:
                return False
        return True

    def _wallet(self, run: FiberRun, send: "PriorSend") -> Wallet | None:
        """Return the nearest wallet with a cap that the calls of the send have to fit."""
        path = send.to if send.to in self._core.state.processes else run.path
        return self._wallets.nearest(path, run.session(send.scope))

    def _begun(self, ask_prefix: str, older: "PriorSend") -> "PriorSend":
        """Return the older send, as in flight only if it holds its part by now. It does so from the
        moment its message is taken, which may be later in this step."""
        place = self._core.state.asks.get(f"{ask_prefix}{older.in_flight}", _NOWHERE)
        process = self._core.state.processes.get(place.path)
        held = process is not None and place.message_id in (process.sends or ())
        return older if held else replace(older, in_flight="")

    def _room(self, path: str) -> int | None:
        """Return the room under the cap on the whole program."""
        ceiling = self._core.state.bounds.ceiling
        if ceiling is None:
            return None
        top = self._wallets.top(path)
        return max(0, ceiling - top.spent - top.held)

    def _worst(self, body: FiberBody, older: "PriorSend", *, quoted: bool) -> int | None:
        """Return the most that an older send may cost, None if nothing bounds it."""
        if older.agent == ANY_AGENT:
            bodies = (self._body(body, name) for name in body.stateless)
            worst = [self._worst_of(one, older, quoted=quoted) for one in bodies]
            return None if None in worst else max((w or 0 for w in worst), default=0)
        return self._worst_of(self._body(body, older.agent), older, quoted=quoted)

    def _is_stand_in(self, body: FiberBody, agent: str) -> bool:
        """Return whether a send to this agent may be answered by a stand-in."""
        names = body.stateless if agent == ANY_AGENT else (agent,)
        return any(isinstance(self._body(body, name), StandInBody) for name in names)

    def _body(self, body: FiberBody, agent: str) -> AgentBody | StandInBody:
        made = self._core.code[body.stateless[agent].body]
        assert isinstance(made, AgentBody | StandInBody)
        return made

    def _worst_of(
        self, body: AgentBody | StandInBody, older: "PriorSend", *, quoted: bool
    ) -> int | None:
        """Return the most that a send to this agent may cost. In a program that a model wrote a
        send holds no part: each of its calls is held by itself."""
        budget = None if older.budget is None else Money(older.budget)
        if isinstance(body, StandInBody):
            return 0 if older.in_flight else (body.budget if budget is None else budget)
        part = send_budget(body, budget)
        if part is not None and quoted:
            calls = None if body.rule.tools else self._worst_of_calls(body, older)
            return part if calls is None else min(part, calls)
        if part is not None:
            return 0 if older.in_flight else part
        if body.rule.tools:  # its budget does not bind, and nothing bounds what its tools spend
            return None
        return self._worst_of_calls(body, older)

    def _worst_of_calls(self, body: AgentBody, older: "PriorSend") -> int | None:
        longest = max(choice.rule.settings.max_tokens for choice in body.choices)
        answers = older.answers * longest * _BYTES_A_TOKEN
        size = older.size + answers + len(body.rule.system) + _AROUND if older.size >= 0 else None
        steps = _STEPS + (body.rule.output_retries if older.typed else 0)
        total = 0
        for number, choice in enumerate(body.choices):
            # One of the first model's calls may be in flight: it is held already.
            calls = steps * choice.retry.max_attempts - (bool(older.in_flight) and number == 0)
            rooms = [room for room in (size, choice.rule.input_room) if room is not None]
            if choice.price is None or not rooms:
                return None
            most = choice.rule.settings.max_tokens
            total += worst_case(choice.price, max(min(rooms), 0), most) * calls
        return total

    # Accounting

    def begin(self, run: FiberRun, request: "SpeculativeCall", to: str, worst: int) -> None:
        """Note that a call was begun before its turn, to the process `to` if it is a send to one,
        with the money at stake if it is a guess."""
        record = SpeculativeCallRecord(to, run.session(request.of.scope), worst)
        at_stake = self.at_stake(run, request)
        if request.mine is not None and at_stake is not None:
            record.guess = request.mine.agent
            record.at_stake = at_stake
            self._stake(run.path, record.guess, at_stake, 1)
        self._core.state.speculative[f"{run.ask_prefix}{request.of.ticket}"] = record

    def _stake(self, path: str, agent: str, amount: int, calls: int = 0) -> None:
        """Count the money at stake by guesses: for the run, for the agent, and for the programs by
        models around."""
        guesses = self._core.state.guesses
        guesses.at_stake += amount
        guesses.calls += calls
        guesses.peak = max(guesses.peak, guesses.at_stake)
        of_agent = guesses.of_agents.pop(agent, 0) + amount
        if of_agent:
            guesses.of_agents[agent] = of_agent
        for program in self._core.authored_around(path):
            program.at_stake += amount

    def on_begun(self, critical_path: CriticalPath, ticket: str) -> None:
        """Note when a call began, and how long the chain of calls is that it waited for."""
        critical_path.begun[ticket] = CallBegan(self._core.now, critical_path.chain_ms)

    def on_answer(
        self, critical_path: CriticalPath, ticket: str, ask_key: str, charged: int = 0
    ) -> bool:
        """Record the result of a call. Return whether the call is still speculative."""
        speculative = self._core.state.speculative.get(ask_key)
        began = critical_path.begun.pop(ticket, None)
        took_ms = 0 if began is None else self._core.now - began.at_ms
        chain_ms = critical_path.chain_ms if began is None else began.chain_ms
        critical_path.chain_ms = chain_ms + took_ms
        critical_path.longest_ms = max(critical_path.longest_ms, critical_path.chain_ms)
        critical_path.answered_ms += took_ms
        if speculative is not None:
            speculative.took_ms, speculative.charged = took_ms, speculative.charged + charged
        return speculative is not None

    def on_taken(self, run: FiberRun, ask_key: str) -> None:
        """Note that the program uses the call: its effects now belong to the program, or to the
        speculative call that this fiber is part of."""
        speculative = self._core.state.speculative.pop(ask_key, None)
        if speculative is None:
            return
        if speculative.guess:
            self._stake(run.path, speculative.guess, -speculative.at_stake, -1)
        around = self._core.speculates(run.process, run.message_id)
        if around is not None:
            around.effects = [*around.effects, *speculative.effects]
            around.calls += speculative.calls
        else:
            self._core.out += map(Commit, speculative.effects)

    def on_given_up(
        self, path: str, critical_path: CriticalPath, ticket: str, ask_key: str
    ) -> None:
        """Count the call as wasted: what it has cost, and what it will have cost when it lands. The
        process that it was sent to forgets it. Calls that the process remembered after it were
        cancelled before it."""
        state = self._core.state
        speculative = state.speculative.pop(ask_key, None)
        if speculative is None:
            return
        process = state.processes.get(speculative.to)
        # The process goes back to what it knew before the call. This is only right because later
        # calls to it were given up first: they have seen this one.
        if process is not None and speculative.remembers:
            process.memory = speculative.memory
        critical_path.begun.pop(ticket, None)
        critical_path.answered_ms -= speculative.took_ms
        for made in self._core.authored_around(path):
            made.calls -= speculative.calls  # whose model is told how many calls the program made
        for key in speculative.effects:
            # If the program comes to the same effect after all, it is begun anew under another
            # number: the ledger has claims for this one already.
            state.given_up[key] = state.given_up.get(key, 0) + 1
            if key not in state.effects_in_flight:
                self._core.out.append(Cancel(key))  # a host need not keep what came of it
        state.wasted_effects |= {
            key: None for key, ask in state.cancelling.items() if ask == ask_key
        }
        place = state.asks.get(ask_key)
        is_over = place is None and state.effects_in_flight.keys().isdisjoint(speculative.effects)
        if speculative.guess and is_over:
            # Its cost is final now. A part in flight could still be billed.
            spared = min(speculative.charged - speculative.at_stake, 0)
            self._stake(path, speculative.guess, spared)
        if place is not None:
            self.mark_wasted(place.path, place.message_id)
        self.waste(
            path if process is None else speculative.to, speculative.session, speculative.charged
        )

    def waste(self, path: str, session: str, amount: int) -> None:
        """Count money that was spent on a call that is not used."""
        if amount:
            self._wallets.waste(path, session, amount)
            self._core.out.append(WastedCost(path, Money(amount)))

    def mark_wasted(self, path: str, message_id: int) -> None:
        """Count what a message has spent as waste, and its effects in flight when they land."""
        state = self._core.state
        process = state.processes[path]
        send = (process.sends or {}).get(message_id)
        if send is None:
            return
        shared = send.session if self._wallets.owner_of(send.session) == path else ""
        for key, flight in state.effects_in_flight.items():
            mine = flight.path == path and flight.message_id == message_id
            if mine or (shared and shared in self._wallets.around(flight.session)):
                state.wasted_effects[key] = None
        part = self._wallets.of_session(shared) if shared else send.part
        self.waste(path, send.session, part.spent)

    def on_withdrawn(self, path: str, message_id: int, message: ProcessMessage) -> None:
        """Count what a speculative call has spent that ran out of time."""
        speculative, process = self._core.speculative(message), self._core.state.processes[path]
        send = (process.sends or {}).get(message_id)
        if speculative is not None and send is not None:
            speculative.charged += send.part.spent

    def on_stopped(self, path: str, process: ProcessRecord) -> None:
        """Count what the speculative calls in hand have spent, of which nothing is known any more
        once the process has let go of its work."""
        if process.mailbox is not None:
            for message_id in process.mailbox.in_hand:
                if (taken := process.mailbox.taken(message_id)) is not None:
                    self.on_withdrawn(path, message_id, taken.message)

    def on_landed(self, flight: InFlightEffect, outcome: EffectOutcome) -> None:
        """Charge the outcome of a speculative or cancelled call."""
        ask_key = self._core.state.cancelling.pop(flight.effect.key, "")
        speculative = self._core.state.speculative.get(ask_key)
        if speculative is not None:
            speculative.charged += charged_for(outcome)
        if flight.effect.key in self._core.state.wasted_effects:
            del self._core.state.wasted_effects[flight.effect.key]
            self.waste(flight.path, flight.session, charged_for(outcome))
        self._wake_budget_queries()

    def on_superseded_landed(
        self, superseded_effect: SupersededEffect, outcome: EffectOutcome
    ) -> None:
        """Charge the outcome of an effect that was begun again since."""
        if superseded_effect.is_waste:
            self.waste(
                superseded_effect.flight.path,
                superseded_effect.flight.session,
                charged_for(outcome),
            )
        self._wake_budget_queries()

    def _wake_budget_queries(self) -> None:
        """Wake the questions about the budget, once nothing that was cancelled is in flight."""
        # Until then nobody can say what is left: a cancelled call may still be billed.
        if not self._core.is_settling:
            for path, message_id in self._core.state.budget_queries.items():
                self._core.wake_at(self._core.now, TimerKind.SEND, path, message_id)
            self._core.state.budget_queries.clear()

    def on_over(self, path: str, critical_path: CriticalPath) -> None:
        """Report how far the calls of a fiber overlapped."""
        if critical_path.answered_ms:
            self._core.out.append(
                OverlapReport(path, critical_path.answered_ms, critical_path.longest_ms)
            )
