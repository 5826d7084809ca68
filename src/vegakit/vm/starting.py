"""The state before the first instruction."""

from collections.abc import Sequence
from typing import Any

from vegakit.errors import ContractViolated
from vegakit.lang import Module
from vegakit.vm.decoding import Program
from vegakit.vm.faults import Fault
from vegakit.vm.fitting import fit
from vegakit.vm.state import MAIN, TURN, Frame, Limits, Strand, VmState
from vegakit.vm.values import restored, stored

__all__ = ["start"]


def start(
    program: Module | Program,
    function: int,
    args: Sequence[Any] = (),
    limits: Limits = Limits(),  # noqa: B008  (frozen)
    window: int = 0,
) -> VmState:
    """The state before the first instruction; `args` are JSON and must fit the parameters."""
    module = program.module if isinstance(program, Program) else program
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
    except Fault as fault:
        raise ContractViolated(f"{called.name}: {fault.reason}") from fault
    registers = values + [None] * (called.registers - len(values))
    main = Strand(MAIN, [Frame(function, 0, registers, called.name)])
    return VmState({MAIN: main}, [MAIN], limits, TURN, window=window)
