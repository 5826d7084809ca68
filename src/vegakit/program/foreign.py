"""Foreign bodies: coroutines of the local host, one message at a time or one for a whole life."""

from vegakit.effects import RunForeign
from vegakit.events import EffectOutcome
from vegakit.policy import ExitKind, ExitReason
from vegakit.program.bodies import ForeignBody
from vegakit.program.core import Core
from vegakit.program.lives import Lives
from vegakit.program.outcomes import plain_outcome
from vegakit.program.state import Flight, Process
from vegakit.program.workers import Worker

__all__ = ["ForeignWorker"]

_FINISHED = ExitReason(ExitKind.NORMAL)


class ForeignWorker(Worker):
    def __init__(self, core: Core, lives: Lives) -> None:
        super().__init__(core)
        self._lives = lives

    def begin(self, path: str, process: Process) -> None:
        if self._runs_for_life(process):
            self._core.start(path, process, RunForeign(process.spec.body, None), "life")

    def work(self, path: str, process: Process) -> None:
        if self._runs_for_life(process) or process.mailbox is None or process.mailbox.out:
            return
        taken = self._core.take(path, process)
        if taken is not None:
            request, deadline_ms = RunForeign(process.spec.body, None), taken.message.deadline_ms
            what, letter = "message", taken.number
            self._core.start(path, process, request, what, letter, deadline_ms=deadline_ms)

    def on_outcome(
        self, path: str, process: Process, flight: Flight, outcome: EffectOutcome
    ) -> None:
        if self._runs_for_life(process):
            self._lives.crash(path, _FINISHED)
            return
        mailbox = process.mailbox
        letter = None if mailbox is None else mailbox.taken(flight.letter)
        if mailbox is None or letter is None:
            return
        mailbox.commit(flight.letter)
        self._core.answer(letter.message, plain_outcome(outcome, flight.effect.key))
        self._core.ready.append(path)

    def _runs_for_life(self, process: Process) -> bool:
        body = self._core.body_of(process)
        return isinstance(body, ForeignBody) and body.whole_life
