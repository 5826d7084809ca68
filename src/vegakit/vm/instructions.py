"""Instructions that compute with data, and those that call and return (pure).

When a call ends, so do the budget scopes it opened, the monitors and groups it made, and the
processes it spawned, except those in its result: they pass to the caller.
"""

from collections.abc import Iterator

from vegakit.lang import CATCHABLE, Op, RecordOf
from vegakit.vm.conversion import fit
from vegakit.vm.operators import holds, negate
from vegakit.vm.requests import CloseScope, CloseSpan, EndProcesses
from vegakit.vm.state import MAIN, Frame, ProgramTask
from vegakit.vm.stdlib import call_pure, work_in
from vegakit.vm.task_machine import RELOAD, STOP, InstructionHandler, Operands, TaskMachine
from vegakit.vm.values import (
    MAX_CHARS,
    Future,
    Handle,
    ListValue,
    MapValue,
    ProgramFault,
    Value,
    bad,
    fields_of,
    items_in,
    items_of,
    kind_of,
    limit,
    sized,
    text_of,
    weight_of,
    work_of,
)

# Lists, maps, records and text.


def _neg(vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands) -> None:
    into, of = operands
    frame.registers[into] = negate(frame.registers[of])


def _in(vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands) -> None:
    into, item, whole = operands
    r = frame.registers
    r[into] = holds(r[item], r[whole])
    vm.extra += work_of(r[whole])


def _jump_if_null(
    vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands
) -> int | None:
    of, target = operands
    if frame.registers[of] is not None:
        return None
    frame.pc = target
    return RELOAD


def _list(vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands) -> None:
    into, of = operands
    r = frame.registers
    r[into] = items_of([r[each] for each in of])
    vm.extra += len(of) >> 3


def _map(vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands) -> None:
    into, of = operands
    r = frame.registers
    made: dict[str, Value] = {}
    for at in range(0, len(of), 2):
        key = r[of[at]]
        if type(key) is not str:
            raise bad(f"the key of a map is a str, not {kind_of(key)}")
        made[key] = r[of[at + 1]]
    r[into] = fields_of(made)
    vm.extra += len(of) >> 3


def _record(vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands) -> None:
    into, kind, of = operands
    r, record = frame.registers, vm.type(kind)
    assert isinstance(record, RecordOf)
    made: dict[str, Value] = {}
    for (name, wanted), each in zip(record.fields, of, strict=True):
        vm.extra += work_of(r[each]) + items_in(r[each])
        made[name] = fit(r[each], wanted, name)
    r[into] = fields_of(made)


def _with_field(vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands) -> None:
    into, of, name, new = operands
    r = frame.registers
    whole = r[of]
    if type(whole) is not MapValue:
        raise bad(f"{kind_of(whole)} has no fields")
    if name not in whole:
        raise ProgramFault("KeyError", f"there is no field {name:.80}")
    r[into] = fields_of({**whole, name: r[new]})
    vm.extra += len(whole) >> 3


def _with_index(vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands) -> None:
    into, of, at, new = operands
    r = frame.registers
    whole, key = r[of], r[at]
    if type(whole) is MapValue and type(key) is str:
        r[into] = fields_of({**whole, key: r[new]})
    elif type(whole) is ListValue and type(key) is int:
        if not 0 <= key < len(whole):
            raise ProgramFault("IndexError", f"there is no item {key}; there are {len(whole)}")
        r[into] = items_of([*whole[:key], r[new], *whole[key + 1 :]])
    else:
        raise bad(f"{kind_of(whole)} has no item {kind_of(key)}")
    vm.extra += len(whole) >> 3


def _text(vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands) -> None:
    into, of = operands
    parts = [frame.registers[each] for each in of]
    weight = sum(map(weight_of, parts))
    if weight > 2 * MAX_CHARS:
        raise limit(f"a text has at most {MAX_CHARS:,} characters")
    vm.extra += sum(map(work_of, parts))
    frame.registers[into] = sized("".join([text_of(part) for part in parts]))


def _cast(vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands) -> None:
    into, of, kind = operands
    value = frame.registers[of]
    vm.extra += work_of(value) + items_in(value)
    frame.registers[into] = value if kind < 0 else fit(value, vm.type(kind))


def _items(vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands) -> None:
    into, of = operands
    whole = frame.registers[of]
    if type(whole) is MapValue:
        frame.registers[into] = items_of(whole)
        vm.extra += len(whole) >> 4
    elif type(whole) is ListValue:
        frame.registers[into] = whole
    else:
        raise bad(f"{kind_of(whole)} cannot be walked")


def _pairs(vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands) -> None:
    into, of = operands
    whole = frame.registers[of]
    if type(whole) is MapValue:
        pairs = whole.items()
    elif type(whole) is ListValue:
        pairs = enumerate(whole)
    else:
        raise bad(f"{kind_of(whole)} cannot be walked")
    vm.extra += len(whole)
    frame.registers[into] = items_of([items_of(pair) for pair in pairs])


def _library(vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands) -> None:
    into, name, of = operands
    args = [frame.registers[each] for each in of]
    vm.extra += (sum(map(weight_of, args)) >> 5) + work_in(name, args)
    value = call_pure(name, args)
    vm.extra += (weight_of(value) >> 5) + items_in(value)
    frame.registers[into] = value


def _raise(vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands) -> None:
    name, of = operands
    if name not in CATCHABLE:
        raise bad(f"{name:.40} is not an error of the language")
    raise ProgramFault(name, text_of(frame.registers[of]))


DATA_INSTRUCTIONS: dict[Op, InstructionHandler] = {
    Op.NEG: _neg,
    Op.IN: _in,
    Op.JUMP_IF_NULL: _jump_if_null,
    Op.LIST: _list,
    Op.MAP: _map,
    Op.RECORD: _record,
    Op.WITH_FIELD: _with_field,
    Op.WITH_INDEX: _with_index,
    Op.TEXT: _text,
    Op.CAST: _cast,
    Op.ITEMS: _items,
    Op.PAIRS: _pairs,
    Op.LIBRARY: _library,
    Op.RAISE: _raise,
}


# Calls and returns.


def _call(vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands) -> int:
    into, function, args, site = operands
    called = vm.function(function)
    if task.depth + len(task.frames) >= vm.state.limits.depth:
        raise limit(f"calls nest at most {vm.state.limits.depth} deep")
    vm.take_registers(called.registers)
    r = frame.registers
    registers: list[Value] = [r[each] for each in args]
    registers += [None] * (called.registers - len(registers))
    place = f"{vm.ticket(frame, site)}/{called.name}"
    outer, within = vm.scope(frame), vm.span(frame)
    task.frames.append(Frame(function, 0, registers, place, into, outer, within=within))
    return RELOAD


def _return(vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands) -> int:
    (of,) = operands
    value = frame.registers[of]
    if len(task.frames) > 1:
        task.frames.pop()
        caller = task.frames[-1]
        caller.registers[frame.into] = value
        caller.spawned += end_frame(vm, frame, value)
        return RELOAD
    if task.name != MAIN:
        raise bad("a task ends by TASK_END")
    vm.finish(value)
    return STOP


def end_frame(vm: TaskMachine, frame: Frame, value: Value = None, *, error: str = "") -> list[str]:
    """End a call. Return the tickets of the processes that stay alive, because the result holds
    them."""
    vm.live_registers -= len(frame.registers)
    if vm.guesses:
        vm.cancel_guesses(frame.place)
    if frame.groups:
        vm.end_groups(frame)
    if frame.monitors:
        vm.end_tasks(frame.monitors)
    close_scopes(vm, frame, frame.kept)
    if frame.spans:
        close_spans(vm, frame, error=error)
    if not frame.spawned:
        return []
    held = set(_held(value))
    kept = held and {t for t in frame.spawned if t in held or vm.state.spawned.get(t) in held}
    drop(vm, [ticket for ticket in frame.spawned if ticket not in kept])
    return [ticket for ticket in frame.spawned if ticket in kept] if kept else []


def close_scopes(vm: TaskMachine, frame: Frame, keep: int) -> None:
    """Close the innermost budget scopes of a call until `keep` are open."""
    while len(frame.scopes) > max(keep, frame.kept):
        scope = frame.scopes.pop()
        vm.state.scopes.pop(scope, None)
        vm.request(CloseScope(scope))


def leave_round(vm: TaskMachine, frame: Frame, span: str) -> None:
    """Before a span is opened, end the one that the round before in the same loop has opened there,
    with those inside of it: a span is for what follows in its call, not for the other rounds."""
    site = _site(frame, span)
    before = [_site(frame, each) for each in frame.spans]
    if site in before:
        close_spans(vm, frame, before.index(site))


def _site(frame: Frame, span: str) -> str:
    return span[len(frame.place) :].partition("[")[0]


def close_spans(vm: TaskMachine, frame: Frame, keep: int = 0, *, error: str = "") -> None:
    """End the innermost spans of a call until `keep` are open."""
    for span in reversed(frame.spans[keep:]):
        vm.request(CloseSpan(span, error))
    frame.spans = frame.spans[:keep]


def drop(vm: TaskMachine, tickets: list[str]) -> None:
    """End the processes of these tickets. A process that has not started yet ends as soon as it
    has."""
    there: list[str] = []
    spawned, asked = vm.state.spawned, vm.state.asked
    for ticket in tickets:
        if path := spawned.pop(ticket, None):
            there.append(path)
        elif path == "" and ticket in asked:
            asked[ticket].orphan = True
    if there:
        vm.request(EndProcesses(tuple(there)))


def _held(value: Value) -> Iterator[str]:
    """Yield the tickets and paths in a value. Shared parts are visited once."""
    seen: set[int] = set()
    open_ = [value]
    while open_:
        each = open_.pop()
        if type(each) in (ListValue, MapValue) and id(each) not in seen:
            seen.add(id(each))
            open_ += each if type(each) is ListValue else each.values()
        elif type(each) is Handle:
            yield each.path
        elif type(each) is Future:
            yield each.ticket


CALL_INSTRUCTIONS: dict[Op, InstructionHandler] = {Op.CALL: _call, Op.RETURN: _return}
