"""Processes, one incarnation after the other, and the supervisors that restart them (pure).

| phase    | a message   | it raises or is told to exit  | stop             | kill   | work done |
|----------|-------------|-------------------------------|------------------|--------|-----------|
| up       | is taken    | the incarnation ends, crashed | cancels all, and | killed | –         |
|          |             |                               | then is stopping |        |           |
| stopping | is kept     | –                             | –                | killed | shutdown  |
| down     | is kept     | –                             | –                | –      | –         |
| over     | AgentFailed | –                             | –                | –      | forgotten |

An incarnation that ends gives back the messages it has taken, to be delivered to the next
incarnation. A message whose send did something that must not be done twice fails with AgentFailed
instead.

    spawn ─▶ begin an incarnation ──▶ up ── the incarnation ends ──▶ its supervisor decides
                ▲                                            │ StartChild: the next incarnation
                └────────────────────────────────────────────┤ ReportEnded: ended for good
                                                             │ ExitSupervisor: above decides

A bare spawn has a private supervisor with this one child. It is made when the child first ends,
because it has nothing to decide before.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from vegakit.errors import Timeout
from vegakit.events import Answered, Crashed, EffectCancelled, EffectOutcome
from vegakit.ids import EffectKey
from vegakit.money import Money
from vegakit.policy import (
    ChildRecord,
    ChildState,
    EndProcess,
    ExitKind,
    ExitReason,
    ExitSupervisor,
    KillChild,
    ReportEnded,
    ReportReady,
    RestartStrategy,
    SendDown,
    SendExit,
    Signal,
    StartChild,
    StopChild,
    SupervisorAction,
    SupervisorMachine,
    WakeAt,
)
from vegakit.program.bodies import Body
from vegakit.program.core import Core, draw
from vegakit.program.messages import (
    LOST,
    VOID,
    Down,
    ExitMessage,
    MessageFailed,
    Outcome,
    ProcessMessage,
    late,
    system_message,
)
from vegakit.program.protocol import (
    GroupSpec,
    ProcessExited,
    ProcessRestarted,
    ProcessSpawned,
    ProcessSpec,
    ProcessStuck,
)
from vegakit.program.speculation import Speculation
from vegakit.program.state import (
    InFlightEffect,
    ProcessPhase,
    ProcessRecord,
    SupersededEffect,
    Supervision,
    TimerKind,
    child_path,
    forget_names,
    name_of,
)
from vegakit.program.wallets import Wallets

if TYPE_CHECKING:
    from vegakit.program.core import Worker


# Incarnations: each begins, takes messages, and ends.


_SHUTDOWN = ExitReason(ExitKind.SHUTDOWN)
_KILLED = ExitReason(ExitKind.KILLED)
_NORMAL = ExitReason(ExitKind.NORMAL)


class Incarnations:
    """Begins, runs and ends the incarnations of processes."""

    supervisors: "Supervisors"
    workers: "dict[type[Body], Worker]"

    def __init__(self, core: Core, wallets: Wallets) -> None:
        self._core = core
        self._wallets = wallets
        self._speculation = Speculation(core, wallets)

    def begin(self, path: str, process: ProcessRecord, generation: int) -> None:
        """Begin an incarnation and let its worker prepare."""
        state = self._core.state
        cause, process.generation = process.ended, generation
        process.phase, process.since_ms = ProcessPhase.UP, self._core.now
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
        """Let a process take its next message."""
        process = self._core.state.processes.get(path)
        if process is None or process.phase is not ProcessPhase.UP:
            return
        self._guarded(path, self._worker(process).work, path, process)
        if process.once and process.phase is ProcessPhase.UP:
            mailbox = process.mailbox
            if mailbox is not None and not mailbox.line:
                self._retire(path, process)

    def on_superseded_landed(
        self, superseded_effect: SupersededEffect, outcome: EffectOutcome
    ) -> None:
        """Settle only the money of a superseded effect. If the journal kept its outcome, that is
        the outcome of the new effect as well, which is then charged for it."""
        flight = superseded_effect.flight
        is_kept = self._core.state.recorded and isinstance(outcome, Answered)
        settled = EffectCancelled() if is_kept else outcome
        process = self._core.state.processes[flight.path]
        self._worker(process).settle(flight.path, process, flight, settled)
        self._speculation.on_superseded_landed(superseded_effect, settled)

    def on_landed(self, flight: InFlightEffect, outcome: EffectOutcome) -> None:
        """Settle an effect and hand its outcome to the process, unless that incarnation has
        ended."""
        path, process = flight.path, self._core.state.processes[flight.path]
        worker = self._worker(process)
        worker.settle(path, process, flight, outcome)
        is_waste = flight.effect.key in self._core.state.wasted_effects
        self._speculation.on_landed(flight, outcome)
        if is_waste:
            pass  # nobody hears of it, and it cannot crash a process: in order it would not be
        elif flight.generation == process.generation and process.phase is ProcessPhase.UP:
            if isinstance(outcome, Crashed):
                if not self._void(path, process, (flight.message_id,)):
                    cause = (flight.effect.key, *outcome.cause)
                    self.crash(path, ExitReason(ExitKind.CRASHED, outcome.reason, cause))
            elif isinstance(outcome, EffectCancelled) and outcome.late:
                self._on_late(path, process, flight)
            else:
                self._guarded(path, worker.on_outcome, path, process, flight, outcome)
        self._rest(path)

    def _on_late(self, path: str, process: ProcessRecord, flight: InFlightEffect) -> None:
        """Handle an effect that a deadline cut off. In the run that missed the deadline the sender
        has its result already. In a resumed run the journal says that it was too late, so it is too
        late again."""
        if process.mailbox is not None and process.mailbox.taken(flight.message_id) is not None:
            self.time_out(path, flight.message_id, (flight.effect.key,))

    def on_result(self, path: str, ask: str, outcome: Outcome) -> None:
        """Hand the answer to an ask to the process that asked."""
        process = self._core.state.processes.get(path)
        if process is not None and process.phase is not ProcessPhase.OVER:
            self._guarded(path, self._worker(process).on_result, path, process, ask, outcome)

    def on_timer(self, path: str, message_id: int) -> None:
        """Wake a process."""
        process = self._core.state.processes.get(path)
        if process is not None and process.phase is ProcessPhase.UP:
            self._guarded(path, self._worker(process).on_timer, path, process, message_id)

    def on_patience_lost(self, path: str, message_id: int) -> None:
        """Report a stuck process, once for each period without any outcome."""
        process = self._core.state.processes.get(path)
        if process is None or process.mailbox is None or process.mailbox.taken(message_id) is None:
            return
        patience_ms = max(1, process.spec.stuck_after_ms or 0)
        due_ms = process.since_ms + patience_ms
        if due_ms <= self._core.now:
            self._core.out.append(ProcessStuck(path, self._core.now - process.since_ms))
            due_ms = self._core.now + patience_ms
        self._core.wake_at(due_ms, TimerKind.STUCK, path, message_id)

    def time_out(self, path: str, message_id: int, cause: tuple[EffectKey, ...]) -> None:
        """Fail a message that has no result at its deadline."""
        process = self._core.state.processes.get(path)
        line = (process.mailbox.line if process and process.mailbox else None) or ()
        known = (each.message.timeout_ms for each in line if each.number == message_id)
        self.withdraw(path, message_id, late(cause, next(known, 0)))

    def withdraw(self, path: str, message_id: int, why: MessageFailed) -> None:
        """Stop the work on a message whose result is not wanted any more or is too late."""
        process = self._core.state.processes.get(path)
        if process is None or process.mailbox is None:
            return
        taken = process.mailbox.taken(message_id)
        if taken is None:
            self._fail_unread(process, message_id, why)
            if (later := self._core.answered_later(path, process, message_id)) is not None:
                self._core.answer(later, why)
            return
        if why is not VOID:
            self._speculation.on_withdrawn(path, message_id, taken.message)
        self._core.cancel(process, message_id, late=why is LOST or why.error == Timeout.__name__)
        self._worker(process).drop(path, process, message_id)
        process.mailbox.commit(message_id)
        self._core.answer(taken.message, why)
        self._core.ready.append(path)

    def _void(self, path: str, process: ProcessRecord, message_ids: Iterable[int]) -> bool:
        """Withdraw the speculative calls among these messages, with `VOID` as their result, and
        return whether there were any. A speculative call must not crash a process; and after a
        crash it is not delivered again, since the program makes the call itself when it gets
        there."""
        found = [each for each in message_ids if self._core.is_speculative(process, each)]
        for message_id in found:
            self._speculation.mark_wasted(path, message_id)
            self.withdraw(path, message_id, VOID)
        return bool(found)

    def _void_answered(self, path: str) -> None:
        """Void the speculative calls that this incarnation has answered. Without speculation they
        would have gone to the next incarnation, or to none. This comes before the news of the end,
        because a program that hears of the end may use such a result at once."""
        for word, speculative in self._core.state.speculative.items():
            if speculative.to == path and word not in self._core.state.asks:
                sender, _, ask = word.partition("|")
                self._core.pending_results.append((sender, ask, VOID))

    def crash(self, path: str, reason: ExitReason) -> None:
        """End the incarnation: its code failed or asked for it, or it does not trap an exit
        signal."""
        process = self._core.state.processes.get(path)
        if process is not None and process.phase is ProcessPhase.UP:
            self._end_incarnation(path, process, reason)

    def stop(self, path: str) -> None:
        """Ask a process to end once its effects have landed."""
        process = self._core.state.processes.get(path)
        if process is None or process.phase is not ProcessPhase.UP:
            return
        process.phase = ProcessPhase.STOPPING
        self._speculation.on_stopped(path, process)
        self._let_go(path, process)
        self._rest(path)

    def kill(self, path: str) -> None:
        """End a process at once."""
        process = self._core.state.processes.get(path)
        if process is not None and process.phase in (ProcessPhase.UP, ProcessPhase.STOPPING):
            self._end_incarnation(path, process, _KILLED)

    def _retire(self, path: str, process: ProcessRecord) -> None:
        """End a process for one message, which is answered. It has no supervisor, since there is
        nothing to decide."""
        self._let_go(path, process)
        self.close(path, _NORMAL)

    def close(self, path: str, reason: ExitReason) -> None:
        """End the process for good."""
        state = self._core.state
        process = state.processes[path]
        if process.phase is ProcessPhase.OVER:
            self._rest(path)
            return
        process.phase, process.ended = ProcessPhase.OVER, reason
        self._fail_messages(path, process, reason)
        for signal in list(state.signals.exit_signals(path, reason)):
            self.deliver(signal)
        state.roots.pop(path, None)
        spent = self._wallets.spent(path)
        self._core.out.append(ProcessExited(path, process.generation, reason, spent))
        self._rest(path)

    def close_group(self, path: str, supervision: Supervision, reason: ExitReason) -> None:
        """Close a group: its wallet goes back, and those tied to it are told."""
        state = self._core.state
        state.roots.pop(path, None)
        for name in supervision.specs or ():
            # What it has in flight is still paid by who spawned the group, who so waits for it.
            child = child_path(path, supervision.generation, name)
            if supervision.spawner and child in state.processes:
                state.spawned.setdefault(supervision.spawner, {})[child] = None
        _untie(state.spawned, supervision.spawner, path)
        self._wallets.close_group(path, supervision.spawner)
        for signal in list(state.signals.exit_signals(path, reason)):
            self.deliver(signal)
        self._core.out.append(ProcessExited(path, supervision.generation, reason, Money(0)))
        if supervision.spawner:
            self._rest(supervision.spawner)

    def deliver(self, signal: Signal) -> None:
        """Carry out a signal."""
        match signal:
            case EndProcess(to, reason):
                self.crash(to, reason)
            case SendExit(to, sender, reason):
                self._core.post(to, system_message(ExitMessage(sender, reason)))
            case SendDown(to, ref, target, reason):
                news = Down(ref, target, reason)
                self._core.post(to, system_message(news)) if to else self._core.out.append(news)

    def _end_incarnation(self, path: str, process: ProcessRecord, reason: ExitReason) -> None:
        process.phase, process.ended = ProcessPhase.DOWN, reason
        self._void_answered(path)  # first: what is in hand counts as answered once it is void
        self._void(path, process, process.mailbox.in_hand if process.mailbox else ())
        self._let_go(path, process)
        if process.mailbox is not None:
            process.mailbox.put_back()
        self.supervisors.on_exited(path, process.generation, reason)

    def _let_go(self, path: str, process: ProcessRecord) -> None:
        """Cancel everything that this incarnation started."""
        self._core.cancel(process)
        self._worker(process).abandon(path, process)
        for child in reversed(self._core.state.spawned.get(path, {})):
            self.supervisors.end(child, kill=False)

    def _rest(self, path: str) -> None:
        """Once nothing is in flight, end a process that was stopping, and forget one that has ended
        for good."""
        state = self._core.state
        process = state.processes[path]
        if process.in_flight or path in state.spawned:
            return
        if process.phase is ProcessPhase.STOPPING:
            self._end_incarnation(path, process, _SHUTDOWN)
        elif process.phase is ProcessPhase.OVER and not self.supervisors.may_revive(path, process):
            self._forget(path, process)

    def _forget(self, path: str, process: ProcessRecord) -> None:
        state = self._core.state
        self._wallets.close(path, process)
        del state.processes[path]
        state.pools.pop(path, None)
        forget_names(state, path, process)
        self._core.forget_authored(path)
        if process.spawner:
            state.living -= not process.once
            _untie(state.spawned, process.spawner, path)
            self._rest(process.spawner)

    def _fail_messages(self, path: str, process: ProcessRecord, reason: ExitReason) -> None:
        failure = MessageFailed("AgentFailed", f"{path} has ended: {reason}", cause=reason.cause)
        for waiting in (process.mailbox.line if process.mailbox else None) or ():
            speculative = self._core.speculative(waiting.message)
            self._core.answer(waiting.message, VOID if speculative else failure)
        for sender, ask in (process.later or {}).values():
            self._core.answer(ProcessMessage(None, ask, sender), failure)
        process.mailbox = process.later = None

    def _fail_unread(self, process: ProcessRecord, number: int, why: MessageFailed) -> None:
        """Fail a message that was not taken yet. It stays in the mailbox and is skipped when its
        turn comes."""
        line = (process.mailbox.line if process.mailbox else None) or ()
        for waiting in line:
            if waiting.number == number:
                self._core.answer(waiting.message, why)

    def _worker(self, process: ProcessRecord) -> "Worker":
        return self.workers[type(self._core.body_of(process))]

    def _guarded(self, path: str, act: Callable[..., None], *facts: object) -> None:
        """Call the code of a body. An exception ends this incarnation and nothing else."""
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


# Supervisors: carrying out their decisions, and reporting to them what became of their children.


_REMOVED = ExitReason(ExitKind.SHUTDOWN)


class Supervisors:
    """Runs the supervisors of a program, and carries out their orders one by one."""

    def __init__(self, core: Core, incarnations: Incarnations) -> None:
        self._core = core
        self._incarnations = incarnations
        self._orders: deque[tuple[str, SupervisorAction]] = deque()

    def start(
        self, path: str, spec: ProcessSpec | GroupSpec, spawner: str, *, once: bool = False
    ) -> None:
        """Start a process or a group."""
        if isinstance(spec, GroupSpec):
            self._open(path, spec, "", 1, spawner)
        else:
            self._incarnations.begin(path, ProcessRecord(spec, "", spawner, once=once), 1)

    def end(self, path: str, *, kill: bool) -> None:
        """End a process or group for good, with everything that it started."""
        if not kill:
            self._remove(path)
            return
        members = list(self._members(path))
        for member in reversed(members):
            self._remove(member)
        for member in members:
            self._incarnations.kill(member)

    def on_exited(self, path: str, generation: int, reason: ExitReason) -> None:
        """Tell the supervisor of a process that it has ended."""
        process = self._core.state.processes[path]
        key, name = process.supervision or path, name_of(path)
        supervisor, jitter = self._supervision(key).supervisor, draw(f"{path}#{generation}")
        self._tell(key, supervisor.on_exited(name, generation, reason, self._core.now, jitter))

    def on_timer(self, key: str) -> None:
        """Wake a supervisor."""
        supervision = self._core.state.supervisors.get(key)
        if supervision is not None:
            self._tell(key, supervision.supervisor.on_timer(self._core.now))

    @property
    def busy(self) -> bool:
        """Return whether orders are left to carry out."""
        return bool(self._orders)

    def carry_out_next(self) -> None:
        """Carry out the next order."""
        key, order = self._orders.popleft()
        if key in self._core.state.supervisors:
            self._carry_out(key, order)

    def may_revive(self, path: str, process: ProcessRecord) -> bool:
        """Return whether the process may be restarted. A finished child of a group is restarted
        together with its group."""
        supervision, name = self._core.state.supervisors.get(process.supervision), name_of(path)
        if supervision is None or name not in supervision.supervisor.children:
            return False
        return path == self._path(process.supervision, name)  # else of the group's last incarnation

    def _carry_out(self, key: str, order: SupervisorAction) -> None:
        match order:
            case StartChild(name, generation):
                self._start_child(key, name, generation)
            case StopChild(name):
                self._stop_child(key, name)
            case KillChild(name):
                self._kill_child(key, name)
            case WakeAt(due_ms):
                self._core.wake_at(due_ms, TimerKind.SUPERVISOR, key)
            case ReportEnded(name, generation, reason):
                self._over(self._path(key, name), reason)
            case ReportReady():
                self._report_ready(key)
            case ExitSupervisor(reason):
                self._exit(key, reason)

    def _start_child(self, key: str, name: str, generation: int) -> None:
        supervision, path = self._core.state.supervisors[key], self._path(key, name)
        spec = (supervision.specs or {}).get(name)
        if isinstance(spec, GroupSpec):
            self._open(path, spec, key, generation, self._spawner_of(key))
            return
        process = self._core.state.processes.get(path)
        if process is None:
            assert spec is not None  # the process of a private supervisor is kept while it runs
            process = ProcessRecord(spec, key, self._spawner_of(key))
        self._incarnations.begin(path, process, generation)
        self._tell(key, supervision.supervisor.on_started(name, generation, self._core.now))

    def _stop_child(self, key: str, name: str) -> None:
        path = self._path(key, name)
        if path in self._core.state.supervisors and path != key:
            self._tell(path, self._core.state.supervisors[path].supervisor.stop(self._core.now))
        else:
            self._incarnations.stop(path)

    def _kill_child(self, key: str, name: str) -> None:
        for path in list(self._members(self._path(key, name))):
            self._incarnations.kill(path)

    def _open(self, path: str, spec: GroupSpec, above: str, generation: int, spawner: str) -> None:
        children = {name: _child(child) for name, child in spec.children.items()}
        supervision = Supervision(
            SupervisorMachine(spec.rule, children), spec.children, above, spawner, generation
        )
        self._core.state.supervisors[path] = supervision
        self._tell(path, supervision.supervisor.start(self._core.now))

    def _exit(self, key: str, reason: ExitReason) -> None:
        state = self._core.state
        supervision = state.supervisors.pop(key)
        if supervision.specs is None:
            self._over(key, reason)
            self._escalate(supervision, reason)
            return
        for name in supervision.specs:
            path = child_path(key, supervision.generation, name)
            if path in state.processes:
                self._incarnations.close(path, reason)
        if supervision.above:
            above = state.supervisors[supervision.above].supervisor
            now, jitter = self._core.now, draw(f"{key}#{supervision.generation}")
            orders = above.on_exited(name_of(key), supervision.generation, reason, now, jitter)
            self._tell(supervision.above, orders)
        else:
            self._incarnations.close_group(key, supervision, reason)

    def _over(self, path: str, reason: ExitReason) -> None:
        if path in self._core.state.processes:
            self._incarnations.close(path, reason)
            supervision = self._core.state.supervisors.get(path)
            if supervision is not None and supervision.specs is None:
                del self._core.state.supervisors[path]

    def _escalate(self, supervision: Supervision, reason: ExitReason) -> None:
        """Fail the spawner of a group with the strategy `escalate` as if the error were its own."""
        if supervision.supervisor.rule.strategy is RestartStrategy.ESCALATE and supervision.spawner:
            self._incarnations.crash(supervision.spawner, reason)

    def _report_ready(self, key: str) -> None:
        supervision = self._core.state.supervisors[key]
        if supervision.above:
            above = self._core.state.supervisors[supervision.above].supervisor
            self._tell(
                supervision.above,
                above.on_started(name_of(key), supervision.generation, self._core.now),
            )

    def _supervision(self, key: str) -> Supervision:
        """Return the supervision; the private one of a process is made when it is first needed."""
        state = self._core.state
        if key not in state.supervisors:
            process = state.processes[key]
            living = ChildState.DOWN if process.phase is ProcessPhase.OVER else ChildState.UP
            spec = process.spec
            child = ChildRecord(spec.kind, spec.stop_within_ms, process.generation, living)
            supervisor = SupervisorMachine(spec.rule, {name_of(key): child})
            state.supervisors[key] = Supervision(supervisor, spawner=process.spawner)
        return state.supervisors[key]

    def _path(self, key: str, name: str) -> str:
        supervision = self._core.state.supervisors[key]
        return key if supervision.specs is None else child_path(key, supervision.generation, name)

    def _spawner_of(self, key: str) -> str:
        return self._core.state.supervisors[key].spawner

    def _remove(self, path: str) -> None:
        state, now = self._core.state, self._core.now
        process = state.processes.get(path)
        if process is None:
            if path in state.supervisors:
                self._tell(path, state.supervisors[path].supervisor.stop(now))
        elif process.phase is not ProcessPhase.OVER:
            key, name = process.supervision or path, name_of(path)
            supervisor = self._supervision(key).supervisor
            self._tell(key, supervisor.remove(name, now))
            if name not in supervisor.children:  # it was between two incarnations
                self._tell(key, [ReportEnded(name, process.generation, _REMOVED)])

    def _members(self, path: str) -> Iterator[str]:
        """Yield all processes and groups at or below the path, the last started first, each group
        or spawner after its members."""
        state = self._core.state
        supervision = state.supervisors.get(path)
        below = list(state.spawned.get(path, ()))
        if supervision is not None and supervision.specs is not None:
            below = [child_path(path, supervision.generation, name) for name in supervision.specs]
        for child in reversed(below):
            yield from self._members(child)
        yield path

    def _tell(self, key: str, orders: list[SupervisorAction]) -> None:
        self._orders.extend((key, order) for order in orders)


def _child(spec: ProcessSpec | GroupSpec) -> ChildRecord:
    within = None if isinstance(spec, GroupSpec) else spec.stop_within_ms
    return ChildRecord(spec.kind, within)
