"""How fast the machine computes with a window, and while it looks ahead."""

import time

from benchmarks import decisions
from benchmarks.figures import Figure, at_least
from benchmarks.language_speed import BARE_CALL_NS, LOOP, ROUNDS
from benchmarks.timing import ns_per_step

from vegakit.lang.codegen.compiler import compile_program
from vegakit.lang.frontends import check_program
from vegakit.vm import Status, Vm, start

__all__ = ["speed"]

LEAST = 3_000_000


def speed(window: int) -> Figure:
    """As `benchmarks.language_speed` counts it."""
    found, _ = check_program(LOOP, "main.vega", lambda _path: None)
    assert found is not None
    module = compile_program(found)
    slower = max(1.0, ns_per_step(decisions.bare_call, 50) / BARE_CALL_NS)
    raw = 0.0
    for _ in range(10 * ROUNDS):
        vm = Vm(module, start(module, module.main, [3_000], window=window))
        began = time.process_time()
        step = vm.run(1_000_000)
        raw = max(raw, vm.state.fuel_used / (time.process_time() - began))
        assert step.status is Status.FINISHED
    name = f"run with a window of {window}: instructions/s (as measured {raw:,.0f})"
    return at_least(LEAST, raw * slower, "instructions/s", name)
