"""Tickets say where an effect stands, and nothing of when it happened."""

from tests.vm.assembling import Code, assemble, program
from tests.vm.samples import SAMPLES
from tests.vm.snapshots import run, same_in_pieces
from vegakit.records import from_json, to_json
from vegakit.vm import SendTo, Vm, VmState, start


def tickets(module: object) -> list[str]:
    requests = same_in_pieces(module).requests  # type: ignore[arg-type]
    return [request.ticket for request in requests if isinstance(request, SendTo)]


def test_rounds_of_loops_are_in_the_ticket() -> None:
    """From the outer loop to the inner, from 0."""
    lines = (
        'AGENT 1 #"A"',
        "CONST 2 #[0,1]",
        "CONST 3 #-1",
        "outer: NEXT 5 2 3 @end",
        "CONST 4 #-1",
        "inner: NEXT 5 2 4 @outer",
        'CONST 6 #"x"',
        "ISSUE_SEND 7 1 6 -1 -1 -1 *[3,4]",
        "FORCE 7 7",
        "JUMP @inner",
        "end: RETURN 0",
    )
    assert tickets(program(*lines)) == [
        "main:0[0.0]",
        "main:0[0.1]",
        "main:0[1.0]",
        "main:0[1.1]",
    ]


def test_calls_are_in_the_ticket() -> None:
    """The site of the call with its rounds, then the function, then the site in it."""
    lines = ("CONST 2 #[0,1,2]", "CONST 3 #-1", "top: NEXT 4 2 3 @end", "CALL 5 $f [] *[3]")
    main = Code("main", (*lines, "JUMP @top", "end: RETURN 0"))
    send = ('AGENT 1 #"A"', 'CONST 2 #"x"', "ISSUE_SEND 3 1 2 -1 -1 -1 *", "FORCE 3 3")
    names = tickets(assemble(main, Code("f", (*send, "RETURN 3"))))
    assert names == ["main:0[0]/f:0", "main:0[1]/f:0", "main:0[2]/f:0"]


def test_tickets_do_not_depend_on_what_came_first() -> None:
    """The answers of two tasks in either order: the same tickets go out."""

    def asked(first: str, second: str) -> set[str]:
        vm = Vm(module, start(module, 0))
        seen = [*vm.run(1_000).requests]
        for ticket in (first, second):
            vm.answer(ticket, "x")
            seen += vm.run(1_000).requests
        return {request.ticket for request in seen if isinstance(request, SendTo)}

    module = program(
        'AGENT 1 #"A"',
        'CONST 2 #"x"',
        "PAR_BEGIN 3",
        "PAR_SPAWN 3 @a []",
        "PAR_SPAWN 3 @b []",
        "PAR_JOIN 3",
        "RETURN 0",
        "a: ISSUE_SEND 4 1 2 -1 -1 -1 *",
        "FORCE 4 4",
        "ISSUE_SEND 4 1 2 -1 -1 -1 *",
        "FORCE 4 4",
        "TASK_END",
        "b: ISSUE_SEND 4 1 2 -1 -1 -1 *",
        "FORCE 4 4",
        "ISSUE_SEND 4 1 2 -1 -1 -1 *",
        "FORCE 4 4",
        "TASK_END",
    )
    assert asked("main:0", "main:2") == asked("main:2", "main:0") == {f"main:{n}" for n in range(4)}


def test_old_answers_are_forgotten() -> None:
    """A long loop of sends keeps no more answers than its registers can reach."""
    lines = (
        'AGENT 1 #"A"',
        "CONST 2 #-1",
        'CONST 5 #"x"',
        "CONST 6 #500",
        "top: ROUND 2 6",
        "ISSUE_SEND 3 1 5 -1 -1 -1 *[2]",
        "FORCE 4 3",
        "JUMP @top",
        "end: RETURN 4",
    )
    module = program(*lines, handlers=(("top", "end", "end", ("LimitReached",), -1, 0),))
    vm = Vm(module, start(module, 0))
    most = 0
    for round_ in range(500):
        vm.run(10_000)
        vm.answer(f"main:0[{round_}]", "x" * round_)
        most = max(most, len(vm.state.asked))
    assert vm.run(10_000).value == "x" * 499
    assert most <= 65


def test_a_snapshot_is_not_changed_by_going_on() -> None:
    """It is a copy, and JSON."""
    module = SAMPLES["processes"]
    vm = Vm(module, start(module, 0))
    vm.run(10)
    before = to_json(vm.written())
    kept = vm.written()
    vm.run(10)
    assert to_json(kept) == before
    assert to_json(from_json(VmState, before)) == before


def test_the_end_can_be_stored_too() -> None:
    """And a machine that is read from it says the same end again, without wants."""
    module = SAMPLES["values"]
    vm = Vm(module, start(module, 0))
    step = vm.run(10_000)
    again = Vm(module, from_json(VmState, to_json(vm.written()))).run(10)
    assert (again.status, again.value, again.requests) == (step.status, step.value, ())
    assert run(module).step.value == step.value
