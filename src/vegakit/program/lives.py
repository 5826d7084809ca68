"""One life of a process after the other: it begins, takes letters, and ends.

| phase    | a letter    | it raises or is told to exit | stop             | kill   | work done |
|----------|-------------|------------------------------|------------------|--------|-----------|
| up       | is taken    | the life ends, crashed       | cancels all, and | killed | –         |
|          |             |                              | then is stopping |        |           |
| stopping | is kept     | –                            | –                | killed | shutdown  |
| down     | is kept     | –                            | –                | –      | –         |
| over     | AgentFailed | –                            | –                | –      | forgotten |

A life that ends gives back the letters it had taken, to be delivered to the next life. One whose
send had begun what must not be done twice is answered with AgentFailed instead.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from vegakit.errors import Timeout
from vegakit.events import Answered, Cancelled, Crashed, EffectOutcome
from vegakit.ids import EffectKey
from vegakit.money import Money
from vegakit.policy import (
    EndProcess,
    ExitKind,
    ExitReason,
    SendDown,
    SendExit,
    Signal,
)
from vegakit.program.actions import ProcessExited, ProcessRestarted, ProcessSpawned, ProcessStuck
from vegakit.program.ahead import Ahead
from vegakit.program.bodies import Body
from vegakit.program.core import Core
from vegakit.program.mail import VOID, Down, Exited, Fell, Mail, Outcome, late, ours
from vegakit.program.purses import Purses
from vegakit.program.state import Family, Flight, Ghost, Phase, Process, TimerKind

if TYPE_CHECKING:
    from vegakit.program.families import Families
    from vegakit.program.workers import Worker

__all__ = ["Lives"]

_SHUTDOWN = ExitReason(ExitKind.SHUTDOWN)
_KILLED = ExitReason(ExitKind.KILLED)
_NORMAL = ExitReason(ExitKind.NORMAL)


class Lives:
    families: "Families"
    workers: "dict[type[Body], Worker]"

    def __init__(self, core: Core, purses: Purses) -> None:
        self._core = core
        self._purses = purses
        self._ahead = Ahead(core, purses)

    def begin(self, path: str, process: Process, generation: int) -> None:
        state = self._core.state
        cause, process.generation = process.ended, generation
        process.phase, process.since_ms = Phase.UP, self._core.now
        if path not in state.processes:
            state.processes[path] = process
            state.living += bool(process.spawner) and not process.once
            self._core.out.append(ProcessSpawned(path, process.spec.body, process.spawner))
        elif cause is not None:
            self._core.out.append(ProcessRestarted(path, generation, cause))
        self._guarded(path, self._worker(process).begin, path, process)
        if process.mailbox is not None:
            self._core.ready.append(path)

    def work(self, path: str) -> None:
        process = self._core.state.processes.get(path)
        if process is None or process.phase is not Phase.UP:
            return
        self._guarded(path, self._worker(process).work, path, process)
        if process.once and process.phase is Phase.UP:
            mailbox = process.mailbox
            if mailbox is not None and not mailbox.line:
                self._retire(path, process)

    def on_ghost_landed(self, ghost: Ghost, outcome: EffectOutcome) -> None:
        """Only the money of it matters. An answer that the journal keeps is the answer of what was
        begun again, which is charged with it."""
        flight = ghost.flight
        is_kept = self._core.state.recorded and isinstance(outcome, Answered)
        settled = Cancelled() if is_kept else outcome
        process = self._core.state.processes[flight.path]
        self._worker(process).settle(flight.path, process, flight, settled)
        self._ahead.on_ghost_landed(ghost, settled)

    def on_landed(self, flight: Flight, outcome: EffectOutcome) -> None:
        path, process = flight.path, self._core.state.processes[flight.path]
        worker = self._worker(process)
        worker.settle(path, process, flight, outcome)
        is_waste = flight.effect.key in self._core.state.doomed
        self._ahead.on_landed(flight, outcome)
        if is_waste:
            pass  # nobody hears of it, and it cannot crash a process: in order it would not be
        elif flight.generation == process.generation and process.phase is Phase.UP:
            if isinstance(outcome, Crashed):
                if not self._void(path, process, (flight.letter,)):
                    cause = (flight.effect.key, *outcome.cause)
                    self.crash(path, ExitReason(ExitKind.CRASHED, outcome.reason, cause))
            elif isinstance(outcome, Cancelled) and outcome.late:
                self._on_late(path, process, flight)
            else:
                self._guarded(path, worker.on_outcome, path, process, flight, outcome)
        self._rest(path)

    def _on_late(self, path: str, process: Process, flight: Flight) -> None:
        """In the process whose deadline it was the asker has been told. In one that goes on, the
        journal says that it was too late then, and so it is now."""
        if process.mailbox is not None and process.mailbox.taken(flight.letter) is not None:
            self.time_out(path, flight.letter, (flight.effect.key,))

    def on_heard(self, path: str, ask: str, outcome: Outcome) -> None:
        process = self._core.state.processes.get(path)
        if process is not None and process.phase is not Phase.OVER:
            self._guarded(path, self._worker(process).on_heard, path, process, ask, outcome)

    def on_timer(self, path: str, letter: int) -> None:
        process = self._core.state.processes.get(path)
        if process is not None and process.phase is Phase.UP:
            self._guarded(path, self._worker(process).on_timer, path, process, letter)

    def on_patience_lost(self, path: str, letter: int) -> None:
        """It is told once for each time that nothing happened for so long."""
        process = self._core.state.processes.get(path)
        if process is None or process.mailbox is None or process.mailbox.taken(letter) is None:
            return
        patience_ms = max(1, process.spec.stuck_after_ms or 0)
        due_ms = process.since_ms + patience_ms
        if due_ms <= self._core.now:
            self._core.out.append(ProcessStuck(path, self._core.now - process.since_ms))
            due_ms = self._core.now + patience_ms
        self._core.wake_at(due_ms, TimerKind.STUCK, path, letter)

    def time_out(self, path: str, letter: int, cause: tuple[EffectKey, ...]) -> None:
        """It has not been answered by its deadline."""
        process = self._core.state.processes.get(path)
        line = (process.mailbox.line if process and process.mailbox else None) or ()
        known = (each.message.timeout_ms for each in line if each.number == letter)
        self.withdraw(path, letter, late(cause, next(known, 0)))

    def withdraw(self, path: str, letter: int, why: Fell) -> None:
        """The answer is no longer wanted, or comes too late."""
        process = self._core.state.processes.get(path)
        if process is None or process.mailbox is None:
            return
        taken = process.mailbox.taken(letter)
        if taken is None:
            self._fail_unread(process, letter, why)
            if (later := self._core.answered_later(path, process, letter)) is not None:
                self._core.answer(later, why)
            return
        if why is not VOID:
            self._ahead.on_withdrawn(path, letter, taken.message)
        self._core.cancel(process, letter, late=why.error == Timeout.__name__)
        self._worker(process).drop(path, process, letter)
        process.mailbox.commit(letter)
        self._core.answer(taken.message, why)
        self._core.ready.append(path)

    def _void(self, path: str, process: Process, letters: Iterable[int]) -> bool:
        """A process does not crash by what is not its turn yet, and when it does, what is not its
        turn is not asked again: the program will, when it comes to it."""
        found = [each for each in letters if self._core.is_early(process, each)]
        for letter in found:
            self._ahead.doom(path, letter)
            self.withdraw(path, letter, VOID)
        return bool(found)

    def _void_answered(self, path: str) -> None:
        """What this life answered before its turn. In order it would have been sent to the next
        life, or to nobody. Before the news of the end: who hears that may come to it at once."""
        for word, early in self._core.state.early.items():
            if early.to == path and word not in self._core.state.asks:
                sender, _, ask = word.partition("|")
                self._core.heard.append((sender, ask, VOID))

    def crash(self, path: str, reason: ExitReason) -> None:
        """Its life ends: by its code, by its own will, or by a signal that it does not trap."""
        process = self._core.state.processes.get(path)
        if process is not None and process.phase is Phase.UP:
            self._end_life(path, process, reason)

    def stop(self, path: str) -> None:
        process = self._core.state.processes.get(path)
        if process is None or process.phase is not Phase.UP:
            return
        process.phase = Phase.STOPPING
        self._let_go(path, process)
        self._rest(path)

    def kill(self, path: str) -> None:
        process = self._core.state.processes.get(path)
        if process is not None and process.phase in (Phase.UP, Phase.STOPPING):
            self._end_life(path, process, _KILLED)

    def _retire(self, path: str, process: Process) -> None:
        """Its only message is answered. No supervisor was made for it, since there is nothing to
        decide."""
        self._let_go(path, process)
        self.close(path, _NORMAL)

    def close(self, path: str, reason: ExitReason) -> None:
        """It will not live again."""
        state = self._core.state
        process = state.processes[path]
        if process.phase is Phase.OVER:
            self._rest(path)
            return
        process.phase, process.ended = Phase.OVER, reason
        self._fail_letters(path, process, reason)
        for signal in list(state.signals.farewells(path, reason)):
            self.deliver(signal)
        state.roots.pop(path, None)
        spent = self._purses.spent(path)
        self._core.out.append(ProcessExited(path, process.generation, reason, spent))
        self._rest(path)

    def close_group(self, path: str, family: Family, reason: ExitReason) -> None:
        state = self._core.state
        state.roots.pop(path, None)
        _untie(state.spawned, family.spawner, path)
        self._purses.close_group(path, family.spawner)
        for signal in list(state.signals.farewells(path, reason)):
            self.deliver(signal)
        self._core.out.append(ProcessExited(path, family.generation, reason, Money(0)))
        if family.spawner:
            self._rest(family.spawner)

    def deliver(self, signal: Signal) -> None:
        match signal:
            case EndProcess(to, reason):
                self.crash(to, reason)
            case SendExit(to, sender, reason):
                self._core.post(to, ours(Exited(sender, reason)))
            case SendDown(to, ref, target, reason):
                news = Down(ref, target, reason)
                self._core.post(to, ours(news)) if to else self._core.out.append(news)

    def _end_life(self, path: str, process: Process, reason: ExitReason) -> None:
        process.phase, process.ended = Phase.DOWN, reason
        self._void_answered(path)  # first: what is in hand counts as answered once it is void
        self._void(path, process, process.mailbox.in_hand if process.mailbox else ())
        self._let_go(path, process)
        if process.mailbox is not None:
            process.mailbox.put_back()
        self.families.on_exited(path, process.generation, reason)

    def _let_go(self, path: str, process: Process) -> None:
        """Nothing that this life set going goes on."""
        self._core.cancel(process)
        self._worker(process).abandon(path, process)
        for child in reversed(self._core.state.spawned.get(path, {})):
            self.families.end(child, kill=False)

    def _rest(self, path: str) -> None:
        """When nothing is under way any more: who was to stop ends, who is over is forgotten."""
        state = self._core.state
        process = state.processes[path]
        if process.flying or path in state.spawned:
            return
        if process.phase is Phase.STOPPING:
            self._end_life(path, process, _SHUTDOWN)
        elif process.phase is Phase.OVER and not self.families.may_revive(path, process):
            self._forget(path, process)

    def _forget(self, path: str, process: Process) -> None:
        state = self._core.state
        self._purses.close(path, process)
        del state.processes[path]
        self._core.forget_authored(path)
        if process.spawner:
            state.living -= not process.once
            _untie(state.spawned, process.spawner, path)
            self._rest(process.spawner)

    def _fail_letters(self, path: str, process: Process, reason: ExitReason) -> None:
        fell = Fell("AgentFailed", f"{path} has ended: {reason}", cause=reason.cause)
        for letter in (process.mailbox.line if process.mailbox else None) or ():
            early = self._core.early(letter.message)
            self._core.answer(letter.message, VOID if early else fell)
        for sender, ask in (process.later or {}).values():
            self._core.answer(Mail(None, ask, sender), fell)
        process.mailbox = process.later = None

    def _fail_unread(self, process: Process, number: int, why: Fell) -> None:
        """It stays in the line and is passed over when its turn comes."""
        line = (process.mailbox.line if process.mailbox else None) or ()
        for letter in line:
            if letter.number == number:
                self._core.answer(letter.message, why)

    def _worker(self, process: Process) -> "Worker":
        return self.workers[type(self._core.body_of(process))]

    def _guarded(self, path: str, act: Callable[..., None], *facts: object) -> None:
        """What a body's code raises ends this life and nothing else."""
        try:
            act(*facts)
        except Exception as error:  # noqa: BLE001
            self.crash(path, ExitReason(ExitKind.CRASHED, f"{type(error).__name__}: {error}"))


def _untie(spawned: dict[str, dict[str, None]], spawner: str, path: str) -> None:
    children = spawned.get(spawner)
    if children is not None:
        children.pop(path, None)
        if not children:
            del spawned[spawner]
