"""The verifier: it passes what the compiler makes, and names what is wrong with anything else."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tests.vm.assembling import Code, assemble, program
from tests.vm.samples import SAMPLES
from vegakit.lang import (
    INT,
    STR,
    CompiledTool,
    Handler,
    ListOf,
    Module,
    Op,
    OptionalOf,
    Plain,
    RecordOf,
    Type,
)
from vegakit.lang.codegen.bytecode import CallSite
from vegakit.lang.codegen.verifier import verify

TYPES: dict[str, Type] = {"R": RecordOf("R", (("a", INT),)), "int": INT}
GOOD = program(
    "CONST 0 #1",
    'CONST 1 #"x"',
    'HOST 2 #"file::read" [1] *',
    "JUMP @end",
    "end: RETURN 0",
    types=TYPES,
)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_good_module_passes(name: str) -> None:
    """Nothing is wrong with the samples."""
    assert verify(SAMPLES[name]) == []


def with_row(*row: Any) -> Module:
    """The first instruction is this one."""
    function = GOOD.functions[0]
    return replace(GOOD, functions=(replace(function, code=(row, *function.code[1:])),))


ROWS: list[tuple[tuple[Any, ...], str]] = [
    ((), "unknown number None"),
    ((0,), "unknown number 0"),
    (("CONST", 0, 0), "unknown number CONST"),
    ((True, 0, 0), "unknown number True"),
    ((1.0, 0, 0), "unknown number 1.0"),
    (([], 0, 0), "unknown number []"),
    ((Op.CONST, 0), "CONST has 1 operands instead of 2"),
    ((Op.CONST, 0, 0, 0), "CONST has 3 operands instead of 2"),
    ((Op.CONST, 16, 0), "CONST has a wrong operand w: 16"),
    ((Op.CONST, -1, 0), "CONST has a wrong operand w: -1"),
    ((Op.CONST, True, 0), "CONST has a wrong operand w: True"),
    ((Op.CONST, 0, 3), "CONST has a wrong operand k: 3"),
    ((Op.MOVE, 0, 1.0), "MOVE has a wrong operand r: 1.0"),
    ((Op.ROUND, 0, -2), "ROUND has a wrong operand o: -2"),
    ((Op.LIST, 0, 1), "LIST has a wrong operand rs: 1"),
    ((Op.LIST, 0, [16]), "LIST has a wrong operand rs: [16]"),
    ((Op.LIST, 0, [[1]]), "LIST has a wrong operand rs: [[1]]"),
    ((Op.PAR_SPAWN, 0, 0, [16]), "PAR_SPAWN has a wrong operand ws: [16]"),
    ((Op.JUMP, 5), "JUMP has a wrong operand j: 5"),
    ((Op.JUMP, -1), "JUMP has a wrong operand j: -1"),
    ((Op.CALL, 0, 1, [], 0), "CALL has a wrong operand f: 1"),
    ((Op.CALL, 0, 0, [], 1), "CALL has a wrong operand s: 1"),
    ((Op.CALL, 0, 0, [1], 0), "CALL has operands that do not belong together"),
    ((Op.CAST, 0, 0, 2), "CAST has a wrong operand t: 2"),
    ((Op.CAST, 0, 0, -2), "CAST has a wrong operand t: -2"),
    ((Op.BUDGET_CHECK, 0, 3, 0), "BUDGET_CHECK has operands that do not belong together"),
    ((Op.BUDGET_CHECK, 0, -1, 0), "BUDGET_CHECK has a wrong operand n: -1"),
    ((Op.RECORD, 0, 1, [0]), "RECORD has operands that do not belong together"),
    ((Op.RECORD, 0, -1, [0]), "RECORD has operands that do not belong together"),
    ((Op.RECORD, 0, 0, [0, 0]), "RECORD has operands that do not belong together"),
    ((Op.MAP, 0, [0]), "MAP has operands that do not belong together"),
    ((Op.AGENT, 0, 0), "AGENT has operands that do not belong together"),
    ((Op.FIELD, 0, 0, 0), "FIELD has operands that do not belong together"),
    ((Op.WITH_FIELD, 0, 0, 0, 0), "WITH_FIELD has operands that do not belong together"),
    ((Op.HOST, 0, 0, [], 0), "HOST has operands that do not belong together"),
    ((Op.LIBRARY, 0, 1, []), "LIBRARY has operands that do not belong together"),
    ((Op.LIBRARY, 0, 2, [1]), "LIBRARY has operands that do not belong together"),
    ((Op.RAISE, 1, 0), "RAISE has operands that do not belong together"),
    ((Op.BUDGET_ENTER, 0, 1, 0), "BUDGET_ENTER has operands that do not belong together"),
    (
        (Op.SPAWN_SUPERVISED, 0, 0, -1, -1, -1, 1, 0),
        "SPAWN_SUPERVISED has operands that do not belong together",
    ),
]


@pytest.mark.parametrize(("row", "problem"), ROWS, ids=[str(row) for row, _ in ROWS])
def test_a_wrong_instruction_is_named(row: tuple[Any, ...], problem: str) -> None:
    """With its number and what is wrong with it."""
    prefix = f"function 'main': instruction 0 {problem}"
    if "unknown" in problem:
        prefix = f"function 'main': instruction 0 has the {problem}"
    assert verify(with_row(*row)) == [prefix]


def _changed(**fields: Any) -> Module:
    return replace(GOOD, functions=(replace(GOOD.functions[0], **fields),))


def _handled(**fields: Any) -> Module:
    handler = replace(Handler(0, 1, 4, (), 0, 0), **fields)
    return _changed(handlers=(handler,))


def _tool(**fields: Any) -> Module:
    return replace(GOOD, tools=(replace(CompiledTool("t", 0, "", (), STR, 0), **fields),))


WRONG: dict[str, tuple[Callable[[], Module], str]] = {
    "main": (lambda: replace(GOOD, main=1), "main is function 1 of 1"),
    "no code": (lambda: _changed(code=(), lines=()), "does not end"),
    "falls off": (lambda: _changed(code=GOOD.functions[0].code[:2], lines=(1, 2)), "does not end"),
    "lines": (lambda: _changed(lines=(1,)), "has its line"),
    "line": (lambda: _changed(lines=(-1, 1, 1, 1, 1)), "has its line"),
    "name": (lambda: _changed(name=""), "a name has"),
    "long name": (lambda: _changed(name="x" * 201), "a name has"),
    "registers": (lambda: _changed(registers=65_537), "too few or too many"),
    "parameters": (lambda: _changed(params=(INT,) * 17), "too few or too many"),
    "parameter": (lambda: _changed(params=(Plain("nonsense"),)), "cannot be"),
    "rights": (lambda: _changed(rights=1), "rights 1 are not there"),
    "sites": (lambda: _changed(sites=(CallSite(0, (), 1, 1),) * 2), "two sites"),
    "site": (lambda: _changed(sites=(CallSite(0, (16,), 1, 1),)), "counts in registers"),
    "negative site": (lambda: _changed(sites=(CallSite(-1, (), 1, 1),)), "counts in registers"),
    "handler": (lambda: _handled(end=6), "covers or jumps"),
    "empty handler": (lambda: _handled(start=1), "covers or jumps"),
    "target": (lambda: _handled(target=5), "covers or jumps"),
    "kinds": (lambda: _handled(kinds=("FuelExhausted",)), "cannot be caught"),
    "reason": (lambda: _handled(reason=16), "no register"),
    "scopes": (lambda: _handled(scopes=-1), "no register"),
    "handlers": (lambda: _changed(handlers=(Handler(0, 1, 4, (), 0, 0),) * 1_001), "1,000"),
    "tool": (lambda: _tool(function=1), "is no function"),
    "tool parameters": (lambda: _tool(params=(("a", INT),)), "other parameters"),
    "tool rights": (lambda: _tool(rights=5), "rights that are not there"),
    "tool type": (lambda: _tool(result=Plain("x")), "cannot be"),
    "record": (lambda: replace(GOOD, types=(RecordOf("R", (("a", INT),) * 2),)), "two fields"),
    "bound": (lambda: replace(GOOD, types=(ListOf(INT, -1),)), "negative bound"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named(name: str) -> None:
    """Wherever it is in the module."""
    module, problem = WRONG[name]
    assert problem in verify(module())[0]


@pytest.mark.parametrize(
    "constant",
    [
        2**63,
        float("inf"),
        b"x",
        {"$": "process", "of": "/a"},
        {"$": "future", "of": "t"},
        {"$": "stream", "of": "t"},
        {"$": "money", "of": "x"},
        {"$": "money", "of": True},
        {"$": "money"},
        {"$": "money", "of": 2**63},
        {"$": "map", "of": [["a"]]},
        {"$": "map", "of": [["a", 2**63]]},
        {"a": [{"$": 5}]},
        {5: 5},
        "x" * 10_000_001,
    ],
    ids=[f"constant{at}" for at in range(15)],
)
def test_a_constant_is_a_value_one_can_write(constant: Any) -> None:
    """Handles, futures and streams come only from running."""
    assert verify(replace(GOOD, constants=(*GOOD.constants, constant)))[0].startswith("constant 3 ")


def test_nesting_is_bounded() -> None:
    """Of constants and of types."""
    constant: Any = 1
    kind: Type = INT
    for _ in range(100):
        constant, kind = [constant], OptionalOf(kind)
    assert verify(replace(GOOD, constants=(*GOOD.constants, constant), types=(kind,))) == []
    deeper = replace(GOOD, constants=(*GOOD.constants, [constant]), types=(OptionalOf(kind),))
    assert [problem[:10] for problem in verify(deeper)] == ["constant 3", "type 0 is "]


def test_at_most_a_hundred_problems_are_told() -> None:
    """A bomb of problems is cut."""
    code = Code("main", ("RETURN 0",))
    module = assemble(code)
    rows = ((99,),) * 1_000 + module.functions[0].code
    function = replace(module.functions[0], code=rows, lines=(1,) * 1_001)
    assert len(verify(replace(module, functions=(function,)))) == 100


def test_the_whole_is_bounded() -> None:
    """A million instructions are too many."""
    row = GOOD.functions[0].code[0]
    assert verify(_changed(code=(row,) * 1_000_001))[0] == "it has more than 1,000,000 instructions"


@pytest.mark.parametrize("names", [("a",), ("a", "a"), ("a", "b c"), ("a", "b", "c")])
def test_parameters_have_each_a_name_or_none_has(names: tuple[str, ...]) -> None:
    """Arguments are given by them."""
    kinds = {"params": (INT, INT)}
    assert verify(_changed(**kinds, names=("a", "b"))) == verify(_changed(**kinds)) == []
    [problem] = verify(_changed(**kinds, names=names))
    assert "have not each a name of their own" in problem
