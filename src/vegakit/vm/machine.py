"""The virtual machine: it runs tasks in turn, hands out requests and takes answers (pure).

    start ─▶ run(fuel) ─▶ Step(running | waiting | finished | crashed | exited, requests)
                ▲                      │
                └── answer, fail, chunk, end_stream ◀── the host

Tasks take turns in the order they became ready; a turn ends after so much fuel. Nothing depends
on how the fuel is given: `run(1)` many times is `run(many)`. An instruction that has to wait is
run again when it can go on, and costs its fuel once.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vegakit.errors import ContractViolated
from vegakit.lang import Module
from vegakit.vm import tasks
from vegakit.vm.conversion import fit
from vegakit.vm.effect_instructions import (
    EFFECT_INSTRUCTIONS,
    answered,
    chunked,
    failed,
    stream_ended,
)
from vegakit.vm.instructions import CALL_INSTRUCTIONS, DATA_INSTRUCTIONS, end_frame
from vegakit.vm.interpreter import compute
from vegakit.vm.lookahead import FUEL, Lookahead
from vegakit.vm.module_facts import COLD, LoadedModule, load, never_fails
from vegakit.vm.requests import CancelRequest, End, OpenScope
from vegakit.vm.state import (
    MAIN,
    TURN,
    Crash,
    Frame,
    ProgramTask,
    Status,
    Step,
    VmLimits,
    VmState,
    opened,
    packed,
    state_weight,
    task_weight,
)
from vegakit.vm.task_machine import InstructionHandler, TaskMachine
from vegakit.vm.tasks import cause_in, unwind
from vegakit.vm.values import ProgramFault, Value, restored, stored

# The machine.


_WEIGH_EVERY = 1_000_000
_OPS: Mapping[int, InstructionHandler] = {
    COLD + op: cold
    for op, cold in (
        DATA_INSTRUCTIONS | CALL_INSTRUCTIONS | EFFECT_INSTRUCTIONS | tasks.TASK_INSTRUCTIONS
    ).items()
}


_SENDS = frozenset({"send", "stream"})


class Vm(TaskMachine):
    """The machine of one run of a program."""

    def __init__(self, program: Module | LoadedModule, state: VmState) -> None:
        loaded = program if isinstance(program, LoadedModule) else load(program)
        live_registers = sum(
            len(frame.registers) for s in state.tasks.values() for frame in s.frames
        )
        super().__init__(loaded, opened(state), live_registers)
        for ticket, asked in self.state.asked.items():
            if not asked.done:
                self.pending.setdefault(asked.task, {})[ticket] = None
            if asked.speculative:
                self.speculative[ticket] = None
                if asked.guess:
                    self.guesses[ticket] = None
        self.stirred |= dict.fromkeys(self.state.tasks)
        self.weight_bound = state.limits.weight + 1
        self._weights: dict[str, int] = {}
        for name, task in self.state.tasks.items():
            if task.waits and name not in self.state.ready:
                self.waiting.setdefault(task.waits, []).append(name)

    def weigh(self) -> bool:
        """Return whether the state is small enough to be stored. If not, end the program."""
        fits = self._fits()
        if not fits:
            self._crash_all(ProgramFault("LimitReached", _TOO_LARGE))
        return fits

    def _fits(self) -> bool:
        # What has not changed is not weighed again. What is gone is still counted, so the whole is
        # weighed anew only when the bound says that it may be too large.
        state, weights = self.state, self._weights
        for name in self.unweighed:
            if name in state.tasks:
                before, weights[name] = weights.get(name, 0), task_weight(state.tasks[name])
                self.weight_bound += weights[name] - before
        self.unweighed.clear()
        if self.weight_bound > state.limits.weight:
            self.weight_bound = state_weight(state)
            self._weights = {name: task_weight(task) for name, task in state.tasks.items()}
        return self.weight_bound <= state.limits.weight

    def is_next(self, ticket: str) -> bool:
        """Return whether all sends that come before this one in the program are over: older ones of
        its task, and the tasks before it in the groups around it."""
        state, asked = self.state, self.state.asked.get(ticket)
        if asked is None:
            return True
        if asked.speculative:
            return False
        name, until = asked.task, ticket
        while (task := state.tasks.get(name)) is not None:
            for other in self.pending.get(name, ()):
                if other == until:
                    break
                if state.asked[other].kind in _SENDS and not state.asked[other].speculative:
                    return False
            group = state.groups.get(task.group)
            if group is None:
                break
            if any(member.task in state.tasks for member in group.members[: task.number]):
                return False
            name, until = group.owner, ""
        return True

    def written(self) -> VmState:
        """Return the state as JSON can hold it; `weigh` says before whether it may be stored."""
        return packed(self.state)

    @property
    def spans(self) -> list[str]:
        """Return the spans of the trace that are open."""
        frames = (frame for task in self.state.tasks.values() for frame in task.frames)
        return [span for frame in frames for span in frame.spans]

    # Running

    def run(self, fuel: int) -> Step:
        """Run for at most so much fuel. Return the status and the requests that were made."""
        state = self.state
        while fuel > 0 and state.status is Status.RUNNING and state.ready:
            fuel -= self._take_turn(fuel)
            state.lookahead_due = True
        if (
            state.window
            and state.lookahead_due
            and not state.ready
            and state.status is Status.RUNNING
            and not (state.outbox and type(state.outbox[-1]) is OpenScope)
        ):
            # Where a session is asked for the program goes on at once, and looks ahead from inside.
            state.lookahead_due = False
            run_lookahead(self)
        return self._step()

    def _take_turn(self, fuel: int) -> int:
        state = self.state
        task = state.tasks[state.ready[0]]
        room = min(fuel, state.turn, state.limits.total_fuel - state.fuel_used)
        if room <= 0:
            self._crash_all(ProgramFault("FuelExhausted", _NO_FUEL, self.stack(task)))
            return 0
        room = min(room, state.weighed + _WEIGH_EVERY - state.fuel_used)
        self.stirred[task.name] = self.unweighed[task.name] = None
        free = 1 if task.waits else 0
        task.waits = ""
        spent = room - compute(self, task, room + free, _OPS)
        state.fuel_used += spent
        self._end_turn(task, spent)
        return spent

    def _end_turn(self, task: ProgramTask, spent: int) -> None:
        state = self.state
        if not state.ready or state.ready[0] != task.name:
            state.turn = TURN
        else:
            state.turn -= spent
            if state.turn <= 0:
                state.turn = TURN
                state.ready.append(state.ready.pop(0))
        if state.fuel_used >= state.weighed + _WEIGH_EVERY:
            state.weighed = state.fuel_used
            if state.status is Status.RUNNING and not self._fits():
                self._crash_all(ProgramFault("LimitReached", _TOO_LARGE, self.stack(task)))

    def _step(self) -> Step:
        state = self.state
        requests = tuple(state.outbox)
        state.outbox.clear()
        status = state.status
        if status is Status.RUNNING and not state.ready:
            status = Status.WAITING
        return Step(status, requests, stored(state.value), state.error)

    # Results from the host. Each returns False if nobody waits for the result any more.

    def answer(self, ticket: str, value: object, cause: tuple[str, ...] = ()) -> bool:
        """Deliver a result. `cause` becomes the cause of the error if the value does not fit the
        requested type."""
        return answered(self, ticket, value, cause)

    def fail(self, ticket: str, error: str, reason: str, cause: tuple[str, ...] = ()) -> bool:
        """Deliver an error in place of a result."""
        return failed(self, ticket, error, reason, cause)

    def chunk(self, ticket: str, text: str) -> bool:
        """Deliver a part of a streamed answer."""
        return chunked(self, ticket, text)

    def end_stream(self, ticket: str) -> bool:
        """Deliver the end of a streamed answer."""
        return stream_ended(self, ticket)

    def decline(self, ticket: str) -> None:
        """Drop a speculative call that the host has declined. It is made when its turn comes."""
        if self.is_speculative(ticket):
            # There may be money for it when any answer has come.
            self.stirred[self.forget_asked(ticket).task] = None

    def void(self, ticket: str) -> None:
        """Drop a speculative call whose result is valid only in its turn. The program makes the
        call again when it gets there."""
        if self.is_speculative(ticket):
            self.cancel_speculative([ticket])
            self.state.outbox.pop()

    def end_groups(self, frame: Frame) -> None:
        tasks.end_groups(self, frame)

    def end_tasks(self, names: list[str]) -> None:
        tasks.end_tasks(self, names)

    # The end

    def unwind(self, task: ProgramTask, fault: ProgramFault) -> bool:
        """Return whether a handler goes on with the error. It may take a branch the lookahead did
        not expect, so cancel the speculative calls that the task can no longer reach."""
        handled = unwind(self, task, fault)
        if handled and self.state.window:
            cancel_unreachable(self, task)
        return handled

    def finish(self, value: Value) -> None:
        self._end_all(value)
        self.state.status, self.state.value = Status.FINISHED, value

    def exit(self, task: ProgramTask, reason: str) -> None:
        """End the process. The error is for senders that wait for a result of it."""
        crash = Crash("AgentFailed", reason, self.stack(task), cause_in(task, ()))
        self._end_all(None)
        self.request(End(reason))
        self.state.status, self.state.error = Status.EXITED, crash

    def crash(self, crash: Crash) -> None:
        """End the program with an error. Failed futures that were not awaited yet are a cause as
        well: otherwise a resumed run would fail at each of them, one after the other."""
        cause = dict.fromkeys(crash.cause)
        for asked in self.state.asked.values():
            if asked.error is not None and not asked.taken:
                cause |= dict.fromkeys(asked.error.cause)
        crash = Crash(crash.error, crash.reason, crash.stack, (*cause,))
        self._end_all(None)
        self.state.status, self.state.error = Status.CRASHED, crash

    def _crash_all(self, fault: ProgramFault) -> None:
        self.crash(Crash(fault.name, fault.reason, fault.stack, fault.cause))

    def _end_all(self, value: Value) -> None:
        """Close all scopes, and cancel all tasks and requests. Processes in the result stay
        alive."""
        state = self.state
        if state.window:
            for name in state.tasks:
                self.cancel_all_speculative(name)
        main = state.tasks[MAIN]
        tasks.abandon(self, main)
        while main.frames:
            end_frame(self, main.frames.pop(), value)
        tasks.cancel_pending(self, MAIN)
        for ticket, asked in state.asked.items():
            if not asked.done:
                self.request(CancelRequest(ticket))
        for part in (state.tasks, state.asked, state.groups, state.scopes, state.spawned):
            part.clear()
        state.ready.clear()
        self.pending.clear()
        self.speculative.clear()
        self.guesses.clear()
        self.kept_walks.clear()
        self.waiting.clear()


_NO_FUEL = "the program has used all its fuel; raise the limit or look for an endless loop"
_TOO_LARGE = "the variables of the program hold more than a program may"


# When a program looks ahead, from which of its tasks and how far; the calls that become useless.
#
# What a program does for an answer must not grow with what is left of it. Most of the rest waits
# for answers that are not there yet, so a lookahead goes twice as far as calls were found to begin,
# and only now and then all the way.
#
# Where it met a guard that is not decided, it looks a second time, past that guard.
#
# | a task                                      | is looked ahead from    |
# |---------------------------------------------|-------------------------|
# | for which nothing has changed               | nowhere                 |
# | that has no call left                       | nowhere                 |
# | whose last walk was sure of all it met, and | where that walk stopped |
# | met a call still ahead of the program       |                         |
# | any other                                   | where it waits          |


_WIDE, _EVERY = 8, 256
"""The first lookaheads go as far as their fuel, and then one in so many."""

_NEAR = 8
"""How many calls and awaited results a lookahead passes at least."""


def run_lookahead(vm: TaskMachine) -> None:
    """Look ahead from every task that waits for a result. The tasks of one `parallel` are
    independent."""
    # With a full window nothing can begin, and the walk would take time from the program.
    state = vm.state
    if len(vm.speculative) >= state.window:
        return
    state.walks += 1
    is_wide = state.walks <= _WIDE or state.walks % _EVERY == 0
    reach = FUEL if is_wide else state.reach + 2 * len(vm.speculative)
    farthest = 0
    for task in _due(vm):
        if all(vm.facts.regions.is_quiet(frame.function, frame.pc) for frame in task.frames):
            continue
        if (lookahead := _continued(vm, task)) is None:
            lookahead = _walked(vm, task, begins=True, reach=reach)
            farthest = max(farthest, lookahead.farthest if lookahead else 0)
        if lookahead is not None and lookahead.held_back:
            vm.stirred[task.name] = None
        if lookahead is not None and lookahead.is_sure:
            vm.kept_walks[task.name] = lookahead
        if state.guesses and lookahead is not None and lookahead.met_guard:
            # Only now: calls that the program makes in any case have the first claim.
            _walked(vm, task, begins=True, reach=reach, guesses=True)
    least = state.reach // 2 if is_wide and state.walks > _WIDE else state.reach
    state.reach = max(_NEAR, 2 * farthest, least)


def _due(vm: TaskMachine) -> list[ProgramTask]:
    """Return the waiting tasks for which something has changed since the last lookahead. A task
    that waits for a group has its members to look ahead for it, and the body of a monitor may never
    run."""
    state = vm.state
    stirred, vm.stirred = vm.stirred, {}
    names = stirred if len(stirred) < 2 else [name for name in state.tasks if name in stirred]
    tasks = [state.tasks[name] for name in names if name in state.tasks]
    return [task for task in tasks if task.waits in state.asked and not task.watch]


def _continued(vm: TaskMachine, task: ProgramTask) -> Lookahead | None:
    """Go on with the last lookahead of a task, if the program does what it has foreseen. Return
    None if it has to look from where it waits: it may know more there."""
    kept = vm.kept_walks.pop(task.name, None)
    # While a call that the walk met is still ahead of the program, so is where the walk stopped.
    # One that only an earlier walk met may lie behind that place: the program has then passed it.
    if not isinstance(kept, Lookahead) or kept.seen.isdisjoint(vm.speculative_tickets(task.name)):
        return None
    with never_fails("looking ahead"):
        kept.go_on()
    return kept if kept.is_sure else None


def _walked(
    vm: TaskMachine, task: ProgramTask, *, begins: bool, reach: int = FUEL, guesses: bool = False
) -> Lookahead | None:
    """Return a lookahead that has ended, None if it could not begin. An error ends only the
    lookahead: the program has not got there yet, and will raise its own errors. Calls that had
    begun by then are used or cancelled like any other."""
    lookahead: Lookahead | None = None
    with never_fails("looking ahead"):
        lookahead = Lookahead(vm, task, begins=begins, reach=reach, guesses=guesses)
        lookahead.walk()
    return lookahead


def cancel_unreachable(vm: TaskMachine, task: ProgramTask) -> None:
    """Cancel the speculative calls this task can no longer reach, after it took a branch the
    lookahead did not expect."""
    speculative = vm.speculative_tickets(task.name)
    if speculative:
        walked = _walked(vm, task, begins=False)
        seen: set[str] = set() if walked is None else walked.seen
        if vm.guesses:
            guessing = _walked(vm, task, begins=False, guesses=True)
            seen.update(() if guessing is None else guessing.seen)
        vm.cancel_speculative([*_unused(vm, speculative, seen)])


def _unused(vm: TaskMachine, speculative: list[str], seen: set[str]) -> Iterator[str]:
    """Yield every speculative call that will not be used. When one is dropped, later calls to the
    same process are dropped too, because that process has seen the dropped message."""
    spoilt: set[str] = set()
    for ticket in speculative:
        older = vm.state.asked[ticket].older
        to = "" if older is None else older.to
        if ticket not in seen or to in spoilt:
            spoilt |= {to} - {""}
            yield ticket


# Start.


def start(
    program: Module | LoadedModule,
    function: int,
    args: Sequence[Any] = (),
    limits: VmLimits = VmLimits(),  # noqa: B008  (frozen)
    window: int = 0,
    *,
    guesses: bool = False,
) -> VmState:
    """Return the state before the first instruction. `args` are JSON and must fit the
    parameters."""
    module = program.module if isinstance(program, LoadedModule) else program
    called = module.functions[function]
    if len(args) != len(called.params):
        raise ContractViolated(
            f"{called.name} takes {len(called.params)} arguments; got {len(args)}"
        )
    try:
        values = [
            stored(fit(restored(arg), kind, f"argument {at + 1}"))
            for at, (arg, kind) in enumerate(zip(args, called.params, strict=True))
        ]
    except ProgramFault as fault:
        raise ContractViolated(f"{called.name}: {fault.reason}") from fault
    registers = values + [None] * (called.registers - len(values))
    main = ProgramTask(MAIN, [Frame(function, 0, registers, called.name)])
    return VmState({MAIN: main}, [MAIN], limits, TURN, window=window, guesses=guesses)
