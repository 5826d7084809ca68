"""Tasks side by side: which error wins, what is cancelled, and where it all goes back to."""

from dataclasses import replace
from typing import Any

from tests.vm.assembling import Code, assemble, program
from tests.vm.samples import SAMPLES
from tests.vm.snapshots import Fails, Ran, never, run, same_in_pieces
from vegakit.effects import RACE
from vegakit.lang import Module, ProcessOf
from vegakit.records import from_json, to_json
from vegakit.vm import (
    CallHost,
    CancelRequest,
    CloseScope,
    EndProcesses,
    FiberRequest,
    Print,
    SendTo,
    Status,
    Vm,
    VmState,
    Watch,
    start,
)
from vegakit.vm.state import VmLimits

THREE = (
    'AGENT 1 #"A"',
    "PAR_BEGIN 2",
    "PAR_SPAWN 2 @a [3]",
    "PAR_SPAWN 2 @b [4]",
    "PAR_SPAWN 2 @c [5]",
    "PAR_JOIN 2",
    "end: LIST 0 [3,4,5,6]",
    "RETURN 0",
    'a: CONST 7 #"a"',
    "ISSUE_SEND 3 1 7 -1 -1 -1 *",
    "FORCE 3 3",
    "TASK_END",
    'b: CONST 7 #"b"',
    "ISSUE_SEND 4 1 7 -1 -1 -1 *",
    "FORCE 4 4",
    "TASK_END",
    'c: CONST 7 #"c"',
    "ISSUE_SEND 5 1 7 -1 -1 -1 *",
    "FORCE 5 5",
    "TASK_END",
)


def three(handled: bool = False) -> Module:
    lines = (*THREE[:1], f"try: {THREE[1]}", *THREE[2:])
    handlers = (("try", "end", "end", (), 6, 0),) if handled else ()
    return program(*lines, handlers=handlers)


def machine(module: Module) -> Vm:
    return Vm(module, start(module, 0))


def test_an_error_waits_for_the_tasks_before_it() -> None:
    """The second fails first; only when the first has ended is it raised."""
    vm = machine(three())
    vm.run(1_000)
    vm.fail("main:1", "Timeout", "late")
    assert vm.run(1_000).status is Status.WAITING
    vm.answer("main:0", "x")
    step = vm.run(1_000)
    assert (step.status, step.error and step.error.error) == (Status.CRASHED, "Timeout")


def test_the_earliest_error_in_program_order_wins() -> None:
    """Whichever came first in time."""
    vm = machine(three())
    vm.run(1_000)
    vm.fail("main:1", "Timeout", "second")
    vm.run(1_000)
    vm.fail("main:0", "AgentFailed", "first")
    step = vm.run(1_000)
    assert step.error is not None
    assert (step.error.error, step.error.reason) == ("AgentFailed", "first")


def test_a_join_that_comes_late_waits_for_the_tasks_before_the_error() -> None:
    """A task may have failed before its group is joined; the older ones are awaited still."""
    lines = (
        'CONST 1 #"x"',
        "PAR_BEGIN 2",
        "PAR_SPAWN 2 @older [3]",
        "PAR_SPAWN 2 @fails []",
        'HOST 4 #"late" [] *',
        "PAR_JOIN 2",
        "RETURN 0",
        'older: HOST 3 #"older" [] *',
        "TASK_END",
        'fails: RAISE #"Failed" 1',
    )
    vm = machine(program(*lines))
    vm.run(1_000)
    vm.answer("main:0", None)
    assert vm.run(1_000).status is Status.WAITING
    vm.answer("main:1", None)
    assert vm.run(1_000).status is Status.CRASHED


def test_monitors_end_with_the_call_that_made_them() -> None:
    """Also those inside of a monitor, when it ends."""
    watch = ("MONITOR 3 2 @after *", "TASK_END", "after: CONST 4 #1")
    f = Code("f", (*watch, "RETURN 4"), params=(ProcessOf(),))
    spawn = ('AGENT 1 #"A"', "SPAWN_SUPERVISED 2 1 -1 -1 -1 #null *", "FORCE 2 2")
    called = Code("main", (*spawn, "CALL 4 $f [2] *", "PRINT 4 *", "RETURN 4"))
    ran = same_in_pieces(assemble(called, replace(f, lines=_from_parameter(f.lines))))
    assert [type(request).__name__ for request in ran.requests][2:4] == ["CancelRequest", "Print"]
    outer = ("MONITOR 3 2 @on *", *watch, "TASK_END", 'on: HOST 5 #"x" [] *', "RETURN 4")
    vm = machine(program(*spawn, *outer))
    vm.run(1_000)
    vm.answer("main:0", "/a")
    vm.run(1_000)
    vm.answer("main:1", "gone")
    assert vm.run(1_000).requests == (Watch("main:2", "/a"), CancelRequest("main:2"))


def _from_parameter(lines: tuple[str, ...]) -> tuple[str, ...]:
    """The handle is the first register there."""
    return tuple(line.replace("MONITOR 3 2", "MONITOR 3 0") for line in lines)


def test_younger_tasks_are_cancelled() -> None:
    """As soon as an older one has failed; its late answer finds nobody."""
    vm = machine(three())
    vm.run(1_000)
    vm.fail("main:1", "Timeout", "x")
    assert vm.run(1_000).requests == (CancelRequest("main:2"),)
    assert vm.answer("main:2", "late") is False


def test_older_tasks_are_not() -> None:
    """They would have run in the sequential program, and their results are kept."""

    def host(request: FiberRequest) -> Any:
        return Fails("Timeout", "x") if request == SendTo("main:1", "A", "b", agent=True) else "ok"

    ran = same_in_pieces(three(handled=True), host=host)
    assert ran.step.value == ["ok", {"$": "future", "of": "main:1"}, None, "x"]


def test_a_task_that_failed_is_caught_outside() -> None:
    """By the handler around the join, with its reason."""
    assert run(three(handled=True), host=lambda _: Fails("Timeout", "no")).step.value[3] == "no"


def test_the_stack_of_a_task_reaches_down_to_main() -> None:
    """The line in the task, then the calls below the call it split from."""
    ran = run(three(), host=lambda _: Fails("Timeout"))
    assert ran.step.error is not None
    assert ran.step.error.stack == (("main", "main.vega", 11),)


def test_nobody_waits_at_the_end() -> None:
    """What is not answered when the program ends is cancelled."""
    lines = ('AGENT 1 #"A"', 'CONST 2 #"x"', "ISSUE_SEND 3 1 2 -1 -1 -1 *", "RETURN 2")
    assert run(program(*lines)).requests[1:] == [CancelRequest("main:0")]


def test_answers_after_the_end_are_ignored() -> None:
    """So are second answers, and answers that nobody asked for."""
    vm = machine(three())
    vm.run(1_000)
    assert vm.answer("main:0", "x") is True
    assert vm.answer("main:0", "y") is False
    assert vm.answer("nobody", "y") is False
    assert vm.chunk("main:1", "y") is False


def test_tasks_are_limited() -> None:
    """One more than allowed raises LimitReached, and the others are cancelled."""
    limits = VmLimits(tasks=3)
    ran = run(three(), limits=limits)
    assert ran.step.error is not None
    assert ran.step.error.error == "LimitReached"
    assert run(three(), limits=VmLimits(tasks=4)).step.status is Status.FINISHED


def test_a_task_that_spins_does_not_starve_the_others() -> None:
    """They take turns."""
    lines = (
        'CONST 1 #"hi"',
        "PAR_BEGIN 2",
        "PAR_SPAWN 2 @spin []",
        "PAR_SPAWN 2 @say []",
        "PAR_JOIN 2",
        "RETURN 1",
        "spin: JUMP @spin",
        "say: PRINT 1 *",
        "TASK_END",
    )
    assert len(run(program(*lines), limits=VmLimits(total_fuel=5_000)).requests) == 1


def _in_a_task(*lines: str) -> Ran:
    """The lines beside a task that fails before they are done."""
    return run(
        program(
            'AGENT 1 #"A"',
            'CONST 3 #{"$":"money","of":5}',
            "PAR_BEGIN 2",
            "PAR_SPAWN 2 @fails []",
            "PAR_SPAWN 2 @lines []",
            "PAR_JOIN 2",
            "RETURN 0",
            'fails: HOST 4 #"x" [] *',
            'RAISE #"Failed" 4',
            f"lines: {lines[0]}",
            *lines[1:],
            'HOST 4 #"y" [] *',
            "TASK_END",
        ),
        host=lambda request: never if getattr(request, "function", "") == "y" else "/p",
    )


def test_a_cancelled_task_closes_its_scopes() -> None:
    """And only its own."""
    ran = _in_a_task("BUDGET_ENTER 3 #null *")
    assert CloseScope("main:1") in ran.requests


def test_a_cancelled_task_drops_its_processes() -> None:
    """They cannot be in any register that comes back."""
    ran = _in_a_task("SPAWN_SUPERVISED 5 1 -1 -1 -1 #null *", "FORCE 5 5")
    assert EndProcesses(("/p",)) in ran.requests


def test_a_process_of_a_task_belongs_to_its_call() -> None:
    """It lives as long as the function that holds the parallel block."""
    lines = (
        'AGENT 1 #"A"',
        "PAR_BEGIN 2",
        "PAR_SPAWN 2 @s [3]",
        "PAR_JOIN 2",
        "PRINT 3 *",
        "RETURN 0",
        "s: SPAWN_SUPERVISED 3 1 -1 -1 -1 #null *",
        "FORCE 3 3",
        "TASK_END",
    )
    kinds = [type(request).__name__ for request in same_in_pieces(program(*lines)).requests]
    assert kinds == ["SpawnAgent", "Print", "EndProcesses"]


def test_the_sample_tells_what_each_task_brought() -> None:
    """Registers that are not listed stay as they were."""
    assert run(SAMPLES["parallel"]).step.value == ["1", ["2"], 24, ["2"], None]


def test_tasks_that_wait_for_one_answer_go_on_in_their_order() -> None:
    """Whichever waited first, and also in a machine that was stored meanwhile."""
    module = program(
        'AGENT 1 #"A"',
        'CONST 2 #"x"',
        "ISSUE_SEND 3 1 2 -1 -1 -1 *",
        "PAR_BEGIN 4",
        "PAR_SPAWN 4 @late []",
        "PAR_SPAWN 4 @soon []",
        "PAR_JOIN 4",
        "RETURN 0",
        'late: HOST 5 #"x" [] *',
        "FORCE 5 3",
        "PRINT 2 *",
        "TASK_END",
        "soon: FORCE 5 3",
        "PRINT 2 *",
        "TASK_END",
    )
    for stored in (False, True):
        vm = machine(module)
        vm.run(1_000)
        vm.answer("main:1", None)
        vm.run(1_000)
        vm = Vm(module, vm.written()) if stored else vm
        vm.answer("main:0", "y")
        assert [w.ticket for w in vm.run(1_000).requests if isinstance(w, Print)] == [
            "main:2",
            "main:3",
        ]


# A race.


ONE, TWO, WON = "main:0", "main:1", "main:2"


def raced() -> Vm:
    vm = machine(SAMPLES["race"])
    sends = [each for each in vm.run(1_000).requests if isinstance(each, SendTo)]
    assert [each.ticket for each in sends] == [ONE, TWO]
    return vm


def test_the_first_that_is_good_wins_and_the_others_are_cancelled_for_good() -> None:
    vm = raced()
    assert vm.answer(TWO, "two")
    assert vm.run(1_000).requests == (CallHost(WON, RACE, ("1",), 0),)
    assert vm.answer(WON, "1")
    ended = vm.run(1_000)
    assert (ended.status, ended.value) == (Status.FINISHED, "two")
    assert ended.requests == (CancelRequest(ONE, final=True),)


def test_who_won_in_an_earlier_life_is_waited_for() -> None:
    """Of the recorded answers that of the first is there sooner, and was the second in time."""
    vm = raced()
    assert vm.answer(ONE, "one")
    vm.run(1_000)
    assert vm.answer(WON, "1")
    assert vm.run(1_000).status is Status.WAITING
    assert vm.answer(TWO, "two")
    assert vm.run(1_000).value == "two"


def test_two_that_are_good_at_once_are_told_by_one_record() -> None:
    vm = raced()
    assert vm.answer(ONE, "one")
    assert vm.answer(TWO, "two")
    assert vm.run(1_000).requests == (CallHost(WON, RACE, ("0",), 0),)
    restored = Vm(SAMPLES["race"], from_json(VmState, to_json(vm.written())))
    for one in (vm, restored):
        assert one.answer(WON, "1")
        assert one.run(1_000).value == "two"


def test_a_race_that_nobody_wins() -> None:
    vm = raced()
    assert vm.fail(ONE, "AgentFailed", "no")
    assert vm.answer(TWO, "no")
    error = vm.run(1_000).error
    assert error is not None
    assert (error.error, error.reason[:28]) == ("LimitReached", "none of 1 answers was good; ")
    vm = raced()
    assert vm.fail(TWO, "Timeout", "late")
    assert vm.run(1_000).status is Status.WAITING
    assert vm.fail(ONE, "AgentFailed", "first")
    error = vm.run(1_000).error
    assert error is not None
    assert (error.error, error.reason) == ("AgentFailed", "first")
