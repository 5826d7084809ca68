"""Workers of bodies that are Python: reducers, which decide by a pure function, coroutines, which
only a local host can run, and stand-ins for agents of a program (pure).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from vegakit.conversation import Text
from vegakit.effects import WHOLE_INCARNATION, AskHuman, RunCoroutine
from vegakit.errors import AgentFailed
from vegakit.events import Answered, EffectOutcome
from vegakit.money import Money
from vegakit.policy import INTERRUPT_KINDS, ExitKind, ExitReason, InterruptKind, Taken
from vegakit.program.bodies import CoroutineBody, ReducerBody, StandInBody, model_terms
from vegakit.program.core import Core, Worker
from vegakit.program.messages import (
    MessageFailed,
    Outcome,
    ProcessMessage,
    Prompt,
    ResultMessage,
    Returned,
    as_record,
    plain_outcome,
    system_message,
)
from vegakit.program.paid_repeats import RepeatPools
from vegakit.program.processes import Incarnations
from vegakit.program.protocol import (
    AskPerson,
    AskProcess,
    DeferReply,
    Exit,
    ReducerAction,
    Respond,
    SendAfter,
    Spawn,
    SpawnChild,
    Tell,
)
from vegakit.program.spawn import Spawner
from vegakit.program.state import InFlightEffect, ProcessPhase, ProcessRecord
from vegakit.program.wallets import Wallets, budget_exceeded

if TYPE_CHECKING:
    from vegakit.lang import CostBound

# Reducers: `react(state, message)` returns the next state and the actions, and is pure.


_OVERWRITTEN = MessageFailed(
    "AgentFailed", "its answer was put off under a word that was then used for another ask"
)


class ReducerWorker(Worker):
    """Runs reducers."""

    def __init__(self, core: Core, incarnations: Incarnations, spawning: Spawner) -> None:
        super().__init__(core)
        self._incarnations = incarnations
        self._spawner = spawning

    def begin(self, path: str, process: ProcessRecord) -> None:
        body = self._core.body_of(process)
        if isinstance(body, ReducerBody) and process.memory is None:
            process.memory = body.initial

    def work(self, path: str, process: ProcessRecord) -> None:
        body = self._core.body_of(process)
        assert isinstance(body, ReducerBody)
        while process.phase is ProcessPhase.UP:
            taken = self._core.take(path, process)
            if taken is None or process.mailbox is None:
                return
            process.memory, dos = body.react(process.memory, taken.message.content)
            process.mailbox.commit(taken.number)
            self._do(path, process, taken, dos)

    def on_outcome(
        self, path: str, process: ProcessRecord, flight: InFlightEffect, outcome: EffectOutcome
    ) -> None:
        """Deliver the answer of a person, or that none came in time."""
        self._core.post(path, system_message(ResultMessage(flight.ask, _answer(flight, outcome))))

    def _do(
        self,
        path: str,
        process: ProcessRecord,
        taken: Taken[ProcessMessage],
        dos: Sequence[ReducerAction],
    ) -> None:
        exits: ExitReason | None = None
        message = taken.message
        for place, do in enumerate(dos):
            match do:
                case Respond(value, to):
                    self._core.answer(self._asked(process, message, to), Returned(value))
                case DeferReply(word):
                    self._core.answer(self._asked(process, message, word), _OVERWRITTEN)
                    process.later = (process.later or {}) | {word: (message.sender, message.ask)}
                    message = ProcessMessage(None)
                case Exit(reason):
                    exits = reason
                case _:
                    self._set_going(path, process, taken, place, do)
        self._core.answer(message, Returned(None))
        if exits is not None:
            self._incarnations.crash(path, exits)

    def _set_going(
        self,
        path: str,
        process: ProcessRecord,
        taken: Taken[ProcessMessage],
        place: int,
        do: Tell | AskProcess | AskPerson | SendAfter | SpawnChild,
    ) -> None:
        match do:
            case Tell(to, message):
                self._core.post(to, ProcessMessage(message))
            case AskProcess(to, message, ask, timeout_ms):
                deadline_ms = None if timeout_ms is None else self._core.now + timeout_ms
                self._core.post(to, ProcessMessage(message, ask, path, deadline_ms))
            case AskPerson():
                self._ask_person(path, process, do, taken, place)
            case SendAfter(ms, message):
                self._core.post_at(self._core.now + ms, path, ProcessMessage(message))
            case SpawnChild(spec, name):
                self._spawner.spawn(Spawn(spec, name, path))

    def _ask_person(
        self,
        path: str,
        process: ProcessRecord,
        do: AskPerson,
        taken: Taken[ProcessMessage],
        place: int,
    ) -> None:
        """Ask a person. The effect is named after the message it follows from, which is committed
        by now."""
        expires_ms = None if do.timeout_ms is None else self._core.now + do.timeout_ms
        request = AskHuman(do.kind, do.question, expires_ms)
        what, loop = f"person {taken.message.name or taken.number}", (place,)
        self._core.start(path, process, request, what, 0, loop, ask=do.ask, deadline_ms=expires_ms)

    def _asked(self, process: ProcessRecord, message: ProcessMessage, word: str) -> ProcessMessage:
        if not word:
            return message
        sender, ask = (process.later or {}).get(word, ("", ""))
        if process.later is not None:
            process.later.pop(word, None)
            process.later = process.later or None
        return ProcessMessage(None, ask, sender)


def _answer(flight: InFlightEffect, outcome: EffectOutcome) -> Outcome:
    """Return the result for the reducer. Where the kind of question permits something, only an
    explicit approval counts as True."""
    answer, request = plain_outcome(outcome), flight.effect.request
    assert isinstance(request, AskHuman), "a reducer starts no other effect"
    permits = INTERRUPT_KINDS[InterruptKind(request.kind)].use_within_ms is not None
    return Returned(answer.value is True) if permits and isinstance(answer, Returned) else answer


# Coroutine bodies: the local host runs a coroutine for each message, or one for the whole
# incarnation.


_FINISHED = ExitReason(ExitKind.NORMAL)


class CoroutineWorker(Worker):
    """Runs coroutines, which only a local host can."""

    def __init__(self, core: Core, incarnations: Incarnations) -> None:
        super().__init__(core)
        self._incarnations = incarnations

    def begin(self, path: str, process: ProcessRecord) -> None:
        if self._runs_once(process):
            request = RunCoroutine(process.spec.body, None)
            self._core.start(path, process, request, WHOLE_INCARNATION)

    def work(self, path: str, process: ProcessRecord) -> None:
        if self._runs_once(process) or process.mailbox is None or process.mailbox.out:
            return
        taken = self._core.take(path, process)
        if taken is not None:
            request, deadline_ms = RunCoroutine(process.spec.body, None), taken.message.deadline_ms
            what, message_id = "message", taken.number
            self._core.start(path, process, request, what, message_id, deadline_ms=deadline_ms)

    def on_outcome(
        self, path: str, process: ProcessRecord, flight: InFlightEffect, outcome: EffectOutcome
    ) -> None:
        if self._runs_once(process):
            self._incarnations.crash(path, _FINISHED)
            return
        mailbox = process.mailbox
        taken = None if mailbox is None else mailbox.taken(flight.message_id)
        if mailbox is None or taken is None:
            return
        mailbox.commit(flight.message_id)
        self._core.answer(taken.message, plain_outcome(outcome, flight.effect.key))
        self._core.ready.append(path)

    def _runs_once(self, process: ProcessRecord) -> bool:
        body = self._core.body_of(process)
        return isinstance(body, CoroutineBody) and body.whole_incarnation


# Stand-ins: a coroutine of the host answers sends to an agent of a program.


_ENDED = MessageFailed(
    AgentFailed.__name__, "its process ended before there was an answer; send the message again"
)


class StandInWorker(Worker):
    """Runs stand-ins. The part of a send is a session, held as a whole from the start, which all
    that its coroutine asks is paid from. It has no more than the agent itself could spend on that
    message, so that what the program was quoted holds."""

    def __init__(self, core: Core, wallets: Wallets) -> None:
        super().__init__(core)
        self._wallets = wallets
        self._pools = RepeatPools(core)

    def work(self, path: str, process: ProcessRecord) -> None:
        while (taken := self._core.take(path, process)) is not None:
            self._begin(path, process, taken)

    def on_outcome(
        self, path: str, process: ProcessRecord, flight: InFlightEffect, outcome: EffectOutcome
    ) -> None:
        spent = self._close(path, process, flight.message_id)
        came = outcome.value if isinstance(outcome, Answered) else None
        if not isinstance(came, Returned | MessageFailed):
            came = plain_outcome(outcome, flight.effect.key)
        self._end(process, flight.message_id, structs.replace(came, charged=spent))

    def drop(self, path: str, process: ProcessRecord, message_id: int) -> None:
        self._close(path, process, message_id)

    def abandon(self, path: str, process: ProcessRecord) -> None:
        # Not left to the next incarnation: it would have the whole part once more.
        for message_id in [*process.mailbox.in_hand] if process.mailbox else ():
            self._close(path, process, message_id)
            self._end(process, message_id, _ENDED)

    def _begin(self, path: str, process: ProcessRecord, taken: Taken[ProcessMessage]) -> None:
        body, prompt = self._core.body_of(process), as_record(Prompt, taken.message.value)
        assert isinstance(body, StandInBody)
        part = body.budget if prompt.budget is None else prompt.budget
        pool, cost = self._pools.of(path), _cost(body, prompt, part)
        # One for what is asked and one for what it is compared with: others may be asked beside.
        repeats = 0 if pool is None else min(pool.size - pool.used, 1)
        cap = cost.amount if pool is None else cost.repeats.within(repeats)
        cap = Money(int(min(part, cap)))
        session = _session(path, process, taken.number)
        exhausted = self._wallets.hold(path, part, prompt.session)
        if exhausted is None:  # as a send to the agent, which holds all of its part, would find
            self._wallets.settle(path, part, 0, prompt.session)
            exhausted = self._wallets.open_session(session, path, cap, prompt.session)
        if exhausted is not None:
            failure = budget_exceeded("this send may spend", part, exhausted)
            self._end(process, taken.number, failure)
            return
        if pool is not None:
            opened, pool.used = self._core.state.sessions[session], pool.used + repeats
            opened.repeats, opened.once = repeats, int(min(part, cost.repeats.once))
        inside = structs.replace(prompt, budget=None, stream=False, session=session)
        request, deadline_ms = RunCoroutine(process.spec.body, inside), taken.message.deadline_ms
        self._core.start(path, process, request, "message", taken.number, deadline_ms=deadline_ms)

    def _close(self, path: str, process: ProcessRecord, message_id: int) -> Money:
        """Close the part of a send, and return what was spent of it."""
        session = _session(path, process, message_id)
        if self._wallets.owner_of(session) is None:
            return Money(0)
        spent = Money(self._wallets.of_session(session).spent)
        opened, pool = self._core.state.sessions[session], self._pools.of(path)
        if pool is not None and spent <= opened.once:
            pool.used -= opened.repeats
        self._wallets.close_session(session, forgotten=True)
        return spent

    def _end(self, process: ProcessRecord, message_id: int, outcome: Outcome) -> None:
        mailbox = process.mailbox
        taken = None if mailbox is None else mailbox.taken(message_id)
        if mailbox is not None and taken is not None:
            mailbox.commit(message_id)
            self._core.answer(taken.message, outcome)


def _cost(body: StandInBody, prompt: Prompt, part: Money) -> "CostBound":
    """Return what a send of this message to the agent itself could cost, as a quote counts it: the
    bound in the quote is of the longest message, and so no less."""
    from vegakit.lang import STR, SendTerms, cost_of

    size = sum(len(one.text.encode()) for one in prompt.parts if isinstance(one, Text))
    sending = SendTerms(
        body.spec, prompt.answer or STR, size, size, part, specs=body.agent.rule.tools
    )
    terms = model_terms(body.agent)
    return cost_of(sending, lambda _: terms).fund


def _session(path: str, process: ProcessRecord, message_id: int) -> str:
    return f"{path}#{process.generation}|{message_id}"
