"""The program machine: `step(event, now)` changes the state and answers with actions.

| event                       | goes to                                                         |
|-----------------------------|-----------------------------------------------------------------|
| Spawn, EndProcess, ShutDown | spawning, families                                              |
| AskOnce                     | both of the next: a process for one question                    |
| Post, MessageArrived        | the mailbox of a process, then the worker of its body           |
| OutcomeArrived              | the life that started the effect; of a dead life only the money |
| … of an alarm               | whoever set a timer: families, sends, letters with a deadline   |
| SendExit, Link, Monitor …   | signals                                                         |

Nothing calls back into a step: what follows from an event is put into queues, which are empty when
the step ends. So the state between two steps is all there is.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Raw

from vegakit.errors import Cancelled as CancelledError
from vegakit.events import CancelRequested, MessageArrived, OutcomeArrived
from vegakit.policy import ExitKind, ExitReason
from vegakit.program.actions import Action, Ended, Monitored, SpawnRefused
from vegakit.program.authored import Programs
from vegakit.program.bodies import AgentBody, Code, FiberBody, ForeignBody, ReducerBody
from vegakit.program.commands import (
    AskOnce,
    CancelAsk,
    Demonitor,
    EndProcess,
    Event,
    Link,
    Monitor,
    Post,
    Remember,
    SendExit,
    ShutDown,
    Spawn,
    TrapExits,
    Unlink,
)
from vegakit.program.core import Core
from vegakit.program.families import Families
from vegakit.program.fibers import FiberWorker
from vegakit.program.foreign import ForeignWorker
from vegakit.program.lives import Lives
from vegakit.program.mail import Fell, Mail
from vegakit.program.purses import Purses
from vegakit.program.reducers import ReducerWorker
from vegakit.program.sends import SendWorker
from vegakit.program.spawning import Spawning
from vegakit.program.state import Phase, Program, Timer, TimerKind
from vegakit.program.tool_rounds import ToolRounds
from vegakit.records import to_json

__all__ = ["Machine"]


class Machine:
    """`state` is the program; `code` are the bodies of its processes, and may grow."""

    def __init__(self, state: Program, code: Code) -> None:
        self.code = code
        core = self._core = Core(state, code)
        self.purses = Purses(core)
        self._lives = Lives(core, self.purses)
        self._families = Families(core, self._lives)
        self._spawning = Spawning(core, self._families, self.purses)
        self._lives.families = self._families
        programs = Programs(core, self._lives, self._spawning, self.purses)
        tools = ToolRounds(core, self._lives, self._spawning, programs)
        self._lives.workers = {
            AgentBody: SendWorker(core, self.purses, tools),
            FiberBody: FiberWorker(core, self._lives, self._spawning, self.purses),
            ReducerBody: ReducerWorker(core, self._lives, self._spawning),
            ForeignBody: ForeignWorker(core, self._lives),
        }
        self._on: dict[type[Any], Callable[[Any], None]] = {
            OutcomeArrived: self._on_outcome,
            Post: lambda event: core.post(event.to, event.mail, event.dedupe),
            MessageArrived: lambda event: core.post(event.to, Mail(event.value), event.dedupe),
            AskOnce: self._on_ask_once,
            Spawn: self._on_spawn,
            EndProcess: lambda event: self._families.end(event.path, kill=event.kill),
            CancelAsk: self._on_cancel,
            SendExit: self._on_exit_signal,
            CancelRequested: lambda event: self._families.end(event.to, kill=True),
            Link: self._on_link,
            Unlink: lambda event: state.signals.unlink(event.path, event.other),
            Monitor: self._on_monitor,
            Demonitor: lambda event: state.signals.demonitor(event.watcher, event.ref),
            TrapExits: lambda event: state.signals.trapping.update({event.path: None}),
            Remember: self._on_remember,
            ShutDown: self._on_shut_down,
        }

    @property
    def state(self) -> Program:
        return self._core.state

    def is_alive(self, path: str) -> bool:
        """A process that may live again, or a group."""
        process = self.state.processes.get(path)
        if process is None:
            return path in self.state.families
        return process.phase is not Phase.OVER

    def step(self, event: Event, now: int) -> list[Action]:
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
        core = self._core
        while core.heard or core.ready or self._families.busy:
            if core.heard:
                self._lives.on_heard(*core.heard.popleft())
            elif self._families.busy:
                self._families.carry_out_next()
            else:
                self._lives.work(core.ready.popleft())

    def _on_spawn(self, event: Spawn) -> None:
        for _ in range(event.count):
            self._core.out.append(self._spawning.spawn(event))

    def _on_ask_once(self, event: AskOnce) -> None:
        made = self._spawning.spawn(Spawn(event.spec, event.name, event.spawner), once=True)
        if isinstance(made, SpawnRefused):
            self._core.out.append(made)
        else:
            self._core.post(made.path, event.mail)

    def _on_outcome(self, event: OutcomeArrived) -> None:
        if (ghost := self._core.lay_ghost(event.key)) is not None:
            self._lives.on_ghost_landed(ghost, event.outcome)
            return
        flight = self._core.land(event.key)
        if flight is None:
            return
        if flight.path:
            self._lives.on_landed(flight, event.outcome)
            return
        if event.key == self.state.alarm:
            self.state.alarm = self.state.alarm_ms = None
            for timer in [*iter(self._core.take_timer, None)]:  # not those that these set again
                self._on_timer(timer)

    def _on_timer(self, timer: Timer) -> None:
        match timer.kind:
            case TimerKind.FAMILY:
                self._families.on_timer(timer.of)
            case TimerKind.SEND:
                self._lives.on_timer(timer.of, timer.letter)
            case TimerKind.STUCK:
                self._lives.on_patience_lost(timer.of, timer.letter)
            case TimerKind.POST:
                self._core.post(timer.of, self.state.put_off.pop(timer.turn))
            case TimerKind.DEADLINE:
                cause = self._core.flying_for(timer.of, timer.letter)
                self._lives.time_out(timer.of, timer.letter, cause)

    def _on_cancel(self, event: CancelAsk) -> None:
        place = self.state.asks.get(event.ask)
        if place is not None:
            fell = Fell(CancelledError.__name__, "nobody waits for the answer any more")
            self._lives.withdraw(*place, fell)

    def _on_exit_signal(self, event: SendExit) -> None:
        if event.reason.kind is ExitKind.KILLED:
            self._lives.kill(event.to)
            return
        signal = self.state.signals.received(event.sender, event.to, event.reason)
        if signal is not None:
            self._lives.deliver(signal)

    def _on_link(self, event: Link) -> None:
        if not self.is_alive(event.other):
            noproc = ExitReason(ExitKind.NOPROC)
            signal = self.state.signals.received(event.other, event.path, noproc)
            if signal is not None:
                self._lives.deliver(signal)
            return
        self.state.signals.link(event.path, event.other, alive=True)

    def _on_monitor(self, event: Monitor) -> None:
        alive = self.is_alive(event.target)
        ref, signals = self.state.signals.monitor(event.watcher, event.target, alive=alive)
        self._core.out.append(Monitored(ref))
        for signal in signals:
            self._lives.deliver(signal)

    def _on_remember(self, event: Remember) -> None:
        process = self.state.processes.get(event.path)
        if process is not None and process.memory is None:
            process.memory = Raw(to_json(event.conversation))

    def _on_shut_down(self, event: ShutDown) -> None:
        self.state.shutting_down = True

    def _shuts_down_further(self) -> bool:
        """The last root first; the next when it is over."""
        state = self.state
        if not state.shutting_down or state.over:
            return False
        if state.roots:
            last = next(reversed(state.roots))
            was, state.ending = state.ending, last
            if last != was:
                self._families.end(last, kill=False)
            return last != was
        if not state.processes:
            state.over = True
            state.timers.clear()
            self._core.out.append(Ended())
        return False
