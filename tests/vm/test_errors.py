"""Errors on their way: handlers, what closes with a call, and the stack of a crash."""

from typing import Any

import pytest

from tests.vm.assembling import Code, assemble, program
from tests.vm.snapshots import Fails, run, same_in_pieces
from vegakit.errors import ContractViolated
from vegakit.lang import INT, FutureOf, ListOf
from vegakit.vm import CancelRequest, CloseScope, EndProcesses, OpenScope, SpawnAgent, Status, start
from vegakit.vm.state import VmLimits

MONEY = 'CONST 1 #{"$":"money","of":5}'
SPAWN = ('AGENT 2 #"A"', "SPAWN_SUPERVISED 3 2 -1 -1 -1 #null *", "FORCE 3 3")


def called(*lines: str, after: tuple[str, ...] = ("RETURN 0",), caught: bool = False) -> Any:
    """`main` calls `f`, which is the lines."""
    main = Code(
        "main",
        ("try: CALL 0 $f [] *", *after, "caught: RETURN 5"),
        handlers=(("try", "caught", "caught", ("Failed",), 5, 0),) if caught else (),
    )
    return same_in_pieces(assemble(main, Code("f", lines)))


def test_an_error_goes_through_calls() -> None:
    """To the handler of the caller, which gets the reason."""
    ran = called('CONST 1 #"why"', 'RAISE #"Failed" 1', caught=True)
    assert ran.step.value == "why"


def test_a_handler_takes_only_its_kinds() -> None:
    """Another error passes it."""
    ran = called('CONST 1 #"why"', 'RAISE #"Timeout" 1', caught=True)
    assert ran.step.error is not None
    assert ran.step.error.error == "Timeout"


@pytest.mark.parametrize("error", ["FuelExhausted", "BadProgram", "Paused", "ProgramChanged"])
def test_what_is_no_error_of_the_language_passes_every_handler(error: str) -> None:
    """A host may end a program by such an error."""
    lines = ('try: HOST 0 #"x" [] *', "end: RETURN 0")
    module = program(*lines, handlers=(("try", "end", "end", (), -1, 0),))
    ran = run(module, host=lambda _: Fails(error, "stop"))
    assert (ran.step.status, ran.step.error and ran.step.error.error) == (Status.CRASHED, error)


def test_the_inner_handler_is_first() -> None:
    """Rows are taken in their order."""
    lines = (
        'CONST 1 #"why"',
        'try: RAISE #"Failed" 1',
        "inner: CONST 0 #1",
        "RETURN 0",
        "outer: CONST 0 #2",
        "RETURN 0",
    )
    rows = (("try", "inner", "inner", (), -1, 0), ("try", "inner", "outer", (), -1, 0))
    assert same_in_pieces(program(*lines, handlers=rows)).step.value == 1


def test_the_stack_names_function_file_and_line() -> None:
    """Innermost first."""
    ran = called("CONST 1 #1", "CONST 2 #0", "DIV 0 1 2", "RETURN 0")
    assert ran.step.error is not None
    assert ran.step.error.stack == (("f", "main.vega", 3), ("main", "main.vega", 1))


def test_a_handler_closes_the_scopes_opened_under_it() -> None:
    """And keeps those that were open before."""
    lines = (
        MONEY,
        "BUDGET_ENTER 1 #null *",
        "try: BUDGET_ENTER 1 #null *",
        'RAISE #"Failed" 1',
        "end: BUDGET_CHECK 0 0 *",
        "RETURN 0",
    )
    ran = same_in_pieces(program(*lines, handlers=(("try", "end", "end", (), -1, 1),)))
    kinds = [(type(request).__name__, getattr(request, "scope", "")) for request in ran.requests]
    assert kinds[2:] == [
        ("CloseScope", "main:1"),
        ("AskBudget", "main:0"),
        ("CloseScope", "main:0"),
    ]


def test_a_call_that_raises_closes_its_scopes() -> None:
    """The caller's handler sees none of them."""
    ran = called(MONEY, "BUDGET_ENTER 1 #null *", 'RAISE #"Failed" 1', caught=True)
    assert ran.requests == [OpenScope("main:0/f:0", 5), CloseScope("main:0/f:0")]


def test_a_call_that_returns_closes_its_scopes() -> None:
    """`return` inside a session ends the session."""
    ran = called(MONEY, "BUDGET_ENTER 1 #null *", "RETURN 0")
    assert ran.requests[1:] == [CloseScope("main:0/f:0")]


def test_a_call_that_raises_drops_its_processes() -> None:
    """Nobody has their handles."""
    ran = called(*SPAWN, 'RAISE #"Failed" 3', caught=True)
    assert ran.requests[1:] == [EndProcesses(("/A",))]


@pytest.mark.parametrize("held", ["MOVE 0 3", "LIST 0 [2,3]", "LIST 0 [3]; LIST 0 [0]"])
def test_a_returned_process_passes_to_the_caller(held: str) -> None:
    """Also inside of lists; it ends with the caller's call."""
    ran = called(*SPAWN, *held.split("; "), "RETURN 0", after=("PRINT 1 *", "RETURN 1"))
    assert [type(request).__name__ for request in ran.requests] == [
        "SpawnAgent",
        "Print",
        "EndProcesses",
    ]


def test_a_returned_future_keeps_its_process() -> None:
    """It is the handle that is to come."""
    ran = called(*SPAWN[:2], "RETURN 3", after=("FORCE 1 0", "PRINT 1 *", "RETURN 2"))
    assert [type(request).__name__ for request in ran.requests] == [
        "SpawnAgent",
        "Print",
        "EndProcesses",
    ]


def test_a_process_that_comes_too_late_is_dropped() -> None:
    """The call that wanted it has returned already."""
    ran = called(*SPAWN[:2], "RETURN 2", after=('HOST 1 #"x" [] *', 'HOST 1 #"x" [] *', "RETURN 1"))
    assert ran.requests[0] == SpawnAgent("main:0/f:0", "A")
    assert ran.requests[2] == EndProcesses(("/A",))


def test_the_result_of_the_program_may_hold_processes() -> None:
    """They are not dropped; the host has them."""
    assert EndProcesses(("/A",)) not in run(program(*SPAWN, "RETURN 3")).requests


def test_depth_of_calls_is_limited() -> None:
    """The call too many raises LimitReached, which can be caught."""
    f = Code("f", ("CALL 0 $f [] *", "RETURN 0"))
    main = Code("main", ("CALL 0 $f [] *", "RETURN 0"))
    ran = run(assemble(main, f))
    assert ran.step.error is not None
    assert (ran.step.error.error, len(ran.step.error.stack)) == ("LimitReached", 200)


def test_arguments_must_fit() -> None:
    """Before anything runs, by number and by type."""
    module = program("RETURN 0", params=(ListOf(INT),))
    assert run(module, [[1, 2]]).step.value == [1, 2]
    for wrong in ([], ["x"], [["x"]], [{"$": "nonsense"}]):
        with pytest.raises(ContractViolated, match="main"):
            start(module, 0, wrong)


def test_a_future_from_outside_is_a_bad_program() -> None:
    """Nothing was asked under its ticket."""
    module = program("FORCE 0 0", "RETURN 0", params=(FutureOf(INT),))
    ran = run(module, [{"$": "future", "of": "main:0"}])
    assert ran.step.error is not None
    assert ran.step.error.error == "BadProgram"


def test_a_crash_cancels_what_is_open() -> None:
    """As any other end."""
    lines = ('AGENT 1 #"A"', 'CONST 2 #"x"', "ISSUE_SEND 3 1 2 -1 -1 -1 *", 'RAISE #"Failed" 2')
    ran = run(program(*lines, "RETURN 0"), limits=VmLimits())
    assert ran.requests[1:] == [CancelRequest("main:0")]
