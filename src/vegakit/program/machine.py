"""The program machine: `step(event, now)` changes the state and returns actions (pure).

| event                | goes to                                                               |
|----------------------|-----------------------------------------------------------------------|
| Spawn, ShutDown …    | spawning, supervisors                                                 |
| AskOnce              | as `Spawn`, then as `Post`: a process for one message                 |
| Post, MessageArrived | the mailbox of a process, then the worker of its body                 |
| OutcomeArrived       | the incarnation that started the effect; after its end only the money |
| … of an alarm        | the owner of the timer: supervisors, sends, messages with a deadline  |
| Link, Monitor …      | signals                                                               |

Nothing calls back into a step: what follows from an event is put into queues, which are empty when
the step ends. So between two steps the state is complete.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Raw

from vegakit.errors import Cancelled as CancelledError
from vegakit.events import CancelRequested, MessageArrived, OutcomeArrived
from vegakit.policy import ExitKind, ExitReason
from vegakit.program.bodies import (
    AgentBody,
    Body,
    Code,
    CoroutineBody,
    PipelineBody,
    ReducerBody,
    StandInBody,
)
from vegakit.program.core import Core, Worker
from vegakit.program.messages import MessageFailed, ProcessMessage
from vegakit.program.processes import Incarnations, Supervisors
from vegakit.program.protocol import (
    Action,
    AskOnce,
    CancelAsk,
    Demonitor,
    Event,
    Link,
    MachineEnded,
    Monitor,
    Monitored,
    Post,
    Remember,
    SendExitSignal,
    ShutDown,
    Spawn,
    SpawnRefused,
    TerminateProcess,
    TrapExits,
    Unlink,
)
from vegakit.program.sends import SendWorker
from vegakit.program.spawn import Spawner
from vegakit.program.state import ProcessPhase, Program, Timer, TimerKind
from vegakit.program.tool_calls import AuthoredPrograms, ToolRounds
from vegakit.program.wallets import Wallets
from vegakit.program.workers import CoroutineWorker, ReducerWorker, StandInWorker
from vegakit.records import to_json


class _Workers(dict[type[Body], Worker]):
    """The workers by kind of body. That of agents is there from the start; each other is made when
    the first body of its kind is met."""

    def __init__(self, make: Callable[[type[Body]], Worker]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, kind: type[Body]) -> Worker:
        self[kind] = self._make(kind)
        return self[kind]


class Machine:
    """A program and its code. `code` holds the bodies of the processes, and may grow."""

    def __init__(self, state: Program, code: Code) -> None:
        self.code = code
        core = self._core = Core(state, code)
        self.wallets = Wallets(core)
        self._incarnations = Incarnations(core, self.wallets)
        self._supervisors = Supervisors(core, self._incarnations)
        self._spawner = Spawner(core, self._supervisors, self.wallets)
        self._incarnations.supervisors = self._supervisors
        programs = AuthoredPrograms(core, self._incarnations, self._spawner, self.wallets)
        tools = ToolRounds(core, self._incarnations, self._spawner, programs)
        self._incarnations.workers = _Workers(self._worker)
        self._sends = SendWorker(core, self._incarnations, self.wallets, tools)
        self._incarnations.workers[AgentBody] = self._sends
        self._on: dict[type[Any], Callable[[Any], None]] = {
            OutcomeArrived: self._on_outcome,
            Post: lambda event: core.post(event.to, event.message, event.dedupe),
            MessageArrived: lambda event: core.post(
                event.to, ProcessMessage(event.value), event.dedupe
            ),
            AskOnce: self._on_ask_once,
            Spawn: self._on_spawn,
            TerminateProcess: lambda event: self._supervisors.end(event.path, kill=event.kill),
            CancelAsk: self._on_cancel,
            SendExitSignal: self._on_exit_signal,
            CancelRequested: lambda event: self._supervisors.end(event.to, kill=True),
            Link: self._on_link,
            Unlink: lambda event: state.signals.unlink(event.path, event.other),
            Monitor: self._on_monitor,
            Demonitor: lambda event: state.signals.demonitor(event.watcher, event.ref),
            TrapExits: lambda event: state.signals.trapping.update({event.path: None}),
            Remember: self._on_remember,
            ShutDown: self._on_shut_down,
        }

    def _worker(self, kind: type[Body]) -> Worker:
        core, incarnations, spawner = self._core, self._incarnations, self._spawner
        if kind is ReducerBody:
            return ReducerWorker(core, incarnations, spawner)
        if kind is CoroutineBody:
            return CoroutineWorker(core, incarnations)
        if kind is StandInBody:
            return StandInWorker(core, self.wallets)
        # The virtual machine and the language are loaded with the first fiber: a runtime whose
        # agents run no compiled program never pays for them.
        if kind is PipelineBody:
            from vegakit.program.pipelines import PipelineWorker

            return PipelineWorker(core, incarnations, spawner, self.wallets)
        from vegakit.program.fibers import FiberWorker

        return FiberWorker(core, incarnations, spawner, self.wallets)

    @property
    def state(self) -> Program:
        """Return the state, which can be stored between any two steps."""
        return self._core.state

    def is_alive(self, path: str) -> bool:
        """Return whether the path is a group, or a process that runs or may be restarted."""
        process = self.state.processes.get(path)
        if process is None:
            return path in self.state.supervisors
        return process.phase is not ProcessPhase.OVER

    def step(self, event: Event, now: int) -> list[Action]:
        """Take one event and return what the host is to do. Nothing is waited for: all that follows
        from the event happens in this step."""
        core = self._core
        core.now = now
        self._on[type(event)](event)
        self._settle_down()
        while self._shuts_down_further():
            self._settle_down()
        core.set_alarm()
        out, core.out = core.out, []
        return out

    def _settle_down(self) -> None:
        core, goes_on = self._core, True
        while goes_on:
            if core.pending_results:
                self._incarnations.on_result(*core.pending_results.popleft())
            elif self._supervisors.busy:
                self._supervisors.carry_out_next()
            elif core.ready:
                self._incarnations.work(core.ready.popleft())
            else:
                goes_on = self._sends.release()

    def _on_spawn(self, event: Spawn) -> None:
        for _ in range(event.count):
            self._core.out.append(self._spawner.spawn(event))

    def _on_ask_once(self, event: AskOnce) -> None:
        made = self._spawner.spawn(Spawn(event.spec, event.name, event.spawner), once=True)
        if isinstance(made, SpawnRefused):
            self._core.out.append(made)
        else:
            self._core.post(made.path, event.message)

    def _on_outcome(self, event: OutcomeArrived) -> None:
        if (superseded_effect := self._core.take_superseded(event.key)) is not None:
            self._incarnations.on_superseded_landed(superseded_effect, event.outcome)
            return
        flight = self._core.land(event.key)
        if flight is None:
            return
        if flight.path:
            self._incarnations.on_landed(flight, event.outcome)
            return
        if event.key == self.state.alarm:
            self.state.alarm = self.state.alarm_ms = None
            woken: set[tuple[str, int]] = set()
            for timer in [*iter(self._core.take_timer, None)]:  # not those that these set again
                # Each answer that a fiber gets while it computes sets a timer; one slice is enough.
                place = timer.of, timer.message_id
                if timer.kind is TimerKind.SEND and place in woken:
                    continue
                if timer.kind is TimerKind.SEND:
                    woken.add(place)
                self._on_timer(timer)

    def _on_timer(self, timer: Timer) -> None:
        match timer.kind:
            case TimerKind.SUPERVISOR:
                self._supervisors.on_timer(timer.of)
            case TimerKind.SEND:
                self._incarnations.on_timer(timer.of, timer.message_id)
            case TimerKind.STUCK:
                self._incarnations.on_patience_lost(timer.of, timer.message_id)
            case TimerKind.POST:
                self._core.post(timer.of, self.state.put_off.pop(timer.turn))
            case TimerKind.DEADLINE if not self._core.is_put_off(timer.of, timer.message_id):
                cause = self._core.in_flight_for(timer.of, timer.message_id)
                self._incarnations.time_out(timer.of, timer.message_id, cause)
            case TimerKind.DEADLINE:
                pass

    def _on_cancel(self, event: CancelAsk) -> None:
        place = self.state.asks.get(event.ask)
        if place is not None:
            failure = MessageFailed(CancelledError.__name__, "nobody waits for the answer any more")
            self._incarnations.withdraw(place.path, place.message_id, failure)

    def _on_exit_signal(self, event: SendExitSignal) -> None:
        if event.reason.kind is ExitKind.KILLED:
            self._incarnations.kill(event.to)
            return
        signal = self.state.signals.received(event.sender, event.to, event.reason)
        if signal is not None:
            self._incarnations.deliver(signal)

    def _on_link(self, event: Link) -> None:
        if not self.is_alive(event.other):
            noproc = ExitReason(ExitKind.NOPROC)
            signal = self.state.signals.received(event.other, event.path, noproc)
            if signal is not None:
                self._incarnations.deliver(signal)
            return
        self.state.signals.link(event.path, event.other, alive=True)

    def _on_monitor(self, event: Monitor) -> None:
        alive = self.is_alive(event.target)
        ref, signals = self.state.signals.monitor(event.watcher, event.target, alive=alive)
        self._core.out.append(Monitored(ref))
        for signal in signals:
            self._incarnations.deliver(signal)

    def _on_remember(self, event: Remember) -> None:
        process = self.state.processes.get(event.path)
        if process is not None and process.memory is None:
            process.memory = Raw(to_json(event.conversation))

    def _on_shut_down(self, event: ShutDown) -> None:
        self.state.shutting_down = True

    def _shuts_down_further(self) -> bool:
        """End the last root process, and the one before when that has ended."""
        state = self.state
        if not state.shutting_down or state.over:
            return False
        if state.roots:
            last = next(reversed(state.roots))
            was, state.ending = state.ending, last
            if last != was:
                self._supervisors.end(last, kill=False)
            return last != was
        if not state.processes:
            state.over = True
            state.timers.clear()
            self._core.out.append(MachineEnded())
        return False
