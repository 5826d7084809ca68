"""Answers of an earlier run, kept by a run of the edited program: it is walked through with them
before it begins, and pays only for what changed.

    the earlier run's answers, by the digest of their requests, in the order of its calls
                 │
                 ▼
    walk 1: in order, until an answer is needed that is not there       the k-th equal request
    walk 2: past that, as far as programs may look ahead                has the k-th answer
                 │
                 ▼
    rows of the new run: answered, free of charge, not committed ──▶ the run begins
                                                                           │
    what is left is given when the program comes to an equal request  ◀────┘

A walk is the machine itself with nothing behind it, so the places that it finds are those of the
run. What is kept is then found as what was begun early and answered in an earlier life is found:
by place and request, whatever is answered first, and after `kill -9` without the earlier run.

| an effect         | in a walk                                  | in the run                 |
|-------------------|--------------------------------------------|----------------------------|
| a model call      | is answered if its request was, else waits | found, or bought           |
| a tool, a person  | answers as recorded, else waits: from here | is called, is asked again  |
|                   | on what is kept is only likely             |                            |
| a wait            | is over when nothing else goes on          | is waited for              |
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec import structs

from vegakit.effects import CallModel, Cancel, Effect, SetTimer, Start
from vegakit.errors import VegaError
from vegakit.events import Answered, EffectCancelled, EffectOutcome, OutcomeArrived
from vegakit.host.journal import JournaledRun, PastAnswers
from vegakit.host.program_run import ProgramRun
from vegakit.host.services import CompiledProgram
from vegakit.ids import EffectKey, ProgramId
from vegakit.money import Money
from vegakit.policy import ChildType
from vegakit.ports import ReusedRun
from vegakit.program import (
    Action,
    Answer,
    Event,
    Machine,
    Post,
    ProcessMessage,
    ProcessSpec,
    Program,
    Spawn,
    Spawned,
)

_MOST_STEPS = 200_000
"""A walk that takes longer has told enough."""
_FAR = 100_000
"""How many calls a walk looks ahead: nothing is in flight that could be too much."""
_AT_ONCE = 200
_ASK = "walk"


class Kept(NamedTuple):
    """A call of the new run whose answer is there, and the least budget around it, if any."""

    effect: Effect
    answer: Answered
    cap: Money | None


class Walk(NamedTuple):
    """A walk says what is known of a run before it begins. `bought` are calls that it comes to and
    that nobody answered; one that `is_sure` was led by nothing that may be otherwise when it runs;
    one that `is_whole` came to its end."""

    kept: tuple[Kept, ...]
    bought: tuple[Effect, ...]
    is_sure: bool
    is_whole: bool

    def spared(self, quoted: int) -> int:
        """Return what a quote counts for calls that are kept. Of a send only the first call is
        taken, since repeats are counted from a pool, and only where the quote is below every budget
        around it: else one of them may be counted in place of what stands in it."""
        calls = (one for one in self.kept if _is_first(one.effect))
        return sum(_worst(one.effect) for one in calls if one.cap is None or one.cap > quoted)

    def at_most(self, quoted: int | None, cap: int | None) -> Money | None:
        """Return what a run may cost at most that is quoted so: its cap where nothing bounds it,
        and nothing at all where it has all its answers."""
        if self.is_sure and self.is_whole and not self.bought:
            return Money(0)
        if quoted is not None and self.is_sure:
            quoted -= self.spared(quoted)
        known = [max(0, bound) for bound in (quoted, cap) if bound is not None]
        return Money(int(min(known))) if known else None

    def most_to_buy(self, sends: int | None) -> int | None:
        """Return how many answers a run of so many sends buys at most, repeats left out; None where
        nobody knows."""
        if sends is None:
            return None
        kept = sum(_is_first(one.effect) for one in self.kept)
        return max(sends - kept, len(self.bought))


def _worst(effect: Effect) -> int:
    assert isinstance(effect.request, CallModel)
    return effect.request.worst_case


def _is_first(effect: Effect) -> bool:
    """Return whether this is the first call of a send, and no repeat of it."""
    return effect.path.occurrence == 0 and not any(effect.path.loop)


# A walk: the machine, and nothing of the world.


class _Walker:
    def __init__(self, machine: Machine, past: PastAnswers, now: int) -> None:
        self._machine, self._past, self._now = machine, past, now
        self._arrived: deque[Event] = deque()
        self._timers: dict[EffectKey, Effect] = {}
        self._waiting: dict[EffectKey, Effect] = {}
        self._kept: dict[EffectKey, Kept] = {}
        self._is_sure, self._is_whole = True, False

    def go(self, spec: ProcessSpec, given: Sequence[Any]) -> Walk:
        [path] = [one.path for one in self._step(Spawn(spec, "")) if isinstance(one, Spawned)]
        self._arrived.append(Post(path, ProcessMessage(list(given), _ASK)))
        try:
            for _ in range(_MOST_STEPS):
                if self._is_whole or (event := self._next()) is None:
                    break
                self._step(event)
        except VegaError:  # what no walk can follow, the run will meet
            self._is_sure = False
        bought = (one for one in self._waiting.values() if isinstance(one.request, CallModel))
        return Walk(tuple(self._kept.values()), tuple(bought), self._is_sure, self._is_whole)

    def _next(self) -> Event | None:
        """Return what happens next. Time only passes where nothing else goes on: what waits for an
        answer that is not there may have it in less time than any deadline."""
        if self._arrived:
            return self._arrived.popleft()
        due = {key: _due(one) for key, one in self._timers.items()}
        first = min(due, key=lambda key: due[key], default=None)
        if first is None or (self._waiting and due[first] > self._now):
            return None
        self._now = max(self._now, due[first])
        return self._outcome(self._timers.pop(first), Answered(None))

    def _step(self, event: Event) -> list[Action]:
        actions = self._machine.step(event, self._now)
        for action in actions:
            match action:
                case Start(effect):
                    self._begin(effect)
                case Cancel(key):
                    effect = self._timers.pop(key, None) or self._waiting.pop(key, None)
                    if effect is not None:
                        self._arrived.append(self._outcome(effect, EffectCancelled()))
                case Answer(ask) if ask == _ASK:
                    self._is_whole = True
                case _:
                    pass
        return actions

    def _begin(self, effect: Effect) -> None:
        if isinstance(effect.request, SetTimer):
            self._timers[effect.key] = effect
            return
        answer = self._past.take(effect)
        if answer is None:
            self._waiting[effect.key] = effect
            return
        if isinstance(effect.request, CallModel):
            self._kept[effect.key] = Kept(effect, answer, self._cap_of(effect))
        else:
            self._is_sure = False
        self._arrived.append(self._outcome(effect, answer))

    def _cap_of(self, effect: Effect) -> Money | None:
        state = self._machine.state
        flight = state.effects_in_flight[effect.key]
        send = (state.processes[flight.path].sends or {}).get(flight.message_id)
        if send is None:
            return Money(0)
        wallet = self._machine.wallets.nearest(flight.path, flight.session)
        caps = (send.part.cap, None if wallet is None else wallet.cap)
        return min((cap for cap in caps if cap is not None), default=None)

    def _outcome(self, effect: Effect, outcome: EffectOutcome) -> OutcomeArrived:
        return OutcomeArrived(effect.key, effect.path, outcome)


def _due(effect: Effect) -> int:
    assert isinstance(effect.request, SetTimer)
    return effect.request.due_ms


# A run that keeps answers: walked, written down, and said.


async def walk_through(
    run: ProgramRun,
    journaled: JournaledRun,
    earlier: ProgramId,
    program: CompiledProgram,
    function: str,
    given: Sequence[Any],
    allowed: Sequence[str] | None = None,
) -> Walk:
    """Walk through a program with the answers of an earlier run of the same journal. Nothing is
    called and nothing written."""
    body = (await run.deployed(program, allowed)).bodies[function]
    past = PastAnswers(await journaled.journal.past(earlier))
    spec, now = ProcessSpec(body, ChildType.TEMPORARY), run.host.now

    def walked(window: int) -> Walk:
        bounds = structs.replace(
            run.machine.state.bounds, window=window, ceiling=None, guesses=0, least_guesses=0
        )
        state = Program(run.id, bounds=bounds, recorded=True, replaying=True)
        return _Walker(Machine(state, run.registry.code), past, now).go(spec, given)

    in_order = walked(0)
    # The second walk takes what the first has given by the places that it has in both.
    return in_order if in_order.is_whole else walked(_FAR)


async def keep_answers(
    run: ProgramRun,
    journaled: JournaledRun,
    walk: Walk,
    earlier: ProgramId,
    at_most: Money | None,
) -> None:
    """Write what a walk has kept into the journal of the run, which then begins with it and costs
    `at_most` so much."""
    journal, now, rows = journaled.journal, run.host.now, walk.kept
    for at in range(0, len(rows), _AT_ONCE):
        with journal.atomically():
            writes = [
                write
                for one in rows[at : at + _AT_ONCE]
                for write in (
                    journal.claim(one.effect, now, speculative=True),
                    journal.record(one.effect.key, one.answer),
                )
            ]
        for write in writes:
            await write
    # Last: a run that is killed before this begins anew with its walk.
    reused = ReusedRun(earlier, len(walk.kept), len(walk.bought), at_most)
    await journaled.note(reused=reused)
    run.rest_limits()


async def keep_rest(run: ProgramRun, journaled: JournaledRun, earlier: ProgramId) -> PastAnswers:
    """Keep also what no walk could meet: a request that the run comes to behind an answer that it
    bought has the next answer that nobody has."""
    past = PastAnswers(await journaled.journal.past(earlier))
    past.leave_out(await journaled.journal.past(journaled.run.program))
    run.host.keep(past)
    return past
