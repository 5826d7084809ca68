"""Compiled programs: each message runs a function of a module as a fiber, all of it in the state.

    letter ─▶ Vm ─ wants ─▶ sends, processes, sessions, timers: here        ─ answers ─▶ Vm …
                       └──▶ library functions and tools: effects            ─ outcomes ─┘
                       └──▶ finished, crashed ─▶ commit, answer

A fiber runs a slice of fuel at a time; what is left goes on at the next alarm, so that one endless
loop delays nobody. An error that the program does not catch is an answer to whoever sent the
message; the process lives.
"""

from typing import Any, cast

from msgspec import convert

from vegakit.errors import AgentFailed, ContractViolated, LimitReached, ProgramChanged
from vegakit.events import EffectOutcome
from vegakit.ids import EffectKey
from vegakit.lang import Problem, value_of
from vegakit.program.bodies import FiberBody
from vegakit.program.core import Core
from vegakit.program.lives import Lives
from vegakit.program.mail import Down, Fell, Outcome, Told
from vegakit.program.purses import Purses
from vegakit.program.running import Run
from vegakit.program.spawning import Spawning
from vegakit.program.state import Fiber, Flight, Phase, Process, TimerKind
from vegakit.program.wishes import Wishes
from vegakit.program.workers import Worker
from vegakit.vm import Crash, Status, Step, Vm, VmState, start

__all__ = ["FiberWorker"]

_CHANGED = (
    "{path} was running when its source was another; go on with that source, or start it anew"
)

_BURNT = "it computes for too long; let loops have fewer rounds, or agents do the work"


class FiberWorker(Worker):
    def __init__(self, core: Core, lives: Lives, spawning: Spawning, purses: Purses) -> None:
        super().__init__(core)
        self._lives = lives
        self._wishes = Wishes(core, lives, spawning, purses)

    def work(self, path: str, process: Process) -> None:
        while process.phase is Phase.UP:
            taken = self._core.take(path, process)
            if taken is None or process.mailbox is None:
                return
            content = taken.message.content
            if isinstance(content, Down):
                process.mailbox.commit(taken.number)
                self._on_down(path, process, content)
            else:
                self._begin(path, process, taken.number, content)

    def on_outcome(
        self, path: str, process: Process, flight: Flight, outcome: EffectOutcome
    ) -> None:
        run = self._run_of(path, process, flight.letter)
        if run is not None:
            self._wishes.on_outcome(run, flight, outcome)
            self._go_on(run)

    def on_heard(self, path: str, process: Process, ask: str, outcome: Outcome) -> None:
        letter, _, ticket = ask.partition(":")
        run = self._run_of(path, process, int(letter))
        if run is not None:
            self._wishes.on_answer(run, ticket, outcome)
            self._go_on(run)

    def on_timer(self, path: str, process: Process, letter: int) -> None:
        run = self._run_of(path, process, letter)
        if run is not None:
            self._wishes.wake(run)
            self._go_on(run)

    def drop(self, path: str, process: Process, letter: int) -> None:
        run = self._run_of(path, process, letter)
        if run is not None:
            self._close(run)

    def abandon(self, path: str, process: Process) -> None:
        for letter in list(process.fibers or ()):
            run = self._run_of(path, process, letter)
            if run is not None and run.fiber.touched:
                why = f"{path} ended after it did what must not be done twice; look what was done"
                self._end(run, Fell(AgentFailed.__name__, why))
            elif run is not None:
                self._close(run)

    def _begin(self, path: str, process: Process, letter: int, args: Any) -> None:  # noqa: ANN401
        body = self._body(process)
        try:
            state = start(
                body.module,
                body.function,
                _arguments(body, args),
                window=self._core.state.bounds.window,
            )
        except ContractViolated as wrong:
            self._answer(process, letter, Fell(ContractViolated.__name__, str(wrong)))
            return
        vm = Vm(body.module, state)
        fiber = Fiber(vm, body.digest)
        process.fibers = (process.fibers or {}) | {letter: fiber}
        self._go_on(Run(path, process, letter, fiber, vm, body))

    def _go_on(self, run: Run) -> None:
        """Until it waits for the world; what can be answered here is answered at once."""
        vm, state = run.vm, run.vm.state
        until = state.fuel_used + self._core.state.bounds.slice
        step = vm.run(until - state.fuel_used)
        while (granted := self._wishes.grant(run, step.wants)) and state.fuel_used < until:
            step = vm.run(until - state.fuel_used)
        if (run.process.fibers or {}).get(run.letter) is run.fiber:  # else it ended itself by this
            if not vm.weigh():
                step = vm.run(0)
                self._wishes.grant(run, step.wants)
            self._on_step(run, step, granted=granted)

    def _on_step(self, run: Run, step: Step, *, granted: bool) -> None:
        """What was granted with the last of the fuel is taken up in the next slice."""
        match step.status:
            case Status.WAITING if not granted:
                pass
            case Status.RUNNING if run.body.fuel and run.vm.state.fuel_used >= run.body.fuel:
                self._end(run, Fell(LimitReached.__name__, _BURNT))
            case Status.RUNNING | Status.WAITING:
                self._core.wake_at(self._core.now, TimerKind.SEND, run.path, run.letter)
            case Status.FINISHED:
                self._end(run, Told(step.value))
            case Status.CRASHED | Status.EXITED:
                assert step.error is not None
                cause = tuple(map(EffectKey, step.error.cause))
                fell = Fell(step.error.error, _told(step.error), cause=cause)
                is_normal = step.status is Status.EXITED and not run.exits.is_abnormal
                self._end(run, Told(None) if is_normal else fell)
                if step.status is Status.EXITED:
                    self._lives.crash(run.path, run.exits)

    def _on_down(self, path: str, process: Process, down: Down) -> None:
        for letter, fiber in list((process.fibers or {}).items()):
            ticket = fiber.watching.pop(down.ref, None)
            run = None if ticket is None else self._run_of(path, process, letter)
            if run is not None and ticket is not None:
                run.vm.answer(ticket, str(down.reason))
                self._go_on(run)

    def _end(self, run: Run, outcome: Told | Fell) -> None:
        self._close(run)
        self._answer(run.process, run.letter, outcome)
        self._core.ready.append(run.path)

    def _answer(self, process: Process, letter: int, outcome: Told | Fell) -> None:
        taken = None if process.mailbox is None else process.mailbox.taken(letter)
        if taken is not None and process.mailbox is not None:
            process.mailbox.commit(letter)
            self._core.answer(taken.message, outcome)

    def _close(self, run: Run) -> None:
        self._core.cancel(run.process, run.letter)
        self._wishes.close(run)
        if run.process.fibers is not None:
            run.process.fibers.pop(run.letter, None)
            run.process.fibers = run.process.fibers or None

    def _run_of(self, path: str, process: Process, letter: int) -> Run | None:
        fiber = (process.fibers or {}).get(letter)
        if fiber is None:
            return None
        body = self._body(process)
        if not isinstance(fiber.vm, Vm):
            if fiber.code != body.digest:
                raise ProgramChanged(_CHANGED.format(path=path))
            fiber.vm = Vm(body.module, convert(fiber.vm, VmState))
        return Run(path, process, letter, fiber, fiber.vm, body)

    def _body(self, process: Process) -> FiberBody:
        body = self._core.body_of(process)
        assert isinstance(body, FiberBody)
        return body


def _told(crash: Crash) -> str:
    """The reason, and the whole way down to it."""
    rows = (f"\n  at {file}:{line} in {name}" for name, file, line in crash.stack)
    return crash.reason + "".join(rows)


def _arguments(body: FiberBody, given: Any) -> list[Any]:  # noqa: ANN401
    """In their order; those given by name are JSON from outside."""
    if not isinstance(given, dict):
        return list(given or ())
    named = cast("dict[str, Any]", given)
    if unknown := set(named) - set(body.names):
        raise ContractViolated(f"there is no parameter {min(unknown)!r}")
    kinds = body.module.functions[body.function].params
    made: list[Any] = []
    for name, kind in zip(body.names, kinds, strict=True):
        value = value_of(kind, named.get(name))
        if isinstance(value, Problem):
            raise ContractViolated(f"{name}: {value}")
        made.append(value)
    return made
