"""Small programs that together use every instruction, for tests that need some program."""

from tests.vm.assembling import Code, assemble
from vegakit.lang.codegen.bytecode import Module
from vegakit.lang.types import INT, STR, ListOf, OptionalOf, RecordOf, Type

__all__ = ["SAMPLES"]

_TYPES: dict[str, Type] = {
    "Finding": RecordOf("Finding", (("file", STR), ("note", OptionalOf(STR)))),
    "strs": ListOf(STR, 20),
}

_FACTORIAL = Code(
    "factorial",
    (
        "CONST 1 #1",
        "LE 2 0 1",
        "JUMP_IF 2 @one",
        "SUB 3 0 1",
        "CALL 3 $factorial [3] *",
        "MUL 1 0 3",
        "one: RETURN 1",
    ),
    params=(INT,),
)

_VALUES = Code(
    "main",
    (
        "CONST 1 #5",
        "CALL 0 $factorial [1] *",
        "CONST 2 #7",
        "DIV 3 0 2",
        "MOD 4 0 2",
        "NEG 5 4",
        "LIST 6 [3,4,5]",
        'CONST 7 #"k"',
        "MAP 8 [7,6]",
        'FIELD 9 8 #"k"',
        'WITH_FIELD 8 8 #"k" 3',
        "WITH_INDEX 8 8 7 6",
        "CONST 10 #0",
        "INDEX 11 9 10",
        "WITH_INDEX 9 9 10 2",
        "EQ 12 11 3",
        "NE 13 11 4",
        "NOT 13 13",
        "IN 14 2 9",
        "PAIRS 15 8",
        "TEXT 7 [7,6,8,12,13,14,15]",
        "CONST 3 #null",
        "RECORD 3 !Finding [7,3]",
        "CAST 3 3 !Finding",
        "JUMP_IF_NULL 3 @end",
        'LIBRARY 5 #"str::split" [7,7]',
        "LIST 5 [3,5]",
        "end: RETURN 5",
    ),
)

_LOOPS = Code(
    "main",
    (
        'AGENT 1 #"A"',
        'CONST 2 #["a","b","c"]',
        "CONST 0 #[]",
        "ITEMS 2 2",
        "CONST 3 #-1",
        "top: NEXT 4 2 3 @after",
        "try: ISSUE_SEND 5 1 4 -1 -1 -1 *[3]",
        "FORCE 5 5",
        "CONST 6 #-1",
        "CONST 7 #2",
        "again: ROUND 6 7",
        "LIST 8 [4,5,6]",
        "ADD 0 0 8",
        "PRINT 0 *[3,6]",
        "JUMP @again",
        "caught: TEXT 8 [9,4]",
        "LIST 8 [8]",
        "ADD 0 0 8",
        "JUMP @top",
        "after: CONST 9 #1",
        "LIST 9 [9,0]",
        "LT 10 6 3",
        'CONST 11 #"why"',
        "JUMP_IF 10 @end",
        'RAISE #"Failed" 11',
        "end: RETURN 0",
    ),
    handlers=(("try", "caught", "caught", ("LimitReached", "AgentFailed"), 9, 0),),
)

_PROCESSES = Code(
    "main",
    (
        'CONST 1 #{"$":"money","of":2000000000}',
        'BUDGET_ENTER 1 #{"on_exceed":"ask"} *',
        'AGENT 2 #"A"',
        "SPAWN_SUPERVISED 3 2 1 -1 -1 #null *",
        'SPAWN_SUPERVISED 4 2 -1 -1 -1 #{"max_restarts":3} *',
        "FORCE 3 3",
        "FORCE 4 4",
        "LINK 3 4",
        "MONITOR 5 3 @after *",
        "PRINT 5 *",
        "TASK_END",
        "after: BUDGET_CHECK 6 0 *",
        "BUDGET_RESERVE 6 6",
        'CONST 7 #"hi"',
        'CONST 8 #{"$":"duration","of":30000}',
        "SEND_STREAM 9 3 7 -1 8 6 *",
        'CONST 0 #""',
        "more: STREAM_DONE 10 9",
        "JUMP_IF 10 @done",
        "STREAM_NEXT 10 9",
        "ADD 0 0 10",
        "JUMP @more",
        'done: HOST 10 #"process::yield" [] *',
        "BUDGET_EXIT",
        "EQ 10 0 7",
        "JUMP_IF_NOT 10 @end",
        "EXIT 0",
        "end: RETURN 0",
    ),
)

_PARALLEL = Code(
    "main",
    (
        'AGENT 1 #"A"',
        'CONST 6 #"start"',
        "try: PAR_BEGIN 2",
        "PAR_SPAWN 2 @one [3]",
        "PAR_SPAWN 2 @two [4,6]",
        "PAR_SPAWN 2 @three [5]",
        "PAR_JOIN 2",
        "end: LIST 0 [3,4,5,6,7]",
        "RETURN 0",
        'one: CONST 8 #"1"',
        "ISSUE_SEND 3 1 8 -1 -1 -1 *",
        "FORCE 3 3",
        "TASK_END",
        'two: CONST 8 #["2"]',
        "ISSUE_SEND 4 1 8 !strs -1 -1 *",
        "FORCE 4 4",
        "MOVE 6 8",
        "TASK_END",
        "three: CONST 8 #4",
        "CALL 5 $factorial [8] *",
        "TASK_END",
    ),
    handlers=(("try", "end", "end", (), 7, 0),),
)

_RACE = Code(
    "main",
    (
        'AGENT 1 #"A"',
        "RACE_BEGIN 2",
        "PAR_SPAWN 2 @one [3]",
        "PAR_SPAWN 2 @two [3]",
        "PAR_JOIN 2",
        "RETURN 3",
        'one: CONST 8 #"1"',
        "ISSUE_SEND 3 1 8 -1 -1 -1 *",
        "FORCE 3 3",
        "JUMP @won",
        'two: CONST 8 #"2"',
        "ISSUE_SEND 3 1 8 -1 -1 -1 *",
        "FORCE 3 3",
        'CONST 8 #"no"',
        "NE 9 3 8",
        "JUMP_IF 9 @won",
        "TASK_END",
        "won: RACE_WON *",
    ),
)

SAMPLES: dict[str, Module] = {
    "values": assemble(_VALUES, _FACTORIAL, types=_TYPES),
    "loops": assemble(_LOOPS, types=_TYPES),
    "processes": assemble(_PROCESSES, types=_TYPES),
    "parallel": assemble(_PARALLEL, _FACTORIAL, types=_TYPES),
    "race": assemble(_RACE, types=_TYPES),
}
