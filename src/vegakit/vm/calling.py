"""Calls: frames pushed and popped, and what ends with a call.

With a call end the budget scopes it opened, the monitors and groups it made, and the processes it
spawned, except those its result holds: they pass to the caller.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from vegakit.lang import Op
from vegakit.vm.computing import RELOAD, STOP, Cold, Operands
from vegakit.vm.faults import bad, limit
from vegakit.vm.state import MAIN, Frame, Strand
from vegakit.vm.values import Fields, Future, Handle, Items, Value
from vegakit.vm.wants import CloseScope, Drop

if TYPE_CHECKING:
    from vegakit.vm.machine import Vm

__all__ = ["CALLING", "close_scopes", "drop", "end_frame"]


def _call(vm: "Vm", strand: Strand, frame: Frame, operands: Operands) -> int:
    into, function, args, site = operands
    called = vm.function(function)
    if strand.depth + len(strand.frames) >= vm.state.limits.depth:
        raise limit(f"calls nest at most {vm.state.limits.depth} deep")
    vm.take_registers(called.registers)
    r = frame.registers
    registers: list[Value] = [r[each] for each in args]
    registers += [None] * (called.registers - len(registers))
    place = f"{vm.ticket(frame, site)}/{called.name}"
    strand.frames.append(Frame(function, 0, registers, place, into, vm.scope(frame)))
    return RELOAD


def _return(vm: "Vm", strand: Strand, frame: Frame, operands: Operands) -> int:
    (of,) = operands
    value = frame.registers[of]
    if len(strand.frames) > 1:
        strand.frames.pop()
        caller = strand.frames[-1]
        caller.registers[frame.into] = value
        caller.spawned += end_frame(vm, frame, value)
        return RELOAD
    if strand.name != MAIN:
        raise bad("a strand ends by STRAND_END")
    vm.finish(value)
    return STOP


def end_frame(vm: "Vm", frame: Frame, value: Value = None) -> list[str]:
    """Tickets of the processes that outlive it."""
    vm.live_registers -= len(frame.registers)
    if frame.groups:
        vm.end_groups(frame)
    if frame.monitors:
        vm.end_strands(frame.monitors)
    close_scopes(vm, frame, frame.kept)
    if not frame.spawned:
        return []
    held = set(_held(value))
    kept = [t for t in frame.spawned if t in held or vm.state.spawned.get(t) in held]
    drop(vm, [ticket for ticket in frame.spawned if ticket not in kept])
    return kept


def close_scopes(vm: "Vm", frame: Frame, keep: int) -> None:
    while len(frame.scopes) > max(keep, frame.kept):
        scope = frame.scopes.pop()
        vm.state.scopes.pop(scope, None)
        vm.want(CloseScope(scope))


def drop(vm: "Vm", tickets: list[str]) -> None:
    """A process that is not there yet is dropped when it comes."""
    paths = [vm.state.spawned.pop(ticket, None) for ticket in tickets]
    for ticket, path in zip(tickets, paths, strict=True):
        if path == "" and ticket in vm.state.asked:
            vm.state.asked[ticket].orphan = True
    there = tuple(path for path in paths if path)
    if there:
        vm.want(Drop(there))


def _held(value: Value) -> Iterator[str]:
    """Tickets and paths in it; shared parts are walked once."""
    seen: set[int] = set()
    open_ = [value]
    while open_:
        each = open_.pop()
        if type(each) in (Items, Fields) and id(each) not in seen:
            seen.add(id(each))
            open_ += each if type(each) is Items else each.values()
        elif type(each) is Handle:
            yield each.path
        elif type(each) is Future:
            yield each.ticket


CALLING: dict[Op, Cold] = {Op.CALL: _call, Op.RETURN: _return}
