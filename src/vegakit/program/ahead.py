"""What a program begins before its turn: whether there is money for it, and what came of it.

A call begun early must leave enough for every call that comes before it in the program: only then
do all of them find what they would have found one after another. So it is admitted if its own worst
case fits beside the worst cases of all that is older and not over; else it waits for its turn, or
for older calls to settle for less.
"""

from msgspec.structs import replace

from vegakit.effects import Cancel, Commit
from vegakit.events import EffectOutcome, charged_for
from vegakit.lang import ANY_AGENT
from vegakit.money import Money
from vegakit.prices import worst_case
from vegakit.program.actions import Overlapped, Wasted
from vegakit.program.bodies import AgentBody, FiberBody
from vegakit.program.core import Core
from vegakit.program.mail import Mail
from vegakit.program.parts import part_of
from vegakit.program.purses import Purses
from vegakit.program.running import Run
from vegakit.program.state import Course, EarlyCall, Flight, Ghost, TimerKind
from vegakit.program.wallet import Wallet
from vegakit.vm import Early, Older

__all__ = ["Ahead"]

_BYTES_A_TOKEN = 8
"""An answer is taken to be no longer than this for each token it may have."""

_STEPS = 2
"""Calls of a send without tools: an empty answer is asked for again."""

_AROUND = 1_000
"""Tokens that a provider may add to a message."""


class Ahead:
    def __init__(self, core: Core, purses: Purses) -> None:
        self._core = core
        self._purses = purses

    def admits(self, run: Run, want: Early) -> int | None:
        """What it could cost; None when it has to wait. Every cap is looked at for itself: a send
        counts where it would be held."""
        if want.mine is None:
            return 0
        wallet = self._wallet(run, want.mine)
        room = self._room(run.path) if wallet is None else wallet.room
        if room is None or self._purses.spends_its_quote(run.path, run.session(want.mine.scope)):
            return 0
        quoted = self._purses.is_quoted(run.path)
        beside = [one for one in want.older if self._wallet(run, one) is wallet]
        older = [want.mine, *(self._begun(run.words, one) for one in beside)]
        worst = [self._worst(run.body, one, quoted=quoted) for one in older]
        mine, total = worst[0] or 0, sum(one or 0 for one in worst)
        fits = not want.many and None not in worst and total <= room
        return mine if fits and self._may_be_wasted(run.session(want.mine.scope), mine) else None

    def _may_be_wasted(self, session: str, amount: int) -> bool:
        """`speculate $m` on a session: no more than this may be begun early in it, or wasted."""
        state = self._core.state
        for key in self._purses.around(session):
            most = state.sessions[key].speculate
            if most is None:
                continue
            calls = state.early.values()
            early = sum(c.worst for c in calls if key in self._purses.around(c.session))
            if early + state.wallets[key].wasted + amount > most:
                return False
        return True

    def _wallet(self, run: Run, send: Older) -> Wallet | None:
        """The nearest with a cap that its calls have to fit."""
        path = send.to if send.to in self._core.state.processes else run.path
        return self._purses.nearest(path, run.session(send.scope))

    def _begun(self, words: str, older: Older) -> Older:
        """It holds its part from when its letter is taken, which may be later in this step."""
        path, letter = self._core.state.asks.get(f"{words}{older.flying}", ("", 0))
        process = self._core.state.processes.get(path)
        held = process is not None and letter in (process.sends or ())
        return older if held else replace(older, flying="")

    def _room(self, path: str) -> int | None:
        """Under the cap that the whole program runs under."""
        ceiling = self._core.state.bounds.ceiling
        if ceiling is None:
            return None
        top = self._purses.top(path)
        return max(0, ceiling - top.spent - top.held)

    def _worst(self, body: FiberBody, older: Older, *, quoted: bool) -> int | None:
        """None where nothing bounds it."""
        if older.agent == ANY_AGENT:
            bodies = (self._body(body, name) for name in body.stateless)
            worst = [self._worst_of(one, older, quoted=quoted) for one in bodies]
            return None if None in worst else max((w or 0 for w in worst), default=0)
        return self._worst_of(self._body(body, older.agent), older, quoted=quoted)

    def _body(self, body: FiberBody, agent: str) -> AgentBody:
        made = self._core.code[body.stateless[agent].body]
        assert isinstance(made, AgentBody)
        return made

    def _worst_of(self, body: AgentBody, older: Older, *, quoted: bool) -> int | None:
        """In a program that a model wrote no send holds its part: its calls do, one by one."""
        budget = None if older.budget is None else Money(older.budget)
        part = part_of(body, budget)
        if part is not None and quoted:
            calls = None if body.rule.tools else self._worst_of_calls(body, older)
            return part if calls is None else min(part, calls)
        if part is not None:
            return 0 if older.flying else part
        return self._worst_of_calls(body, older)

    def _worst_of_calls(self, body: AgentBody, older: Older) -> int | None:
        most, room = body.rule.settings.max_tokens, body.rule.input_room
        tokens = None
        if older.size >= 0:
            answers = older.answers * most * _BYTES_A_TOKEN
            tokens = older.size + answers + len(body.rule.system) + _AROUND
        if tokens is None or (room is not None and room < tokens):
            tokens = room
        if body.price is None or tokens is None:
            return None
        steps = _STEPS + (body.rule.output_retries if older.typed else 0)
        calls = steps * body.retry.max_attempts
        return worst_case(body.price, tokens, most) * (calls - bool(older.flying))

    # Accounts

    def begin(self, word: str, to: str, session: str, worst: int) -> None:
        self._core.state.early[word] = EarlyCall(to, session, worst)

    def on_begun(self, course: Course, ticket: str) -> None:
        course.begun = course.begun | {ticket: (self._core.now, course.chain_ms)}

    def on_answer(self, course: Course, ticket: str, word: str, charged: int = 0) -> bool:
        """Whether it is early."""
        early = self._core.state.early.get(word)
        began_ms, chain_ms = course.begun.get(ticket, (self._core.now, course.chain_ms))
        course.begun = {t: when for t, when in course.begun.items() if t != ticket}
        took_ms = self._core.now - began_ms
        course.chain_ms = chain_ms + took_ms
        course.longest_ms = max(course.longest_ms, course.chain_ms)
        course.answered_ms += took_ms
        if early is not None:
            early.took_ms, early.charged = took_ms, early.charged + charged
        return early is not None

    def on_taken(self, run: Run, word: str) -> None:
        """Its effects belong to the program, or to the speculative call that this fiber is part
        of."""
        early = self._core.state.early.pop(word, None)
        if early is None:
            return
        around = self._core.speculates(run.process, run.letter)
        if around is not None:
            around.effects = [*around.effects, *early.effects]
            around.calls += early.calls
        else:
            self._core.out += map(Commit, early.effects)

    def on_given_up(self, path: str, course: Course, ticket: str, word: str) -> None:
        """What it cost so far is waste, and what it still costs when it lands. What it left in a
        memory is forgotten: whatever was remembered after it was given up before it."""
        state = self._core.state
        early = state.early.pop(word, None)
        if early is None:
            return
        process = state.processes.get(early.to)
        if process is not None and early.remembers:
            process.memory = early.memory
        course.begun = {t: when for t, when in course.begun.items() if t != ticket}
        course.answered_ms -= early.took_ms
        for made in self._core.authored_around(path):
            made.calls -= early.calls  # whose model is told how many calls the program made
        for key in early.effects:
            state.given_up[key] = state.given_up.get(key, 0) + 1
            if key not in state.flights:
                self._core.out.append(Cancel(key))  # a host need not keep what came of it
        state.doomed |= {key: None for key, ask in state.leaving.items() if ask == word}
        place = state.asks.get(word)
        if place is not None:
            self.doom(*place)
        self.waste(path if process is None else early.to, early.session, early.charged)

    def waste(self, path: str, session: str, amount: int) -> None:
        if amount:
            self._purses.waste(path, session, amount)
            self._core.out.append(Wasted(path, Money(amount)))

    def doom(self, path: str, letter: int) -> None:
        """What it has spent is waste, and what is under way will be when it lands."""
        state = self._core.state
        process = state.processes[path]
        send = (process.sends or {}).get(letter)
        if send is None:
            return
        shared = send.session if self._purses.owner_of(send.session) == path else ""
        for key, flight in state.flights.items():
            mine = flight.path == path and flight.letter == letter
            if mine or (shared and shared in self._purses.around(flight.session)):
                state.doomed[key] = None
        part = self._purses.of_session(shared) if shared else send.part
        self.waste(path, send.session, part.spent)

    def on_withdrawn(self, path: str, letter: int, mail: Mail) -> None:
        """What an early call has spent that ran out of time."""
        early, process = self._core.early(mail), self._core.state.processes[path]
        send = (process.sends or {}).get(letter)
        if early is not None and send is not None:
            early.charged += send.part.spent

    def on_landed(self, flight: Flight, outcome: EffectOutcome) -> None:
        word = self._core.state.leaving.pop(flight.effect.key, "")
        early = self._core.state.early.get(word)
        if early is not None:
            early.charged += charged_for(outcome)
        if flight.effect.key in self._core.state.doomed:
            del self._core.state.doomed[flight.effect.key]
            self.waste(flight.path, flight.session, charged_for(outcome))
        self._look_again()

    def on_ghost_landed(self, ghost: Ghost, outcome: EffectOutcome) -> None:
        if ghost.is_waste:
            self.waste(ghost.flight.path, ghost.flight.session, charged_for(outcome))
        self._look_again()

    def _look_again(self) -> None:
        """Who looks at the budget waits until nothing that was cancelled is under way."""
        if not self._core.is_settling:
            for path, letter in self._core.state.looking.items():
                self._core.wake_at(self._core.now, TimerKind.SEND, path, letter)
            self._core.state.looking.clear()

    def on_over(self, path: str, course: Course) -> None:
        if course.answered_ms:
            self._core.out.append(Overlapped(path, course.answered_ms, course.longest_ms))
