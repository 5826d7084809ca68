"""Every instruction does what its row in the table says, whole and stored after each step."""

from typing import Any

import pytest

from tests.vm.assembling import Code, assemble, program
from tests.vm.snapshots import Fails, Streams, never, same_in_pieces
from vegakit.lang import INT, STR, ListOf, Op, OptionalOf, RecordOf, Type
from vegakit.vm import (
    AskBudget,
    CallHost,
    CancelRequest,
    CloseScope,
    End,
    EndProcesses,
    LinkBoth,
    OpenScope,
    Print,
    SendTo,
    SpawnAgent,
    Status,
    Watch,
)
from vegakit.vm.machine import _OPS
from vegakit.vm.module_facts import COLD, HOT

USD = {"$": "money", "of": 1_500_000_000}
FINDING = RecordOf("Finding", (("file", STR), ("note", OptionalOf(STR))))
TYPES: dict[str, Type] = {"Finding": FINDING, "ints": ListOf(INT, 2)}


def value(*lines: str, **more: Any) -> Any:
    """What the lines leave in register 0."""
    ran = same_in_pieces(program(*lines, "RETURN 0", types=TYPES, **more))
    assert ran.step.status is Status.FINISHED, ran.step
    return ran.step.value


def error(*lines: str, **more: Any) -> tuple[str, str]:
    ran = same_in_pieces(program(*lines, "RETURN 0", types=TYPES, **more))
    assert ran.step.error is not None, ran.step
    return ran.step.error.error, ran.step.error.reason


def test_the_machine_knows_every_instruction() -> None:
    """Each row of the table is either in the fast loop or has a function of its own."""
    cold = {Op(number - COLD) for number in _OPS}
    hot = {Op[name] for name in HOT} | {Op.AGENT}
    assert cold | hot == set(Op)
    assert cold & hot == set()


VALUES: list[tuple[str, Any]] = [
    ("CONST 0 #7", 7),
    ('CONST 0 #{"a":[1,null]}', {"a": [1, None]}),
    ("CONST 1 #7; MOVE 0 1", 7),
    ('AGENT 0 #"Coder"', {"$": "agent", "of": "Coder"}),
    ("CONST 1 #2; CONST 2 #3; ADD 0 1 2", 5),
    ('CONST 1 #"a"; CONST 2 #"b"; ADD 0 1 2', "ab"),
    ("CONST 1 #[1]; CONST 2 #[2]; ADD 0 1 2", [1, 2]),
    ('CONST 1 #{"a":1,"b":1}; CONST 2 #{"b":2}; ADD 0 1 2', {"a": 1, "b": 2}),
    ("CONST 1 #2; CONST 2 #3; SUB 0 1 2", -1),
    ("CONST 1 #2; CONST 2 #3; MUL 0 1 2", 6),
    ("CONST 1 #-7; CONST 2 #2; DIV 0 1 2", -3),
    ("CONST 1 #-7; CONST 2 #2; MOD 0 1 2", -1),
    ("CONST 1 #7; CONST 2 #-2; MOD 0 1 2", 1),
    ("CONST 1 #7; NEG 0 1", -7),
    ("CONST 1 #[1,{}]; CONST 2 #[1,{}]; EQ 0 1 2", True),
    ("CONST 1 #true; CONST 2 #1; EQ 0 1 2", False),
    ("CONST 1 #1; CONST 2 #2; NE 0 1 2", True),
    ("CONST 1 #1; CONST 2 #1; LT 0 1 2", False),
    ("CONST 1 #1; CONST 2 #1; LE 0 1 2", True),
    ('CONST 1 #"a"; CONST 2 #"b"; LT 0 1 2', True),
    ("CONST 1 #2; CONST 2 #[1,2]; IN 0 1 2", True),
    ('CONST 1 #"k"; CONST 2 #{"k":1}; IN 0 1 2', True),
    ('CONST 1 #"x"; CONST 2 #"abc"; IN 0 1 2', False),
    ("CONST 1 #true; NOT 0 1", False),
    ("CONST 0 #1; JUMP @end; CONST 0 #2; end: MOVE 0 0", 1),
    ("CONST 0 #1; CONST 1 #true; JUMP_IF 1 @end; CONST 0 #2; end: MOVE 0 0", 1),
    ("CONST 0 #1; CONST 1 #true; JUMP_IF_NOT 1 @end; CONST 0 #2; end: MOVE 0 0", 2),
    ("CONST 0 #1; CONST 1 #null; JUMP_IF_NULL 1 @end; CONST 0 #2; end: MOVE 0 0", 1),
    ("CONST 0 #1; CONST 1 #0; JUMP_IF_NULL 1 @end; CONST 0 #2; end: MOVE 0 0", 2),
    ("CONST 1 #1; CONST 2 #2; LIST 0 [1,2]", [1, 2]),
    ('CONST 1 #"k"; CONST 2 #2; MAP 0 [1,2]', {"k": 2}),
    ('CONST 1 #"a"; CONST 2 #null; RECORD 0 !Finding [1,2]', {"file": "a", "note": None}),
    ('CONST 1 #{"k":5}; FIELD 0 1 #"k"', 5),
    ("CONST 1 #[5,6]; CONST 2 #1; INDEX 0 1 2", 6),
    ('CONST 1 #{"k":5}; CONST 2 #"k"; INDEX 0 1 2', 5),
    ('CONST 1 #"abc"; CONST 2 #2; INDEX 0 1 2', "c"),
    ('CONST 1 #{"k":5}; CONST 2 #6; WITH_FIELD 0 1 #"k" 2', {"k": 6}),
    ("CONST 1 #[5,6]; CONST 2 #1; CONST 3 #9; WITH_INDEX 0 1 2 3", [5, 9]),
    ('CONST 1 #{}; CONST 2 #"k"; CONST 3 #9; WITH_INDEX 0 1 2 3', {"k": 9}),
    ('CONST 1 #"a="; CONST 2 #[1.5,true,null]; TEXT 0 [1,2]', "a=[1.5,true,null]"),
    ('CONST 1 #{"file":"a"}; CAST 0 1 !Finding', {"file": "a", "note": None}),
    ("CONST 1 #[1,2]; ITEMS 0 1", [1, 2]),
    ('CONST 1 #{"a":1}; ITEMS 0 1', ["a"]),
    ("CONST 1 #[7]; PAIRS 0 1", [[0, 7]]),
    ('CONST 1 #{"a":1}; PAIRS 0 1', [["a", 1]]),
    ('CONST 1 #"Ab"; LIBRARY 0 #"str::lower" [1]', "ab"),
    ("CONST 1 #5; FORCE 0 1", 5),
    ('CONST 1 #{"$":"money","of":5}; BUDGET_RESERVE 0 1', {"$": "money", "of": 5}),
]


@pytest.mark.parametrize(("lines", "wanted"), VALUES, ids=[lines[-40:] for lines, _ in VALUES])
def test_a_computing_instruction(lines: str, wanted: Any) -> None:
    """It leaves exactly this value."""
    got = value(*lines.split("; "))
    assert (got, type(got)) == (wanted, type(wanted))


ERRORS: list[tuple[str, str]] = [
    ("CONST 1 #9223372036854775807; CONST 2 #1; ADD 0 1 2", "ArithmeticError"),
    ("CONST 1 #-9223372036854775808; NEG 0 1", "ArithmeticError"),
    ("CONST 1 #1; CONST 2 #0; DIV 0 1 2", "ArithmeticError"),
    ("CONST 1 #1; CONST 2 #0; MOD 0 1 2", "ArithmeticError"),
    ("CONST 1 #1e308; CONST 2 #1e308; ADD 0 1 2", "ArithmeticError"),
    ("CONST 1 #[5]; CONST 2 #1; INDEX 0 1 2", "IndexError"),
    ("CONST 1 #[5]; CONST 2 #-1; INDEX 0 1 2", "IndexError"),
    ('CONST 1 #{}; CONST 2 #"k"; INDEX 0 1 2', "KeyError"),
    ('CONST 1 #{}; FIELD 0 1 #"k"', "KeyError"),
    ('CONST 1 #{}; CONST 2 #6; WITH_FIELD 0 1 #"k" 2', "KeyError"),
    ("CONST 1 #[]; CONST 2 #0; CONST 3 #9; WITH_INDEX 0 1 2 3", "IndexError"),
    ('CONST 1 #{"note":"a"}; CAST 0 1 !Finding', "ContractViolated"),
    ("CONST 1 #[1,2,3]; CAST 0 1 !ints", "ContractViolated"),
    ("CONST 1 #5; CONST 2 #null; RECORD 0 !Finding [1,2]", "ContractViolated"),
    ('CONST 1 #"why"; RAISE #"Failed" 1', "Failed"),
    ('CONST 1 #{"$":"money","of":-5}; BUDGET_RESERVE 0 1', "ValueError"),
    ("CONST 1 #-1; CONST 2 #0; ROUND 1 2", "LimitReached"),
    ("CONST 1 #1; CONST 2 #2; AND: ADD 0 1 3", "BadProgram"),
    ("CONST 1 #1; JUMP_IF 1 @end; end: MOVE 0 0", "BadProgram"),
    ("CONST 1 #1; JUMP_IF_NOT 1 @end; end: MOVE 0 0", "BadProgram"),
    ("NOT 0 1", "BadProgram"),
    ("NEG 0 1", "BadProgram"),
    ("LT 0 1 2", "BadProgram"),
    ("IN 0 1 2", "BadProgram"),
    ("MAP 0 [1,2]", "BadProgram"),
    ('FIELD 0 1 #"k"', "BadProgram"),
    ("INDEX 0 1 2", "BadProgram"),
    ("ITEMS 0 1", "BadProgram"),
    ("PAIRS 0 1", "BadProgram"),
    ("NEXT 0 1 2 @end; end: MOVE 0 0", "BadProgram"),
    ("ROUND 1 -1", "BadProgram"),
    ('LIBRARY 0 #"str::lower" [1]', "BadProgram"),
    ('LIBRARY 0 #"str::nothing" []', "BadProgram"),
    ('RAISE #"Nonsense" 1', "BadProgram"),
    ("ISSUE_SEND 0 1 2 -1 -1 -1 *", "BadProgram"),
    ("SPAWN_SUPERVISED 0 1 -1 -1 -1 #null *", "BadProgram"),
    ("LINK 0 1", "BadProgram"),
    ("MONITOR 0 1 @end *; end: MOVE 0 0", "BadProgram"),
    ("STREAM_NEXT 0 1", "BadProgram"),
    ("STREAM_DONE 0 1", "BadProgram"),
    ("BUDGET_ENTER 1 #{} *", "BadProgram"),
    ("BUDGET_EXIT", "BadProgram"),
    ("BUDGET_RESERVE 0 1", "BadProgram"),
    ("PAR_SPAWN 1 @end []; end: MOVE 0 0", "BadProgram"),
    ("PAR_JOIN 1", "BadProgram"),
    ("TASK_END", "BadProgram"),
    ("RACE_WON *", "BadProgram"),
]


@pytest.mark.parametrize(("lines", "wanted"), ERRORS, ids=[lines[-40:] for lines, _ in ERRORS])
def test_an_instruction_that_raises(lines: str, wanted: str) -> None:
    """The error has this name; operands of a wrong kind are a BadProgram."""
    assert error(*lines.split("; "))[0] == wanted


def test_loops_count_from_zero() -> None:
    """NEXT walks a list and counts its rounds up from -1."""
    lines = "CONST 1 #[5,6]; CONST 2 #-1; CONST 0 #[]; top: NEXT 3 1 2 @end; LIST 4 [2,3]"
    more = "LIST 4 [4]; ADD 0 0 4; JUMP @top; end: MOVE 0 0"
    assert value(*lines.split("; "), *more.split("; ")) == [[0, 5], [1, 6]]


def test_round_lets_as_many_rounds_as_its_limit() -> None:
    """The round after the last raises LimitReached."""
    lines = ("CONST 0 #-1", "CONST 1 #3", "top: ROUND 0 1", "JUMP @top", "end: MOVE 0 0")
    handlers = (("top", "end", "end", ("LimitReached",), -1, 0),)
    assert value(*lines, handlers=handlers) == 2


def test_calls_give_back_to_their_register() -> None:
    """Arguments become the first registers of the called function."""
    twice = Code("twice", ("ADD 1 0 0", "RETURN 1"), params=(INT,))
    main = Code("main", ("CONST 1 #21", "CALL 0 $twice [1] *", "RETURN 0"))
    assert same_in_pieces(assemble(main, twice)).step.value == 42


def test_host_calls_wait_for_their_answer() -> None:
    """The want carries JSON, the rights of the function and a ticket by place."""
    ran = same_in_pieces(program("CONST 1 #[1]", 'HOST 0 #"file::read" [1] *', "RETURN 0"))
    assert ran.requests == [CallHost("main:0", "file::read", ([1],), 0)]
    assert ran.step.value == [1]


def test_print_does_not_wait() -> None:
    """The text of the value goes out."""
    ran = same_in_pieces(program('CONST 1 #{"$":"money","of":1500000000}', "PRINT 1 *", "RETURN 0"))
    assert ran.requests == [Print("main:0", "$1.50")]


def test_sends_are_futures() -> None:
    """Two sends are out before the first is forced; the tickets say where they stand."""
    lines = (
        'AGENT 1 #"A"',
        'CONST 2 #"hi"',
        'CONST 3 #{"$":"duration","of":30000}',
        'CONST 4 #{"$":"money","of":5}',
        "ISSUE_SEND 5 1 2 -1 3 4 *",
        "ISSUE_SEND 6 1 2 -1 -1 -1 *",
        "FORCE 5 5",
        "FORCE 6 6",
        "ADD 0 5 6",
        "RETURN 0",
    )
    ran = same_in_pieces(program(*lines))
    first = SendTo("main:0", "A", "hi", agent=True, timeout_ms=30_000, budget=5)
    assert ran.requests == [first, SendTo("main:1", "A", "hi", agent=True)]
    assert ran.step.value == "hihi"


def test_typed_answers_must_fit() -> None:
    """The type goes out with the send; an answer of another shape is ContractViolated."""
    lines = ('AGENT 1 #"A"', 'CONST 2 #"hi"', "ISSUE_SEND 0 1 2 !ints -1 -1 *", "FORCE 0 0")
    module = program(*lines, "RETURN 0", types=TYPES)
    good = same_in_pieces(module, host=lambda _: [1, 2])
    assert (good.step.value, good.requests[0].answer) == ([1, 2], TYPES["ints"])  # type: ignore[union-attr]
    bad = same_in_pieces(module, host=lambda _: "x")
    assert bad.step.error is not None
    assert bad.step.error.error == "ContractViolated"


def test_spawned_processes_end_with_the_call() -> None:
    """A process that is neither returned, named nor linked is dropped when the function returns."""
    lines = ('AGENT 1 #"A"', "SPAWN_SUPERVISED 2 1 -1 -1 -1 #null *", "FORCE 2 2", "RETURN 0")
    ran = same_in_pieces(program(*lines))
    assert ran.requests == [SpawnAgent("main:0", "A"), EndProcesses(("/A",))]


def test_named_processes_live_on() -> None:
    """Wallet, name, supervisor and rules go out; what has a name is not dropped."""
    lines = (
        'AGENT 1 #"A"',
        'CONST 2 #{"$":"money","of":5}',
        'CONST 3 #"boss"',
        'AGENT 4 #"Team"',
        'SPAWN_SUPERVISED 5 1 2 3 4 #{"max_restarts":3} *',
        "FORCE 5 5",
        "RETURN 0",
    )
    ran = same_in_pieces(program(*lines))
    assert ran.requests == [SpawnAgent("main:0", "A", 5, "boss", "Team", {"max_restarts": 3})]


def test_linked_processes_live_on() -> None:
    """A link is a reason to stay."""
    spawn = "SPAWN_SUPERVISED {0} 1 -1 -1 -1 #null *; FORCE {0} {0}"
    lines = ('AGENT 1 #"A"', *spawn.format(2).split("; "), *spawn.format(3).split("; "))
    ran = same_in_pieces(program(*lines, "LINK 2 3", "RETURN 0"), host=lambda w: f"/{w.ticket}")  # type: ignore[union-attr]
    assert ran.requests[2:] == [LinkBoth("/main:0", "/main:1")]


def test_a_monitor_runs_when_the_process_is_gone() -> None:
    """Beside the program, with the reason, on a copy of the registers."""
    ran = same_in_pieces(_monitored(), host=lambda w: f"gone {type(w).__name__}")
    assert ran.requests == [
        SpawnAgent("main:0", "A"),
        Watch("main:1", "gone SpawnAgent"),
        CallHost("main:3", "process::yield", (), 0),
        Print("main:2", "gone Watch"),
        EndProcesses(("gone SpawnAgent",)),
    ]


def test_a_monitor_ends_with_its_call() -> None:
    """Nobody waits for the watch when the function has returned."""

    def host(request: object) -> object:
        return never if isinstance(request, Watch) else "x"

    assert CancelRequest("main:1") in same_in_pieces(_monitored(), host=host).requests


def _monitored() -> Any:
    return program(
        'AGENT 1 #"A"',
        "SPAWN_SUPERVISED 2 1 -1 -1 -1 #null *",
        "FORCE 2 2",
        "MONITOR 3 2 @after *",
        "PRINT 3 *",
        "TASK_END",
        'after: HOST 0 #"process::yield" [] *',
        "RETURN 0",
    )


def test_exit_ends_the_process() -> None:
    """With its reason, after all that was open is closed."""
    ran = same_in_pieces(program('CONST 1 #"done"', "EXIT 1", "RETURN 0"))
    assert (ran.step.status, ran.requests) == (Status.EXITED, [End("done")])


STREAMED = (
    'AGENT 1 #"A"',
    'CONST 2 #"hi"',
    'CONST 0 #""',
    "SEND_STREAM 3 1 2 -1 -1 -1 *",
    "top: STREAM_DONE 4 3",
    "JUMP_IF 4 @end",
    "STREAM_NEXT 5 3",
    "ADD 0 0 5",
    "JUMP @top",
    "end: RETURN 0",
)


def test_streams_come_in_chunks() -> None:
    """Until the end, and the chunks before an error are seen before it."""
    module = program(*STREAMED)
    ran = same_in_pieces(module, host=lambda _: Streams(("a", "b")))
    assert ran.requests == [SendTo("main:0", "A", "hi", agent=True, stream=True)]
    assert ran.step.value == "ab"
    caught = program(*STREAMED, handlers=(("top", "end", "end", ("Timeout",), -1, 0),))
    assert same_in_pieces(caught, host=lambda _: Streams(("a",), "Timeout")).step.value == "a"


def test_past_its_end_a_stream_has_nothing() -> None:
    """STREAM_NEXT raises there."""
    lines = (*STREAMED[:4], "STREAM_NEXT 0 3", "STREAM_NEXT 0 3", "RETURN 0")
    ran = same_in_pieces(program(*lines), host=lambda _: Streams(("a",)))
    assert ran.step.error is not None
    assert ran.step.error.error == "IndexError"


def test_budget_scopes_nest() -> None:
    """Each is opened inside the present one, what is asked in it names it, and it is closed."""
    lines = (
        'CONST 1 #{"$":"money","of":5}',
        'BUDGET_ENTER 1 #{"on_exceed":"ask"} *',
        "BUDGET_ENTER 1 #{} *",
        "BUDGET_CHECK 0 1 *",
        "BUDGET_EXIT",
        "BUDGET_EXIT",
        "RETURN 0",
    )
    ran = same_in_pieces(program(*lines))
    assert ran.requests == [
        OpenScope("main:0", 5, settings={"on_exceed": "ask"}),
        OpenScope("main:1", 5, inside="main:0"),
        AskBudget("main:2", 1, "main:1"),
        CloseScope("main:1"),
        CloseScope("main:0"),
    ]
    assert ran.step.value == {"$": "money", "of": 2_000_000_000}


def test_a_refused_budget_raises_where_it_is_entered() -> None:
    """The scope is not open then."""
    lines = ('CONST 1 #{"$":"money","of":5}', "BUDGET_ENTER 1 #null *", "RETURN 0")
    ran = same_in_pieces(program(*lines), host=lambda _: Fails("BudgetExceeded"))
    assert ran.step.error is not None
    assert ran.step.error.error == "BudgetExceeded"
    assert len(ran.requests) == 1


PARALLEL = (
    'AGENT 1 #"A"',
    "PAR_BEGIN 2",
    "PAR_SPAWN 2 @one [3]",
    "PAR_SPAWN 2 @two [4]",
    "PAR_JOIN 2",
    "end: LIST 0 [3,4]",
    "RETURN 0",
    'one: CONST 5 #"1"',
    "ISSUE_SEND 3 1 5 -1 -1 -1 *",
    "FORCE 3 3",
    "TASK_END",
    'two: CONST 5 #"2"',
    "ISSUE_SEND 4 1 5 -1 -1 -1 *",
    "FORCE 4 4",
    "TASK_END",
)


def test_tasks_run_side_by_side() -> None:
    """Both sends are out before either is answered; the listed registers come back."""
    ran = same_in_pieces(program(*PARALLEL))
    assert [request.ticket for request in ran.requests] == ["main:0", "main:1"]  # type: ignore[union-attr]
    assert ran.step.value == ["1", "2"]
