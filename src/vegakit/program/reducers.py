"""Reducers: `react(state, message)` gives the next state and what to do, all of it pure.

State and doings take effect together, when react has returned; if it raises, neither does, and the
message is delivered to the next life.
"""

from collections.abc import Sequence

from vegakit.effects import AskHuman
from vegakit.events import EffectOutcome
from vegakit.policy import INTERRUPT_KINDS, ExitReason, InterruptKind, Taken
from vegakit.program.bodies import ReducerBody
from vegakit.program.commands import Spawn
from vegakit.program.core import Core
from vegakit.program.lives import Lives
from vegakit.program.mail import Fell, Heard, Mail, Outcome, Told, ours
from vegakit.program.outcomes import plain_outcome
from vegakit.program.reactions import After, Ask, AskPerson, Do, Exit, Later, Make, Respond, Tell
from vegakit.program.spawning import Spawning
from vegakit.program.state import Flight, Phase, Process
from vegakit.program.workers import Worker

__all__ = ["ReducerWorker"]

_OVERWRITTEN = Fell(
    "AgentFailed", "its answer was put off under a word that was then used for another ask"
)


class ReducerWorker(Worker):
    def __init__(self, core: Core, lives: Lives, spawning: Spawning) -> None:
        super().__init__(core)
        self._lives = lives
        self._spawning = spawning

    def begin(self, path: str, process: Process) -> None:
        body = self._core.body_of(process)
        if isinstance(body, ReducerBody) and process.memory is None:
            process.memory = body.initial

    def work(self, path: str, process: Process) -> None:
        body = self._core.body_of(process)
        assert isinstance(body, ReducerBody)
        while process.phase is Phase.UP:
            taken = self._core.take(path, process)
            if taken is None or process.mailbox is None:
                return
            process.memory, dos = body.react(process.memory, taken.message.content)
            process.mailbox.commit(taken.number)
            self._do(path, process, taken, dos)

    def on_outcome(
        self, path: str, process: Process, flight: Flight, outcome: EffectOutcome
    ) -> None:
        """A person has answered, or did not in time."""
        self._core.post(path, ours(Heard(flight.ask, _answer(flight, outcome))))

    def _do(self, path: str, process: Process, taken: Taken[Mail], dos: Sequence[Do]) -> None:
        exits: ExitReason | None = None
        mail = taken.message
        for place, do in enumerate(dos):
            match do:
                case Respond(value, to):
                    self._core.answer(self._asked(process, mail, to), Told(value))
                case Later(word):
                    self._core.answer(self._asked(process, mail, word), _OVERWRITTEN)
                    process.later = (process.later or {}) | {word: (mail.sender, mail.ask)}
                    mail = Mail(None)
                case Exit(reason):
                    exits = reason
                case _:
                    self._set_going(path, process, taken, place, do)
        self._core.answer(mail, Told(None))
        if exits is not None:
            self._lives.crash(path, exits)

    def _set_going(
        self,
        path: str,
        process: Process,
        taken: Taken[Mail],
        place: int,
        do: Tell | Ask | AskPerson | After | Make,
    ) -> None:
        match do:
            case Tell(to, message):
                self._core.post(to, Mail(message))
            case Ask(to, message, ask, timeout_ms):
                deadline_ms = None if timeout_ms is None else self._core.now + timeout_ms
                self._core.post(to, Mail(message, ask, path, deadline_ms))
            case AskPerson():
                self._ask_person(path, process, do, taken, place)
            case After(ms, message):
                self._core.post_at(self._core.now + ms, path, Mail(message))
            case Make(spec, name):
                self._spawning.spawn(Spawn(spec, name, path))

    def _ask_person(
        self, path: str, process: Process, do: AskPerson, taken: Taken[Mail], place: int
    ) -> None:
        """Named after the message that it follows from, which is committed by now."""
        expires_ms = None if do.timeout_ms is None else self._core.now + do.timeout_ms
        request = AskHuman(do.kind, do.question, expires_ms)
        what, loop = f"person {taken.message.name or taken.number}", (place,)
        self._core.start(path, process, request, what, 0, loop, ask=do.ask, deadline_ms=expires_ms)

    def _asked(self, process: Process, mail: Mail, word: str) -> Mail:
        if not word:
            return mail
        sender, ask = (process.later or {}).get(word, ("", ""))
        if process.later is not None:
            process.later.pop(word, None)
            process.later = process.later or None
        return Mail(None, ask, sender)


def _answer(flight: Flight, outcome: EffectOutcome) -> Outcome:
    """Where an answer permits something, nothing but an approval does."""
    answer, request = plain_outcome(outcome), flight.effect.request
    assert isinstance(request, AskHuman), "a reducer starts no other effect"
    permits = INTERRUPT_KINDS[InterruptKind(request.kind)].use_within_ms is not None
    return Told(answer.value is True) if permits and isinstance(answer, Told) else answer
