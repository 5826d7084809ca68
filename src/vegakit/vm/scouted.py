"""What a scout does at each instruction: it computes, begins, passes over, or stops.

Plain computation is the machine's own. Whatever is not in the table ends the walk.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias, cast

from vegakit.lang import Op
from vegakit.vm.building import BUILDING
from vegakit.vm.calling import CALLING, close_scopes
from vegakit.vm.computing import RELOAD, STOP, Cold, Operands
from vegakit.vm.decoding import COLD
from vegakit.vm.faults import Fault
from vegakit.vm.library import call_pure
from vegakit.vm.state import Asked, Frame, Strand, fault_of
from vegakit.vm.unknown import NO_BOUND, size_of
from vegakit.vm.values import AgentRef, Future, StreamRef, Unknown, Value

if TYPE_CHECKING:
    from vegakit.vm.scouting import Scout

__all__ = ["OPS", "UNOPENED", "came"]

UNOPENED = "?"
"""What the name of a session begins with that the program has not entered."""

_Scouted: TypeAlias = "Callable[[Scout, Strand, Frame, Operands], int | None]"


def came(asked: Asked) -> Value:
    if asked.error is not None:
        raise fault_of(asked.error)
    return asked.value


def _force(vm: "Scout", strand: Strand, frame: Frame, operands: Operands) -> None:
    into, of = operands
    value = frame.registers[of]
    if type(value) is Future:
        asked = vm.main.state.asked.get(value.ticket)
        if asked is not None and asked.kind == "spawn" and not asked.done:
            value = Unknown(NO_BOUND, 0, asked.of)
        else:
            value = came(asked) if asked is not None and asked.done else Unknown(0, 1)
    frame.registers[into] = value


def _send(vm: "Scout", strand: Strand, frame: Frame, operands: Operands) -> None:
    ticket = vm.send(frame, operands, stream=False)
    frame.registers[operands[0]] = Unknown(0, 1) if ticket is None else Future(ticket)


def _send_stream(vm: "Scout", strand: Strand, frame: Frame, operands: Operands) -> None:
    ticket = vm.send(frame, operands, stream=True)
    frame.registers[operands[0]] = Unknown(0, 1) if ticket is None else StreamRef(ticket)


def _host(vm: "Scout", strand: Strand, frame: Frame, operands: Operands) -> int | None:
    if vm.terrain.is_pause(operands[1]):
        return STOP
    frame.registers[operands[0]] = vm.host(frame, operands)
    return None


def _spawn(vm: "Scout", strand: Strand, frame: Frame, operands: Operands) -> None:
    into, agent, wallet, *_ = operands
    name = frame.registers[agent]
    vm.many |= wallet >= 0
    frame.registers[into] = Unknown(NO_BOUND, 0, name.name if type(name) is AgentRef else "")


def _unread(vm: "Scout", strand: Strand, frame: Frame, operands: Operands) -> None:
    """Of a stream only the program reads."""
    frame.registers[operands[0]] = Unknown(NO_BOUND)


def _passed(vm: "Scout", strand: Strand, frame: Frame, operands: Operands) -> None:
    pass


def _over(vm: "Scout", strand: Strand, frame: Frame, operands: Operands) -> int:
    return STOP


def _return(vm: "Scout", strand: Strand, frame: Frame, operands: Operands) -> int | None:
    return STOP if len(strand.frames) == 1 else CALLING[Op.RETURN](vm, strand, frame, operands)


def _raise(vm: "Scout", strand: Strand, frame: Frame, operands: Operands) -> None:
    raise Fault(operands[0], "")


def _jump_if_null(vm: "Scout", strand: Strand, frame: Frame, operands: Operands) -> int | None:
    if type(frame.registers[operands[0]]) is not Unknown:
        return BUILDING[Op.JUMP_IF_NULL](vm, strand, frame, operands)
    return RELOAD if vm.step_over(frame) else STOP


def _text(vm: "Scout", strand: Strand, frame: Frame, operands: Operands) -> int | None:
    into, of = operands
    unknown = size_of(frame.registers[each] for each in of)
    if unknown is None:
        return BUILDING[Op.TEXT](vm, strand, frame, operands)
    frame.registers[into] = unknown
    return None


def _library(vm: "Scout", strand: Strand, frame: Frame, operands: Operands) -> int | None:
    into, name, of = operands
    args = [frame.registers[each] for each in of]
    unknown = size_of(args)
    if unknown is None:
        return BUILDING[Op.LIBRARY](vm, strand, frame, operands)
    known_length = name in _LENGTHS and type(args[0]) is not Unknown
    frame.registers[into] = call_pure(name, args) if known_length else unknown
    return None


_LENGTHS = frozenset({"len", "list::len"})


def _enter(vm: "Scout", strand: Strand, frame: Frame, operands: Operands) -> None:
    """Its money is not set aside before the program comes to it, so nothing in it begins."""
    scope = f"{UNOPENED}{len(vm.state.scopes)}"
    vm.state.scopes[scope] = vm.scope(frame)
    frame.scopes.append(scope)
    vm.many = True


def _exit(vm: "Scout", strand: Strand, frame: Frame, operands: Operands) -> int | None:
    if len(frame.scopes) <= frame.kept:
        return STOP
    close_scopes(vm, frame, len(frame.scopes) - 1)
    return None


_SCOUTED: Mapping[Op, _Scouted] = (
    BUILDING
    | CALLING
    | {
        Op.JUMP_IF_NULL: _jump_if_null,
        Op.TEXT: _text,
        Op.LIBRARY: _library,
        Op.RAISE: _raise,
        Op.RETURN: _return,
        Op.FORCE: _force,
        Op.ISSUE_SEND: _send,
        Op.SEND_STREAM: _send_stream,
        Op.HOST: _host,
        Op.PRINT: _passed,
        Op.SPAWN_SUPERVISED: _spawn,
        Op.STREAM_DONE: _unread,
        Op.STREAM_NEXT: _unread,
        Op.BUDGET_ENTER: _enter,
        Op.BUDGET_EXIT: _exit,
    }
)
OPS = cast("Mapping[int, Cold]", {COLD + op: _SCOUTED.get(op, _over) for op in Op})
