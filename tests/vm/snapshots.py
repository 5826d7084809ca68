"""Running a module with a host made of plain answers, whole or stored after every instruction.

`same_in_pieces` is for any test that has a module: stopping, storing as JSON and going on in a
fresh machine after each instruction must not change what the program does.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from vegakit.lang import Module
from vegakit.records import from_json, to_json
from vegakit.vm import (
    AskBudget,
    CallHost,
    FiberRequest,
    OpenScope,
    SendTo,
    SpawnAgent,
    SpeculativeCall,
    Status,
    Step,
    Vm,
    VmState,
    start,
)
from vegakit.vm.module_facts import load
from vegakit.vm.state import VmLimits

__all__ = ["Fails", "Host", "Ran", "Streams", "echo", "never", "run", "same_in_pieces"]


class Fails(NamedTuple):
    """An answer that is an error."""

    error: str
    reason: str = "because"


class Streams(NamedTuple):
    chunks: tuple[str, ...]
    error: str = ""


class _Never:
    pass


never = _Never()
"""The answer that does not come."""

Host = Callable[[FiberRequest], Any]


class Ran(NamedTuple):
    """`step` is without wants: how many come with the last step depends on the fuel it had.
    `granted` are the tickets whose answers were taken, False where it was an error."""

    step: Step
    requests: list[FiberRequest]
    fuel: int
    granted: dict[str, bool]


def echo(request: FiberRequest) -> Any:
    """Money for questions of money, the message for sends, a path for spawns."""
    match request:
        case SendTo(stream=True):
            return Streams((str(request.message),))
        case SendTo():
            return request.message
        case SpawnAgent():
            return f"/{request.agent}"
        case CallHost():
            return request.args[0] if request.args else None
        case AskBudget():
            return 1_000_000_000 * (request.what + 1)
        case OpenScope():
            return None
        case _:
            return never


def run(
    module: Module,
    args: Sequence[Any] = (),
    host: Host = echo,
    *,
    fuel: int = 10_000,
    limits: VmLimits | None = None,
    stored: bool = False,
    rounds: int = 100_000,
    window: int = 0,
) -> Ran:
    """Answers are given when the machine waits, in the order of the asking; `stored`: the machine
    is written down and read anew after every run."""
    program = load(module)
    vm = Vm(program, start(program, module.main, args, limits or VmLimits(), window))
    requests: list[FiberRequest] = []
    open_: list[FiberRequest] = []
    granted: dict[str, bool] = {}
    step = Step(Status.RUNNING)
    for _ in range(rounds):
        step = vm.run(fuel)
        requests += step.requests
        open_ += step.requests
        if stored:
            vm = Vm(program, from_json(VmState, to_json(vm.written())))
        if step.status is Status.WAITING:
            given = _give_all(vm, open_, host)
            open_.clear()
            granted |= given
            if not given:
                break
        elif step.status is not Status.RUNNING:
            break
    return Ran(replace(step, requests=()), requests, vm.state.fuel_used, granted)


def _give_all(vm: Vm, requests: list[FiberRequest], host: Host) -> dict[str, bool]:
    given: dict[str, bool] = {}
    for each in requests:
        request = each.of if isinstance(each, SpeculativeCall) else each
        answer = host(request)
        if _give(vm, request, answer):
            given[getattr(request, "ticket", "")] = not isinstance(answer, Fails | Streams)
    return given


def _give(vm: Vm, request: FiberRequest, answer: Any) -> bool:
    ticket = getattr(request, "ticket", "")
    match answer:
        case _Never():
            return False
        case Fails(error, reason):
            return vm.fail(ticket, error, reason)
        case Streams(chunks, error):
            for chunk in chunks:
                vm.chunk(ticket, chunk)
            return vm.fail(ticket, error, "cut") if error else vm.end_stream(ticket)
        case _:
            return vm.answer(ticket, answer)


def same_in_pieces(
    module: Module, args: Sequence[Any] = (), host: Host = echo, limits: VmLimits | None = None
) -> Ran:
    whole = run(module, args, host, limits=limits)
    pieces = run(module, args, host, fuel=1, limits=limits, stored=True)
    assert pieces == whole
    return whole
