"""From an error to its handler: frames end on the way, the innermost first."""

from typing import TYPE_CHECKING

from vegakit.lang import CATCHABLE
from vegakit.vm.calling import close_scopes, end_frame
from vegakit.vm.decoding import Handled
from vegakit.vm.faults import Fault
from vegakit.vm.state import Crash, Frame, Strand
from vegakit.vm.strands import end_groups, fail_member

if TYPE_CHECKING:
    from vegakit.vm.machine import Vm

__all__ = ["unwind"]


def unwind(vm: "Vm", strand: Strand, fault: Fault) -> bool:
    """False when nothing in the strand handles it: then the group or the program has it."""
    found = _found(vm, strand, fault)
    crash = Crash(fault.name, fault.reason, () if found else fault.stack or vm.stack(strand))
    depth = found[0] if found else 0
    while len(strand.frames) > depth + 1:
        end_frame(vm, strand.frames.pop())
    if found:
        _enter(vm, strand.frames[-1], found[1], fault)
    elif strand.group:
        fail_member(vm, strand, crash)
    else:
        vm.crash(crash)
    return found is not None


def _found(vm: "Vm", strand: Strand, fault: Fault) -> tuple[int, Handled] | None:
    """The innermost frame with a handler for it."""
    if fault.name not in CATCHABLE:
        return None
    for depth in reversed(range(len(strand.frames))):
        frame = strand.frames[depth]
        handlers = vm.function(frame.function).handlers
        vm.extra += 1 + (len(handlers) >> 4)
        for handler in handlers:
            start, end, _, kinds, _, _ = handler
            if start < frame.pc <= end and (not kinds or fault.name in kinds):
                return depth, handler
    return None


def _enter(vm: "Vm", frame: Frame, handler: Handled, fault: Fault) -> None:
    _, _, target, _, reason, scopes = handler
    end_groups(vm, frame)
    close_scopes(vm, frame, scopes)
    if reason >= 0:
        frame.registers[reason] = fault.reason
    frame.pc = target
