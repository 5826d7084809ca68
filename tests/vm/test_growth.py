"""What a program costs for an answer does not grow with what is left of it. Counted, not timed."""

from collections import deque

import pytest

from vegakit.lang.codegen.compiler import compile_program
from vegakit.lang.frontends import check_program
from vegakit.vm import CallHost, SendTo, SpeculativeCall, Status, Vm, start
from vegakit.vm.lookahead import Lookahead
from vegakit.vm.state import state_weight

AGENT = 'agent echo { model "any" max_tokens 50 }\n'
CHAIN = 'let x = "a"; for i in range(n) { x = echo <- "{i} {x}"; } return len(x);'
LOOP = 'for i in range(n) { let s = echo <- "{i}"; } return n;'
BRANCHES = (
    'let x = "a"; for i in range(n) { x = echo <- "{x}"; if len(x) > i { x = echo <- "more"; } } '
    "return len(x);"
)
FAN_OUT = (
    'let fs = [for i in range(n) { async echo <- "{i}" }]; let all = [for f in fs { await f }]; '
    "return len(all);"
)
FAR = """
    let first = async echo <- "first";
    let x = "a";
    for i in range(20) { x = echo <- "{i} {x}"; }
    let last = echo <- "after {await first}";
    return len(last);
"""
PROGRAMS = {"chain": CHAIN, "loop": LOOP, "branches": BRANCHES, "fan-out": FAN_OUT}


def _vm(body: str, size: int) -> Vm:
    text = f"{AGENT}fn main(n: int) -> int {{ {body} }}"
    checked, diagnostics = check_program(text, "main.vega", lambda _path: None)
    assert checked is not None, diagnostics
    module = compile_program(checked)
    return Vm(module, start(module, module.main, [size], window=64))


def _played(vm: Vm) -> list[str]:
    """Answer every request, the oldest first, and return the tickets in the order they began."""
    due: deque[str] = deque()
    begun: list[str] = []
    while True:
        step = vm.run(1_000_000)
        assert vm.weigh()
        for request in step.requests:
            asked = request.of if isinstance(request, SpeculativeCall) else request
            if isinstance(asked, SendTo | CallHost):
                due.append(asked.ticket)
                begun.append(asked.ticket)
        if step.status is not Status.WAITING:
            assert step.status is Status.FINISHED, step.error
            return begun
        vm.answer(due.popleft(), "yes it is so")


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many calls and awaited results lookaheads pass, in the only item."""
    count = [0]
    further = Lookahead.go_further

    def counted(lookahead: Lookahead) -> None:
        count[0] += 1
        further(lookahead)

    monkeypatch.setattr(Lookahead, "go_further", counted)
    return count


@pytest.mark.parametrize("body", PROGRAMS.values(), ids=PROGRAMS)
def test_a_lookahead_costs_the_same_however_long_the_program_is(
    body: str, passed: list[int]
) -> None:
    """Twice the work takes about twice the looks; before, it took four times as many."""
    took: list[int] = []
    for size in (200, 400):
        passed[0] = 0
        _played(_vm(body, size))
        took.append(passed[0])
    assert took[1] <= 2.3 * took[0]
    assert took[1] <= 80 * 400


def test_a_call_far_ahead_begins_when_its_operands_are_known() -> None:
    """`last` needs only `first`, which is answered before the chain between them goes on."""
    begun = _played(_vm(FAR, 0))
    assert begun.index(next(one for one in begun if one.startswith("main:2"))) <= 3


def test_independent_calls_fill_the_window_again_after_each_answer() -> None:
    vm = _vm(LOOP, 500)
    step = vm.run(1_000_000)
    due = deque(
        r.of.ticket if isinstance(r, SpeculativeCall) else r.ticket
        for r in step.requests
        if isinstance(r, SendTo | SpeculativeCall)
    )
    assert len(due) == 65
    for _ in range(300):
        vm.answer(due.popleft(), "yes")
        step = vm.run(1_000_000)
        news = [r.of.ticket for r in step.requests if isinstance(r, SpeculativeCall)]
        assert len(news) == 1
        due += news


@pytest.mark.parametrize("body", PROGRAMS.values(), ids=PROGRAMS)
def test_what_a_state_weighs_is_never_taken_for_less(body: str) -> None:
    vm = _vm(body, 60)
    due: deque[str] = deque()
    while (step := vm.run(50)).status in (Status.RUNNING, Status.WAITING):
        assert vm.weigh()
        assert vm.weight_bound >= state_weight(vm.state)
        due += [
            r.of.ticket if isinstance(r, SpeculativeCall) else r.ticket
            for r in step.requests
            if isinstance(r, SendTo | SpeculativeCall)
        ]
        if step.status is Status.WAITING:
            vm.answer(due.popleft(), "yes it is so")


@pytest.mark.parametrize("body", PROGRAMS.values(), ids=PROGRAMS)
def test_a_run_that_is_stored_at_each_wait_begins_the_same_calls(body: str) -> None:
    """What a lookahead keeps outside of the state changes nothing but its cost."""
    whole = _played(_vm(body, 150))
    vm, due, begun = _vm(body, 150), deque[str](), list[str]()
    while (step := vm.run(1_000_000)).status is Status.WAITING:
        for request in step.requests:
            asked = request.of if isinstance(request, SpeculativeCall) else request
            if isinstance(asked, SendTo | CallHost):
                due.append(asked.ticket)
                begun.append(asked.ticket)
        vm = Vm(vm.program, vm.written())
        vm.answer(due.popleft(), "yes it is so")
    assert begun == whole
