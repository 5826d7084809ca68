"""Answers of the host, checked and put where strands find them.

What does not fit what was asked for is an error of the program, `ContractViolated`, never of the
machine: a host may say anything.
"""

from typing import TYPE_CHECKING

from vegakit.lang import MONEY, STR
from vegakit.vm.faults import Fault
from vegakit.vm.fitting import fit
from vegakit.vm.state import Asked, Crash
from vegakit.vm.values import MAX_CHARS, Handle, Money, Value, restored
from vegakit.vm.wants import Drop

if TYPE_CHECKING:
    from vegakit.vm.machine import Vm

__all__ = ["answered", "chunked", "failed", "stream_ended"]


def answered(vm: "Vm", ticket: str, form: object, cause: tuple[str, ...] = ()) -> bool:
    asked = _open(vm, ticket)
    if asked is None:
        return False
    try:
        asked.value = _read(vm, asked, form)
    except Fault as fault:
        asked.error = Crash(fault.name, fault.reason, (), cause)
    _settle(vm, ticket, asked)
    return True


def failed(vm: "Vm", ticket: str, error: str, reason: str, cause: tuple[str, ...] = ()) -> bool:
    asked = _open(vm, ticket)
    if asked is None:
        return False
    asked.error = Crash(error, reason, (), cause)
    _settle(vm, ticket, asked)
    return True


def chunked(vm: "Vm", ticket: str, text: str) -> bool:
    asked = _open(vm, ticket)
    if asked is None or asked.kind != "stream":
        return False
    try:
        chunk = fit(restored(text), STR)
    except Fault as fault:
        return failed(vm, ticket, fault.name, fault.reason)
    if sum(map(len, asked.chunks)) + len(chunk) > MAX_CHARS:
        return failed(vm, ticket, "LimitReached", "too much of the stream is unread")
    asked.chunks.append(chunk)
    vm.wake(ticket)
    return True


def stream_ended(vm: "Vm", ticket: str) -> bool:
    asked = _open(vm, ticket)
    if asked is None:
        return False
    if asked.kind != "stream":
        return failed(vm, ticket, "ContractViolated", "the end of a stream is no answer")
    _settle(vm, ticket, asked)
    return True


def _open(vm: "Vm", ticket: str) -> Asked | None:
    asked = vm.state.asked.get(ticket)
    return None if asked is None or asked.done else asked


def _settle(vm: "Vm", ticket: str, asked: Asked) -> None:
    asked.done = vm.state.stirred = True
    vm.pending.get(asked.strand, {}).pop(ticket, None)
    if asked.kind == "spawn":
        _settle_process(vm, ticket, asked)
    vm.wake(ticket)


def _settle_process(vm: "Vm", ticket: str, asked: Asked) -> None:
    path = asked.value.path if asked.error is None else ""
    if path and asked.of:
        vm.state.agents[path] = asked.of
    if asked.orphan:
        del vm.state.asked[ticket]
        if path:
            vm.want(Drop((path,)))
    elif path and ticket in vm.state.spawned:
        vm.state.spawned[ticket] = path
    else:
        vm.state.spawned.pop(ticket, None)


def _read(vm: "Vm", asked: Asked, form: object) -> Value:
    if asked.kind == "spawn":
        value = restored(form)
        return value if type(value) is Handle else Handle(fit(value, STR))
    if asked.kind in ("scope", "stream"):
        return None
    value = restored(form)
    if asked.kind == "budget":
        return Money(value) if type(value) is int else fit(value, MONEY)
    if asked.kind == "host":
        return value
    return fit(value, vm.types[asked.answer] if asked.answer >= 0 else STR, "the answer")
