"""Strands side by side: groups that are joined, and monitors that wait beside the program.

A strand is a copy of the frame it splits from, so it belongs to the same call: what it opened or
spawned goes back to that call when it ends.

When a member of a group fails, the younger members are cancelled at once, for in the sequential
program they would not have run. The older ones go on: if one of them fails, it wins.
"""

from typing import TYPE_CHECKING

from vegakit.lang import Op
from vegakit.vm.calling import close_scopes, drop, end_frame
from vegakit.vm.computing import RELOAD, STOP, Cold, Operands
from vegakit.vm.faults import bad, limit
from vegakit.vm.state import Asked, Crash, Frame, Group, Member, Strand, fault_of
from vegakit.vm.values import Handle, kind_of
from vegakit.vm.wants import Cancel, CloseScope, Watch

if TYPE_CHECKING:
    from vegakit.vm.machine import Vm

__all__ = ["STRANDS", "abandon", "cancel_asked", "end_groups", "end_strands", "fail_member"]


def _par_begin(vm: "Vm", strand: Strand, frame: Frame, operands: Operands) -> None:
    name = f"{strand.name}~{strand.made}"
    strand.made += 1
    vm.state.groups[name] = Group(strand.name, len(strand.frames) - 1)
    frame.groups.append(name)
    frame.registers[operands[0]] = name


def _group(vm: "Vm", frame: Frame, at: int) -> tuple[str, Group]:
    name = frame.registers[at]
    if type(name) is not str or name not in frame.groups:
        raise bad("there is no such group of strands")
    return name, vm.state.groups[name]


def _par_spawn(vm: "Vm", strand: Strand, frame: Frame, operands: Operands) -> None:
    at, begin, brings = operands
    name, group = _group(vm, frame, at)
    number = len(group.members)
    member = Member(f"{name}.{number}", tuple(brings))
    if group.failed < 0:
        made = _split(vm, strand, frame, member.strand, begin)
        made.group, made.number = name, number
        vm.state.ready.append(made.name)
        group.running += 1
    elif number >= vm.state.limits.strands:
        raise limit(f"a group has at most {vm.state.limits.strands:,} strands")
    group.members.append(member)


def _split(vm: "Vm", strand: Strand, frame: Frame, name: str, begin: int) -> Strand:
    depth = strand.depth + len(strand.frames)
    if depth >= vm.state.limits.depth:
        raise limit(f"calls and strands nest at most {vm.state.limits.depth} deep")
    if len(vm.state.strands) >= vm.state.limits.strands:
        raise limit(f"at most {vm.state.limits.strands:,} strands run side by side")
    if name in vm.state.strands:
        raise bad("a process is watched twice at one place")
    vm.take_registers(len(frame.registers))
    copy = Frame(
        frame.function,
        begin,
        [*frame.registers],
        frame.place,
        outer=frame.outer,
        scopes=[*frame.scopes],
        kept=len(frame.scopes),
    )
    made = vm.state.strands[name] = Strand(name, [copy], depth=depth)
    return made


def _par_join(vm: "Vm", strand: Strand, frame: Frame, operands: Operands) -> int | None:
    name, group = _group(vm, frame, operands[0])
    if group.running:
        return vm.wait(strand, frame, f"group {name}")
    frame.groups.remove(name)
    del vm.state.groups[name]
    for member in group.members:
        for register, value in zip(member.brings, member.values or (), strict=False):
            frame.registers[register] = value
    if group.error is not None:
        raise fault_of(group.error)
    return None


def _strand_end(vm: "Vm", strand: Strand, frame: Frame, operands: Operands) -> int:
    if len(strand.frames) > 1 or not (strand.group or strand.watch):
        raise bad("only a strand ends by STRAND_END")
    _leave(vm, strand)
    return STOP


def fail_member(vm: "Vm", strand: Strand, crash: Crash) -> None:
    """Its error is known; all its frames but the first are gone."""
    group = vm.state.groups[strand.group]
    group.failed, group.error = strand.number, crash
    younger = [member.strand for member in group.members[strand.number + 1 :]]
    for member in group.members[strand.number + 1 :]:
        member.values = None
    _leave(vm, strand)
    end_strands(vm, [name for name in younger if name in vm.state.strands])


def _leave(vm: "Vm", strand: Strand) -> None:
    """The end of its first frame: what it made goes to the call it split from."""
    frame = strand.frames[0]
    group = vm.state.groups.get(strand.group)
    close_scopes(vm, frame, frame.kept)
    if frame.groups:
        end_groups(vm, frame)
    if group is None:
        drop(vm, frame.spawned)
        end_strands(vm, frame.monitors)
        cancel_asked(vm, strand.name)
    else:
        member, owner = group.members[strand.number], vm.state.strands[group.owner]
        member.values = [frame.registers[each] for each in member.brings]
        owner.changes += strand.changes
        owner.frames[group.frame].spawned += frame.spawned
        owner.frames[group.frame].monitors += frame.monitors
        vm.inherit(strand.name, group.owner)
    _remove(vm, strand)


def _remove(vm: "Vm", strand: Strand) -> None:
    """It is no more; whoever waits for its group may go on."""
    vm.live_registers -= len(strand.frames[0].registers)
    vm.forget(strand)
    group = vm.state.groups.get(strand.group)
    if group is not None:
        group.running -= 1
        if not group.running:
            vm.wake(f"group {strand.group}")


def end_groups(vm: "Vm", frame: Frame) -> None:
    """Cancel what the call has not joined."""
    names = [*frame.groups]
    frame.groups.clear()
    for name in names:
        members = vm.state.groups[name].members
        end_strands(vm, [m.strand for m in members if m.strand in vm.state.strands])
        del vm.state.groups[name]


def end_strands(vm: "Vm", names: list[str]) -> None:
    """Cancel strands and all that stand on them, the youngest first."""
    found = [*names]
    for name in found:
        for frame in vm.state.strands[name].frames if name in vm.state.strands else ():
            found += frame.monitors
            for group in frame.groups:
                found += [member.strand for member in vm.state.groups[group].members]
    gone = set(found)
    vm.state.ready[:] = [name for name in vm.state.ready if name not in gone]
    for name in reversed(found):
        if name in vm.state.strands:
            _cancel(vm, vm.state.strands[name])


def _cancel(vm: "Vm", strand: Strand) -> None:
    """The strands on it are gone already."""
    abandon(vm, strand)
    for frame in reversed(strand.frames[1:]):
        _bare(vm, frame)
        end_frame(vm, frame)
    frame = strand.frames[0]
    _bare(vm, frame)
    close_scopes(vm, frame, frame.kept)
    drop(vm, frame.spawned)
    cancel_asked(vm, strand.name)
    _remove(vm, strand)


def abandon(vm: "Vm", strand: Strand) -> None:
    """An answer came and is not taken any more; a budget scope that it opened is closed."""
    asked = vm.state.asked.get(strand.waits)
    if asked is None or not asked.done or asked.strand != strand.name:
        return
    if asked.kind == "scope" and asked.error is None:
        vm.want(CloseScope(strand.waits))
    if asked.kind not in ("send", "spawn", "stream"):
        del vm.state.asked[strand.waits]


def _bare(vm: "Vm", frame: Frame) -> None:
    for name in frame.groups:
        del vm.state.groups[name]
    frame.groups.clear()
    frame.monitors.clear()


def cancel_asked(vm: "Vm", strand: str) -> None:
    for ticket in vm.pending.pop(strand, ()):
        asked = vm.state.asked[ticket]
        if asked.kind != "spawn" or not asked.orphan:
            vm.want(Cancel(ticket))
            del vm.state.asked[ticket]


def _monitor(vm: "Vm", strand: Strand, frame: Frame, operands: Operands) -> int | None:
    """Run by the program it makes a strand that waits here; run by that strand it goes on."""
    into, of, after, site = operands
    ticket = vm.ticket(frame, site)
    if strand.watch == ticket and len(strand.frames) == 1 and vm.has_asked(ticket, "watch", strand):
        asked = vm.state.asked.pop(ticket)
        if asked.error is not None:
            raise fault_of(asked.error)
        frame.registers[into] = asked.value
        return None
    process = frame.registers[of]
    if type(process) is not Handle:
        raise bad(f"a process is watched, not {kind_of(process)}")
    name = f"{strand.name}?{ticket}"
    made = _split(vm, strand, frame, name, frame.pc - 1)
    frame.monitors.append(name)
    vm.ask(ticket, Asked("watch", name))
    made.watch = ticket
    vm.park(made, ticket)
    vm.want(Watch(ticket, process.path))
    frame.pc = after
    return RELOAD


STRANDS: dict[Op, Cold] = {
    Op.MONITOR: _monitor,
    Op.PAR_BEGIN: _par_begin,
    Op.PAR_SPAWN: _par_spawn,
    Op.PAR_JOIN: _par_join,
    Op.STRAND_END: _strand_end,
}
