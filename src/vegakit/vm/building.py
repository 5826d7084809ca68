"""Instructions that make and take apart lists, maps, records and text."""

from typing import TYPE_CHECKING

from vegakit.lang import CATCHABLE, Op, RecordOf
from vegakit.vm.arithmetic import negate
from vegakit.vm.comparing import holds
from vegakit.vm.computing import RELOAD, Cold, Operands
from vegakit.vm.faults import Fault, bad, limit
from vegakit.vm.fitting import fit
from vegakit.vm.library import call_pure
from vegakit.vm.state import Frame, Strand
from vegakit.vm.texts import text_of
from vegakit.vm.values import (
    MAX_CHARS,
    Fields,
    Items,
    Value,
    fields_of,
    items_of,
    kind_of,
    sized,
    weight_of,
)

if TYPE_CHECKING:
    from vegakit.vm.machine import Vm

__all__ = ["BUILDING"]


def _neg(vm: "Vm", strand: Strand, frame: Frame, operands: Operands) -> None:
    into, of = operands
    frame.registers[into] = negate(frame.registers[of])


def _in(vm: "Vm", strand: Strand, frame: Frame, operands: Operands) -> None:
    into, item, whole = operands
    r = frame.registers
    r[into] = holds(r[item], r[whole])
    vm.extra += weight_of(r[whole]) >> 6


def _jump_if_null(vm: "Vm", strand: Strand, frame: Frame, operands: Operands) -> int | None:
    of, target = operands
    if frame.registers[of] is not None:
        return None
    frame.pc = target
    return RELOAD


def _list(vm: "Vm", strand: Strand, frame: Frame, operands: Operands) -> None:
    into, of = operands
    r = frame.registers
    r[into] = items_of([r[each] for each in of])
    vm.extra += len(of) >> 3


def _map(vm: "Vm", strand: Strand, frame: Frame, operands: Operands) -> None:
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


def _record(vm: "Vm", strand: Strand, frame: Frame, operands: Operands) -> None:
    into, kind, of = operands
    r, record = frame.registers, vm.type(kind)
    assert isinstance(record, RecordOf)
    made: dict[str, Value] = {}
    for (name, wanted), each in zip(record.fields, of, strict=True):
        vm.extra += weight_of(r[each]) >> 4
        made[name] = fit(r[each], wanted, name)
    r[into] = fields_of(made)


def _with_field(vm: "Vm", strand: Strand, frame: Frame, operands: Operands) -> None:
    into, of, name, new = operands
    r = frame.registers
    whole = r[of]
    if type(whole) is not Fields:
        raise bad(f"{kind_of(whole)} has no fields")
    if name not in whole:
        raise Fault("KeyError", f"there is no field {name:.80}")
    r[into] = fields_of({**whole, name: r[new]})
    vm.extra += len(whole) >> 3


def _with_index(vm: "Vm", strand: Strand, frame: Frame, operands: Operands) -> None:
    into, of, at, new = operands
    r = frame.registers
    whole, key = r[of], r[at]
    if type(whole) is Fields and type(key) is str:
        r[into] = fields_of({**whole, key: r[new]})
    elif type(whole) is Items and type(key) is int:
        if not 0 <= key < len(whole):
            raise Fault("IndexError", f"there is no item {key}; there are {len(whole)}")
        r[into] = items_of([*whole[:key], r[new], *whole[key + 1 :]])
    else:
        raise bad(f"{kind_of(whole)} has no item {kind_of(key)}")
    vm.extra += len(whole) >> 3


def _text(vm: "Vm", strand: Strand, frame: Frame, operands: Operands) -> None:
    into, of = operands
    parts = [frame.registers[each] for each in of]
    weight = sum(map(weight_of, parts))
    if weight > 2 * MAX_CHARS:
        raise limit(f"a text has at most {MAX_CHARS:,} characters")
    vm.extra += weight >> 6
    frame.registers[into] = sized("".join([text_of(part) for part in parts]))


def _cast(vm: "Vm", strand: Strand, frame: Frame, operands: Operands) -> None:
    into, of, kind = operands
    value = frame.registers[of]
    vm.extra += weight_of(value) >> 4
    frame.registers[into] = value if kind < 0 else fit(value, vm.type(kind))


def _items(vm: "Vm", strand: Strand, frame: Frame, operands: Operands) -> None:
    into, of = operands
    whole = frame.registers[of]
    if type(whole) is Fields:
        frame.registers[into] = items_of(whole)
        vm.extra += len(whole) >> 4
    elif type(whole) is Items:
        frame.registers[into] = whole
    else:
        raise bad(f"{kind_of(whole)} cannot be walked")


def _pairs(vm: "Vm", strand: Strand, frame: Frame, operands: Operands) -> None:
    into, of = operands
    whole = frame.registers[of]
    if type(whole) is Fields:
        pairs = whole.items()
    elif type(whole) is Items:
        pairs = enumerate(whole)
    else:
        raise bad(f"{kind_of(whole)} cannot be walked")
    vm.extra += len(whole) >> 1
    frame.registers[into] = items_of([items_of(pair) for pair in pairs])


def _library(vm: "Vm", strand: Strand, frame: Frame, operands: Operands) -> None:
    into, name, of = operands
    args = [frame.registers[each] for each in of]
    vm.extra += sum(map(weight_of, args)) >> 5
    value = call_pure(name, args)
    vm.extra += weight_of(value) >> 5
    frame.registers[into] = value


def _raise(vm: "Vm", strand: Strand, frame: Frame, operands: Operands) -> None:
    name, of = operands
    if name not in CATCHABLE:
        raise bad(f"{name:.40} is not an error of the language")
    raise Fault(name, text_of(frame.registers[of]))


BUILDING: dict[Op, Cold] = {
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
