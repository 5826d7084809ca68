"""Compiled programs: each message runs a function of a module as a fiber (pure).

    message ─▶ Vm ─ requests ─▶ sends, processes, sessions, timers: here        ─ answers ─▶ Vm …
                       └──▶ library functions and tools: effects            ─ outcomes ─┘
                       └──▶ finished, crashed ─▶ commit, answer

A fiber runs a slice of fuel at a time and continues at the next alarm, so that an endless loop
does not delay other processes. An error that the program does not catch becomes the result of
the message; the process stays alive.
"""

from typing import Any, cast

from msgspec import convert

from vegakit.errors import AgentFailed, ContractViolated, LimitReached, ProgramChanged
from vegakit.events import EffectOutcome
from vegakit.ids import EffectKey
from vegakit.lang import Problem, value_of
from vegakit.program.bodies import FiberBody, FiberRun
from vegakit.program.core import Core, Worker
from vegakit.program.messages import (
    Down,
    MessageFailed,
    Outcome,
    Returned,
)
from vegakit.program.processes import Incarnations
from vegakit.program.requests import FiberRequests
from vegakit.program.spawn import Spawner
from vegakit.program.state import Fiber, InFlightEffect, ProcessPhase, ProcessRecord, TimerKind
from vegakit.program.wallets import Wallets
from vegakit.vm import Crash, FiberRequest, Status, Step, Vm, VmState, start

_CHANGED = (
    "{path} was running when its source was another; go on with that source, or start it anew"
)

_GRANT_AFTER, _GRANT_EVERY, _GRANT_FUEL = 100, 500, 600
"""Requests are granted after so much fuel, at first and after there were some, and after up to so
much where a program only computes; each takes so much of the slice beside what the program pays for
it: to ask an agent, or to spawn a process, is more work than an instruction. So a slice has about
twenty of them, which take some milliseconds."""
_BURNT = "it computes for too long; let loops have fewer rounds, or agents do the work"


class FiberWorker(Worker):
    """Runs the fibers of Vega programs."""

    _machine: type[Any] = Vm
    """What runs a fiber; the state that is loaded is something else."""

    def __init__(
        self, core: Core, incarnations: Incarnations, spawning: Spawner, wallets: Wallets
    ) -> None:
        super().__init__(core)
        self._incarnations = incarnations
        self._requests = FiberRequests(core, incarnations, spawning, wallets)

    def work(self, path: str, process: ProcessRecord) -> None:
        while process.phase is ProcessPhase.UP:
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
        self, path: str, process: ProcessRecord, flight: InFlightEffect, outcome: EffectOutcome
    ) -> None:
        run = self._run_of(path, process, flight.message_id)
        if run is not None:
            self._requests.on_outcome(run, flight, outcome)
            self._go_on(run)

    def on_result(self, path: str, process: ProcessRecord, ask: str, outcome: Outcome) -> None:
        message_id, _, ticket = ask.partition(":")
        run = self._run_of(path, process, int(message_id))
        if run is not None:
            self._requests.on_answer(run, ticket, outcome)
            self._go_on(run)

    def on_timer(self, path: str, process: ProcessRecord, message_id: int) -> None:
        run = self._run_of(path, process, message_id)
        if run is not None:
            self._requests.wake(run)
            self._go_on(run)

    def drop(self, path: str, process: ProcessRecord, message_id: int) -> None:
        run = self._run_of(path, process, message_id)
        if run is not None:
            self._close(run)

    def is_next(self, path: str, process: ProcessRecord, message_id: int, word: str) -> bool:
        run = self._run_of(path, process, message_id)
        return run is None or run.vm.is_next(word)

    def abandon(self, path: str, process: ProcessRecord) -> None:
        for message_id in list(process.fibers or ()):
            run = self._run_of(path, process, message_id)
            if run is not None and run.fiber.touched:
                why = f"{path} ended after it did what must not be done twice; look what was done"
                self._end(run, MessageFailed(AgentFailed.__name__, why))
            elif run is not None:
                self._close(run)

    def _begin(self, path: str, process: ProcessRecord, message_id: int, args: Any) -> None:  # noqa: ANN401
        body = self._body(process)
        try:
            vm = self._started(body, args)
        except ContractViolated as wrong:
            self._answer(process, message_id, MessageFailed(ContractViolated.__name__, str(wrong)))
            return
        fiber = Fiber(vm, body.digest)
        process.fibers = (process.fibers or {}) | {message_id: fiber}
        self._go_on(FiberRun(path, process, message_id, fiber, vm, body))

    def _started(self, body: FiberBody, args: object) -> Vm:
        bounds = self._core.state.bounds
        state = start(
            body.module,
            body.function,
            arguments_in_order(body, args),
            window=bounds.window,
            guesses=bool(bounds.guesses or bounds.least_guesses),
        )
        return Vm(body.module, state)

    def _restored(self, body: FiberBody, stored: object) -> Vm:
        return Vm(body.module, convert(stored, VmState))

    def _go_on(self, run: FiberRun) -> None:
        """Run the fiber until its slice is used up or it waits for an effect. Requests that the
        machine can answer itself are answered at once."""
        vm, state = run.vm, run.vm.state
        until, most = state.fuel_used + self._core.state.bounds.slice, _GRANT_AFTER
        while True:
            fuel = min(max(until - state.fuel_used, 1), most)
            step = vm.run(0 if run.fiber.withheld else fuel)
            granted = self._requests.grant(run, step.requests)
            until -= _GRANT_FUEL * len(step.requests)
            most = _GRANT_AFTER if step.requests else min(2 * most, _GRANT_EVERY)
            if (run.process.fibers or {}).get(run.message_id) is not run.fiber:
                return  # it ended itself by this
            if run.fiber.withheld:
                self._core.wake_at(self._core.now, TimerKind.SEND, run.path, run.message_id)
                return
            goes_on = granted or step.status is Status.RUNNING
            if not goes_on or state.fuel_used >= until:
                break
        if not vm.weigh():
            step = vm.run(0)
            self._requests.grant(run, step.requests)
        self._on_step(run, step, granted=granted)

    def _on_step(self, run: FiberRun, step: Step, *, granted: bool) -> None:
        """React to the end of a slice. Requests that were granted with the last of the fuel are
        taken up in the next slice."""
        match step.status:
            case Status.WAITING if not granted:
                pass
            case Status.RUNNING if run.body.fuel and run.vm.state.fuel_used >= run.body.fuel:
                self._end(run, MessageFailed(LimitReached.__name__, _BURNT))
            case Status.RUNNING | Status.WAITING:
                self._core.wake_at(self._core.now, TimerKind.SEND, run.path, run.message_id)
            case Status.FINISHED:
                self._end(run, Returned(step.value))
            case Status.CRASHED | Status.EXITED:
                assert step.error is not None
                cause = tuple(map(EffectKey, step.error.cause))
                failure = MessageFailed(step.error.error, _crash_text(step.error), cause=cause)
                is_normal = step.status is Status.EXITED and not run.exits.is_abnormal
                self._end(run, Returned(None) if is_normal else failure)
                if step.status is Status.EXITED:
                    self._incarnations.crash(run.path, run.exits)

    def _on_down(self, path: str, process: ProcessRecord, down: Down) -> None:
        for message_id, fiber in list((process.fibers or {}).items()):
            ticket = fiber.watching.pop(down.ref, None)
            run = None if ticket is None else self._run_of(path, process, message_id)
            if run is not None and ticket is not None:
                run.vm.answer(ticket, str(down.reason))
                self._go_on(run)

    def _end(self, run: FiberRun, outcome: Returned | MessageFailed) -> None:
        self._close(run)
        self._answer(run.process, run.message_id, outcome)
        self._core.ready.append(run.path)

    def _answer(
        self, process: ProcessRecord, message_id: int, outcome: Returned | MessageFailed
    ) -> None:
        taken = None if process.mailbox is None else process.mailbox.taken(message_id)
        if taken is not None and process.mailbox is not None:
            process.mailbox.commit(message_id)
            self._core.answer(taken.message, outcome)

    def _close(self, run: FiberRun) -> None:
        self._core.cancel(run.process, run.message_id)
        self._requests.close(run)
        if run.process.fibers is not None:
            run.process.fibers.pop(run.message_id, None)
            run.process.fibers = run.process.fibers or None

    def _run_of(self, path: str, process: ProcessRecord, message_id: int) -> FiberRun | None:
        fiber = (process.fibers or {}).get(message_id)
        if fiber is None:
            return None
        body = self._body(process)
        if not isinstance(fiber.vm, self._machine):
            if fiber.code != body.digest:
                raise ProgramChanged(_CHANGED.format(path=path))
            fiber.vm = self._restored(body, fiber.vm)
            fiber.withheld = convert(fiber.withheld, list[FiberRequest])
        return FiberRun(path, process, message_id, fiber, fiber.vm, body)

    def _body(self, process: ProcessRecord) -> FiberBody:
        body = self._core.body_of(process)
        assert isinstance(body, FiberBody)
        return body


def _crash_text(crash: Crash) -> str:
    """Return the reason followed by the stack."""
    rows = (f"\n  at {file}:{line} in {name}" for name, file, line in crash.stack)
    return crash.reason + "".join(rows)


def arguments_in_order(body: FiberBody, given: Any) -> list[Any]:  # noqa: ANN401
    """Return the arguments in the order of the parameters. Arguments that are given by name are
    JSON from outside, and are checked."""
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
