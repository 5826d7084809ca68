"""From an error to its handler: frames end on the way, the innermost first.

An error that is raised while another one is handled comes from that one, too: who rethrows, or
fails while cleaning up, fails because of what was to be cleaned up.
"""

from typing import TYPE_CHECKING

from vegakit.lang import CATCHABLE
from vegakit.vm.calling import close_scopes, end_frame
from vegakit.vm.decoding import JUMP, Handled
from vegakit.vm.faults import Fault
from vegakit.vm.state import Crash, Frame, Handling, Strand
from vegakit.vm.strands import end_groups, fail_member

if TYPE_CHECKING:
    from vegakit.vm.machine import Vm

__all__ = ["cause_in", "unwind"]


def unwind(vm: "Vm", strand: Strand, fault: Fault) -> bool:
    """False when nothing in the strand handles it: then the group or the program has it."""
    found = _found(vm, strand, fault)
    depth = found[0] if found else 0
    cause = cause_in(strand, fault.cause, depth)
    crash = Crash(fault.name, fault.reason, () if found else fault.stack or vm.stack(strand), cause)
    while len(strand.frames) > depth + 1:
        end_frame(vm, strand.frames.pop())
    if found:
        _enter(vm, strand.frames[-1], found[1], fault, cause)
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


def cause_in(strand: Strand, cause: tuple[str, ...], depth: int = 0) -> tuple[str, ...]:
    """What an error here comes from, with what is being handled in the calls above `depth`."""
    found = dict.fromkeys(cause)
    for frame in strand.frames[depth:]:
        for handling in frame.handling:
            if handling.start < frame.pc <= handling.end:
                found |= dict.fromkeys(handling.cause)
    return (*found,)


def _enter(vm: "Vm", frame: Frame, handler: Handled, fault: Fault, cause: tuple[str, ...]) -> None:
    _, stop, target, _, reason, scopes = handler
    if cause or frame.handling:
        # A handler is entered anew in each round of a loop: what it handled before is over.
        around = [one for one in frame.handling if one.start < target < one.end]
        end = _end_of(vm, frame, stop, target)
        frame.handling = (*around, Handling(target, end, cause)) if cause else (*around,)
    end_groups(vm, frame)
    close_scopes(vm, frame, scopes)
    if reason >= 0:
        frame.registers[reason] = fault.reason
    frame.pc = target


def _end_of(vm: "Vm", frame: Frame, stop: int, target: int) -> int:
    """Behind the guarded instructions stands a jump over all their handlers."""
    code = vm.function(frame.function).code
    if stop < len(code) and code[stop][0] == JUMP and target < code[stop][1]:
        return code[stop][1]
    return len(code)  # the compiler makes no such code
