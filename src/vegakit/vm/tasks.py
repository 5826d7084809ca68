"""Parallel tasks: groups, monitors, and the unwinding of errors to their handlers (pure).

A task starts with a copy of the frame it is split from, so it belongs to the same call: what it
opened or spawned goes back to that call when it ends.

When a member of a group fails, the members after it are cancelled at once, since in a sequential
program they would not have run. The members before it continue: if one of them fails, its error is
the one that counts.

A `race` is a group of which the first member that wins ends the others. Which one that was is a
fact about time, so it is asked of the host, which records it: a resumed run has the same winner
although all recorded answers are there at once. Nothing of a member that does not win is left, so
nothing behind the race depends on how far it came.

An error that is raised while another one is handled has the cause of that one as well: a handler
that rethrows, or fails during cleanup, fails because of the first error.
"""

from vegakit.effects import RACE
from vegakit.lang import CATCHABLE, Op
from vegakit.vm.instructions import close_scopes, close_spans, drop, end_frame
from vegakit.vm.module_facts import JUMP, HandlerEntry
from vegakit.vm.requests import CallHost, CancelRequest, CloseScope, Watch
from vegakit.vm.state import (
    ActiveHandler,
    Crash,
    Frame,
    Group,
    GroupMember,
    ProgramTask,
    TicketState,
    fault_of,
)
from vegakit.vm.task_machine import RELOAD, STOP, InstructionHandler, Operands, TaskMachine
from vegakit.vm.values import Handle, ProgramFault, bad, kind_of, limit

# Groups that are joined, and monitors that wait beside the program.


def _par_begin(vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands) -> None:
    _begin(vm, task, frame, operands, race=False)


def _race_begin(vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands) -> None:
    _begin(vm, task, frame, operands, race=True)


def _begin(
    vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands, *, race: bool
) -> None:
    name = f"{task.name}~{task.made}"
    task.made += 1
    vm.state.groups[name] = Group(task.name, len(task.frames) - 1, race=race)
    frame.groups.append(name)
    frame.registers[operands[0]] = name


def _group(vm: TaskMachine, frame: Frame, at: int) -> tuple[str, Group]:
    name = frame.registers[at]
    if type(name) is not str or name not in frame.groups:
        raise bad("there is no such group of tasks")
    return name, vm.state.groups[name]


def _par_spawn(vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands) -> None:
    at, begin, brings = operands
    name, group = _group(vm, frame, at)
    number = len(group.members)
    member = GroupMember(f"{name}.{number}", tuple(brings))
    # After a failure no member starts, since in a sequential program it would not have run; nor
    # does one after a race is won. It is counted all the same, so that the names of members depend
    # on their place alone.
    if not group.won if group.race else group.failed < 0:
        made = _split(vm, task, frame, member.task, begin)
        made.group, made.number = name, number
        vm.state.ready.append(made.name)
        group.running += 1
    elif number >= vm.state.limits.tasks:
        raise limit(f"a group has at most {vm.state.limits.tasks:,} tasks")
    group.members.append(member)


def _split(vm: TaskMachine, task: ProgramTask, frame: Frame, name: str, begin: int) -> ProgramTask:
    depth = task.depth + len(task.frames)
    if depth >= vm.state.limits.depth:
        raise limit(f"calls and tasks nest at most {vm.state.limits.depth} deep")
    if len(vm.state.tasks) >= vm.state.limits.tasks:
        raise limit(f"at most {vm.state.limits.tasks:,} tasks run side by side")
    if name in vm.state.tasks:
        raise bad("a process is watched twice at one place")
    vm.take_registers(len(frame.registers))
    # The open scopes are `kept`: they belong to the call that the task is split from, and the task
    # closes only those that it opens itself.
    copy = Frame(
        frame.function,
        begin,
        [*frame.registers],
        frame.place,
        outer=frame.outer,
        scopes=[*frame.scopes],
        kept=len(frame.scopes),
        within=vm.span(frame),
    )
    made = vm.state.tasks[name] = ProgramTask(name, [copy], depth=depth)
    vm.unweighed[name] = None
    return made


def _par_join(vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands) -> int | None:
    name, group = _group(vm, frame, operands[0])
    if group.running:
        return vm.wait(task, frame, f"group {name}")
    frame.groups.remove(name)
    del vm.state.groups[name]
    if group.race and not group.won:
        raise _no_winner(group)
    # In program order, so that of two members that write one variable the later one wins. A member
    # that was cancelled has no values.
    for member in group.members:
        for register, value in zip(member.brings, member.values or (), strict=False):
            frame.registers[register] = value
    if group.error is not None and not group.race:
        raise fault_of(group.error)
    return None


def _no_winner(group: Group) -> ProgramFault:
    """If all have failed, that is the failure of the first one that is written."""
    answers = len(group.members) - group.failures
    if group.error is not None and not answers:
        return fault_of(group.error)
    if not answers:
        return limit("nobody runs in this race; give it a list with items")
    return limit(
        f"none of {answers} answers was good; say in the prompt what is wanted, or accept more"
    )


def _task_end(vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands) -> int:
    if len(task.frames) > 1 or not (task.group or task.watch):
        raise bad("only a task ends by TASK_END")
    if task.group and vm.state.groups[task.group].race:
        end_tasks(vm, [task.name])
    else:
        _finish_task(vm, task)
    return STOP


def _race_won(vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands) -> int:
    """End a member that has a good value. It wins if the host says that it was the first: another
    may have been in an earlier life of this run, and is then waited for."""
    group = vm.state.groups.get(task.group)
    if group is None or not group.race or len(task.frames) > 1:
        raise bad("only a member of a race wins")
    if group.first < 0:
        ticket = vm.ticket(frame, operands[0])
        if ticket not in vm.state.asked:
            vm.ask(ticket, TicketState("host", task.name))
            rights = vm.functions[frame.function].rights
            vm.request(CallHost(ticket, RACE, (str(task.number),), rights))
        asked = vm.state.asked[ticket]
        if not asked.done:
            return vm.wait(task, frame, ticket)
        if asked.error is not None:
            raise fault_of(asked.error)
        del vm.state.asked[ticket]
        if type(asked.value) is not str or not asked.value.isdecimal():
            raise bad(f"the first of a race is a number, not {kind_of(asked.value)}")
        group.first = int(asked.value[:9])
    if task.number != group.first:
        end_tasks(vm, [task.name])
        return STOP
    group.won = True
    others = [member.task for member in group.members if member.task != task.name]
    end_tasks(vm, [name for name in others if name in vm.state.tasks], final=True)
    _finish_task(vm, task)
    return STOP


def fail_member(vm: TaskMachine, task: ProgramTask, crash: Crash) -> None:
    """Record the error of a member, of which only the first frame is left, and cancel the members
    after it."""
    group = vm.state.groups[task.group]
    if group.race:
        group.failures += 1
        if group.error is None or task.number < group.failed:
            group.failed, group.error = task.number, crash
        end_tasks(vm, [task.name])
        return
    group.failed, group.error = task.number, crash
    younger = [member.task for member in group.members[task.number + 1 :]]
    for member in group.members[task.number + 1 :]:
        member.values = None
    _finish_task(vm, task)
    end_tasks(vm, [name for name in younger if name in vm.state.tasks])


def _finish_task(vm: TaskMachine, task: ProgramTask) -> None:
    """End the first frame of a task. What it made passes to the call it was split from."""
    frame = task.frames[0]
    group = vm.state.groups.get(task.group)
    close_scopes(vm, frame, frame.kept)
    close_spans(vm, frame)
    if frame.groups:
        end_groups(vm, frame)
    if group is None:
        drop(vm, frame.spawned)
        end_tasks(vm, frame.monitors)
        cancel_pending(vm, task.name)
    else:
        member, owner = group.members[task.number], vm.state.tasks[group.owner]
        member.values = [frame.registers[each] for each in member.brings]
        owner.changes += task.changes
        owner.frames[group.frame].spawned += frame.spawned
        owner.frames[group.frame].monitors += frame.monitors
        vm.inherit(task.name, group.owner)
    _remove(vm, task)


def _remove(vm: TaskMachine, task: ProgramTask) -> None:
    """Remove a task. If it was the last of its group, wake the task that waits for the group."""
    vm.live_registers -= len(task.frames[0].registers)
    vm.forget(task)
    group = vm.state.groups.get(task.group)
    if group is not None:
        group.running -= 1
        if not group.running:
            vm.wake(f"group {task.group}")


def end_groups(vm: TaskMachine, frame: Frame) -> None:
    """Cancel the groups that the call has not joined."""
    names = [*frame.groups]
    frame.groups.clear()
    for name in names:
        members = vm.state.groups[name].members
        end_tasks(vm, [m.task for m in members if m.task in vm.state.tasks])
        del vm.state.groups[name]


def end_tasks(vm: TaskMachine, names: list[str], *, final: bool = False) -> None:
    """Cancel tasks and everything that they started, the youngest first."""
    found = [*names]
    for name in found:
        for frame in vm.state.tasks[name].frames if name in vm.state.tasks else ():
            found += frame.monitors
            for group in frame.groups:
                found += [member.task for member in vm.state.groups[group].members]
    # Taken out together: taken out one by one, many tasks would take quadratic time.
    gone = set(found)
    vm.state.ready[:] = [name for name in vm.state.ready if name not in gone]
    for name in reversed(found):
        if name in vm.state.tasks:
            _cancel(vm, vm.state.tasks[name], final=final)


def _cancel(vm: TaskMachine, task: ProgramTask, *, final: bool) -> None:
    """Cancel one task. The tasks that it started are gone already."""
    abandon(vm, task)
    for frame in reversed(task.frames[1:]):
        _bare(vm, frame)
        end_frame(vm, frame)
    frame = task.frames[0]
    _bare(vm, frame)
    close_scopes(vm, frame, frame.kept)
    close_spans(vm, frame)
    drop(vm, frame.spawned)
    cancel_pending(vm, task.name, final=final)
    _remove(vm, task)


def abandon(vm: TaskMachine, task: ProgramTask) -> None:
    """Drop a result that the task no longer uses. If it opened a budget scope, close that."""
    asked = vm.state.asked.get(task.waits)
    if asked is None or not asked.done or asked.task != task.name:
        return
    # The host has set money aside for a scope that nobody will enter or close.
    if asked.kind == "scope" and asked.error is None:
        vm.request(CloseScope(task.waits))
    if asked.kind not in ("send", "spawn", "stream"):
        del vm.state.asked[task.waits]


def _bare(vm: TaskMachine, frame: Frame) -> None:
    for name in frame.groups:
        del vm.state.groups[name]
    frame.groups.clear()
    frame.monitors.clear()


def cancel_pending(vm: TaskMachine, task: str, *, final: bool = False) -> None:
    """Cancel the requests of a task that have no result."""
    for ticket in vm.pending.pop(task, ()):
        asked = vm.state.asked[ticket]
        # An orphan is waited for: it can be ended only when it has started and its path is known.
        if asked.kind != "spawn" or not asked.orphan:
            vm.request(CancelRequest(ticket, final))
            vm.forget_asked(ticket)


def _monitor(vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands) -> int | None:
    """Run by the program, split off a task that waits here; run by that task, continue with its
    body."""
    into, of, after, site = operands
    ticket = vm.ticket(frame, site)
    if task.watch == ticket and len(task.frames) == 1 and vm.has_asked(ticket, "watch", task):
        asked = vm.state.asked.pop(ticket)
        if asked.error is not None:
            raise fault_of(asked.error)
        frame.registers[into] = asked.value
        return None
    process = frame.registers[of]
    if type(process) is not Handle:
        raise bad(f"a process is watched, not {kind_of(process)}")
    name = f"{task.name}?{ticket}"
    # It begins at this instruction, which it runs as the watcher when its ticket is answered.
    made = _split(vm, task, frame, name, frame.pc - 1)
    frame.monitors.append(name)
    vm.ask(ticket, TicketState("watch", name))
    made.watch = ticket
    vm.park(made, ticket)
    vm.request(Watch(ticket, process.path))
    frame.pc = after
    return RELOAD


TASK_INSTRUCTIONS: dict[Op, InstructionHandler] = {
    Op.MONITOR: _monitor,
    Op.PAR_BEGIN: _par_begin,
    Op.PAR_SPAWN: _par_spawn,
    Op.PAR_JOIN: _par_join,
    Op.TASK_END: _task_end,
    Op.RACE_BEGIN: _race_begin,
    Op.RACE_WON: _race_won,
}


# From an error to its handler. Frames end on the way, the innermost first.


def unwind(vm: TaskMachine, task: ProgramTask, fault: ProgramFault) -> bool:
    """Move the task to the handler of an error. If there is none, pass the error to the group or
    the program, and return False."""
    found = _found(vm, task, fault)
    depth = found[0] if found else 0
    cause = cause_in(task, fault.cause, depth)
    crash = Crash(fault.name, fault.reason, () if found else fault.stack or vm.stack(task), cause)
    error = f"{fault.name}: {fault.reason}"
    while len(task.frames) > depth + 1:
        end_frame(vm, task.frames.pop(), error=error)
    if not found:
        close_spans(vm, task.frames[0], error=error)
    if found:
        _enter(vm, task.frames[-1], found[1], fault, cause)
    elif task.group:
        fail_member(vm, task, crash)
    else:
        vm.crash(crash)
    return found is not None


def _found(
    vm: TaskMachine, task: ProgramTask, fault: ProgramFault
) -> tuple[int, HandlerEntry] | None:
    """Return the innermost frame with a handler for the error, and the handler."""
    if fault.name not in CATCHABLE:
        return None
    for depth in reversed(range(len(task.frames))):
        frame = task.frames[depth]
        handlers = vm.function(frame.function).handlers
        vm.extra += 1 + (len(handlers) >> 4)
        for handler in handlers:
            start, end, _, kinds, _, _ = handler
            if start < frame.pc <= end and (not kinds or fault.name in kinds):
                return depth, handler
    return None


def cause_in(task: ProgramTask, cause: tuple[str, ...], depth: int = 0) -> tuple[str, ...]:
    """Return the cause of an error here, with the causes of the errors that the calls from `depth`
    on are handling."""
    found = dict.fromkeys(cause)
    for frame in task.frames[depth:]:
        for handling in frame.handling:
            if handling.start < frame.pc <= handling.end:
                found |= dict.fromkeys(handling.cause)
    return (*found,)


def _enter(
    vm: TaskMachine,
    frame: Frame,
    handler: HandlerEntry,
    fault: ProgramFault,
    cause: tuple[str, ...],
) -> None:
    _, stop, target, _, reason, scopes = handler
    if cause or frame.handling:
        # A loop enters its handler anew in each round: what it handled in earlier rounds is over.
        around = [one for one in frame.handling if one.start < target < one.end]
        end = _end_of(vm, frame, stop, target)
        frame.handling = (*around, ActiveHandler(target, end, cause)) if cause else (*around,)
    # Groups first: their tasks may have opened scopes inside of those that are closed here.
    end_groups(vm, frame)
    close_scopes(vm, frame, scopes)
    if reason >= 0:
        frame.registers[reason] = fault.reason
    frame.pc = target


def _end_of(vm: TaskMachine, frame: Frame, stop: int, target: int) -> int:
    """Return the end of a handler. The compiler puts a jump over all handlers behind the guarded
    code."""
    code = vm.function(frame.function).code
    if stop < len(code) and code[stop][0] == JUMP and target < code[stop][1]:
        return code[stop][1]
    return len(code)  # the compiler makes no such code
