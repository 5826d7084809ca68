"""What a program costs for an answer does not grow with what is left of it. Counted, not timed."""

from collections import deque

import pytest

from vegakit.lang import check_program, compile_program
from vegakit.vm import (
    CallHost,
    OpenScope,
    SendTo,
    SpeculativeCall,
    Status,
    Vm,
    operators,
    start,
)
from vegakit.vm.lookahead import Lookahead
from vegakit.vm.state import state_weight
from vegakit.vm.values import MAX_ITEMS, ListValue, ProgramFault, items_of

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


def _vm(body: str, size: int, gives: str = "int") -> Vm:
    text = f"{AGENT}fn main(n: int) -> {gives} {{ {body} }}"
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
            elif isinstance(asked, OpenScope):
                due.appendleft(asked.ticket)
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


LISTS = {
    "comprehension": "let xs = [for i in range(n) { i }]; return len(xs);",
    "loop": "let xs = [0]; for i in range(n) { xs = xs + [i]; } return len(xs);",
}


@pytest.mark.parametrize("body", LISTS.values(), ids=LISTS)
def test_a_list_that_grows_item_by_item_is_not_copied_for_each(
    body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[int] = []
    joined = operators._joined

    def counted(a: ListValue, b: ListValue) -> ListValue:
        copied.append(len(a))
        return joined(a, b)

    monkeypatch.setattr(operators, "_joined", counted)
    _played(_vm(body, 500))
    assert sum(copied) == 0


@pytest.mark.parametrize(
    ("body", "given"),
    [
        ("let xs = [1]; let ys = xs; xs = xs + [2]; return [len(xs), len(ys)];", [2, 1]),
        ("let xs = [1]; let ys = [xs]; xs = xs + [2]; return [len(xs), len(ys[0])];", [2, 1]),
        ("let xs = [1]; xs = xs + xs; xs = xs + xs; return xs;", [1, 1, 1, 1]),
        ("let xs = [1]; let ys = xs; for i in range(3) { xs = xs + [i]; } return ys;", [1]),
        ("let xs = [1]; for x in xs { xs = xs + [x]; } return xs;", [1, 1]),
    ],
)
def test_a_list_that_something_else_holds_stays_as_it_is(body: str, given: list[object]) -> None:
    vm = _vm(body, 3, gives="any")
    step = vm.run(1_000_000)
    assert (step.status, step.value) == (Status.FINISHED, given)


def test_a_list_that_may_not_grow_stays_as_it_is() -> None:
    registers: list[object] = [items_of([0] * (MAX_ITEMS - 1))]
    operators.grow(registers, 0, items_of([1]))
    with pytest.raises(ProgramFault, match="a list has at most"):
        operators.grow(registers, 0, items_of([2]))
    [held] = registers
    assert isinstance(held, ListValue)
    assert (len(held), held[-1]) == (MAX_ITEMS, 1)


QUIET = {
    "the last call": ('let a = echo <- "a"; let b = echo <- "b {a}"; return len(b);', 1),
    "a session": ('session budget $0.10 { let a = echo <- "a"; } return n;', 0),
    "a loop": ('let a = ""; for i in range(2) { a = echo <- "{i} {a}"; } return n;', 2),
    "a handler": (
        'try { let a = echo <- "a"; } catch AgentFailed { let b = echo <- "b"; } return n;',
        1,
    ),
}


@pytest.mark.parametrize(("body", "walks"), QUIET.values(), ids=QUIET)
def test_a_program_looks_ahead_where_calls_may_follow(
    body: str, walks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    walked = [0]
    walk = Lookahead.walk

    def counted(lookahead: Lookahead) -> None:
        walked[0] += 1
        walk(lookahead)

    monkeypatch.setattr(Lookahead, "walk", counted)
    _played(_vm(body, 1))
    assert walked[0] == walks
