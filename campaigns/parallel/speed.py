"""What a window costs a program that only computes."""

from functools import partial

from benchmarks.figures import Figure
from benchmarks.language_speed import LOOP
from tests.cost import ratio

from vegakit.lang import Module, check_program, compile_program
from vegakit.vm import Status, Vm, start

__all__ = ["cost_of_window"]

ROUNDS_OF_LOOP = 30_000
QUANTUM = 1_000
MOST_OVER_ORDER = 1.25
"""Room for noise: a loop without sends runs the same instructions with and without a window."""


def cost_of_window(window: int) -> Figure:
    """Compare the CPU time of a loop with a window and without, in one run."""
    program, _ = check_program(LOOP, "main.vega", lambda _path: None)
    assert program is not None
    module = compile_program(program)
    over = ratio(partial(_compute, module, window), partial(_compute, module, 0), MOST_OVER_ORDER)
    name = f"CPU of a loop with a window of {window}, over the same in order"
    most = f"≤ {MOST_OVER_ORDER:.2f} ×"
    return Figure(name, f"{over:.2f} ×", most, over <= MOST_OVER_ORDER)


def _compute(module: Module, window: int) -> None:
    """Run the loop in quanta, as a runtime does, so that a window is looked at between them."""
    vm = Vm(module, start(module, module.main, [ROUNDS_OF_LOOP], window=window))
    while vm.run(QUANTUM).status is Status.RUNNING:
        pass
    assert vm.state.status is Status.FINISHED
