"""Fuel is exact, given in slices, and the end of it cannot be caught. Sizes are bounded."""

import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.vm.assembling import Code, assemble, program
from tests.vm.snapshots import run, same_in_pieces
from vegakit.lang import INT, Module
from vegakit.vm import Status, Vm, start, text_of
from vegakit.vm.state import VmLimits
from vegakit.vm.values import items_of

LOOP = ("CONST 1 #1", "top: ADD 0 0 1", "JUMP @top", "end: RETURN 0")


def looping() -> Module:
    return program(*LOOP, params=(INT,))


def test_one_instruction_costs_one() -> None:
    """A run stops after exactly as many as it was given."""
    vm = Vm(looping(), start(looping(), 0, [0]))
    for used in range(1, 10):
        assert vm.run(1).status is Status.RUNNING
        assert vm.state.fuel_used == used
    vm.run(1_000)
    assert (vm.state.fuel_used, vm.state.tasks["main"].frames[0].registers[0]) == (1_009, 504)


def test_no_fuel_no_step() -> None:
    """A run without fuel changes nothing."""
    vm = Vm(looping(), start(looping(), 0, [0]))
    vm.run(0)
    assert (vm.state.fuel_used, vm.state.tasks["main"].frames[0].pc) == (0, 0)


def test_the_last_drop_is_used() -> None:
    """A program that needs 3 ends with 3 and not with 2."""
    module = program("CONST 0 #1", "CONST 0 #2", "RETURN 0")
    assert run(module, limits=VmLimits(total_fuel=3)).step.value == 2
    short = run(module, limits=VmLimits(total_fuel=2))
    assert short.step.error is not None
    assert (short.step.error.error, short.fuel) == ("FuelExhausted", 2)


def test_exhaustion_cannot_be_caught() -> None:
    """A handler for everything does not see it."""
    module = program(*LOOP, params=(INT,), handlers=(("top", "end", "end", (), -1, 0),))
    ran = run(module, [0], limits=VmLimits(total_fuel=100))
    assert ran.step.error is not None
    assert (ran.step.error.error, ran.step.error.stack[0][0]) == ("FuelExhausted", "main")


def test_waiting_costs_nothing_more() -> None:
    """An instruction that waited costs one, as one that did not have to."""
    lines = ('AGENT 1 #"A"', 'CONST 2 #"x"', "ISSUE_SEND 3 1 2 -1 -1 -1 *")
    soon = program(*lines, "FORCE 3 3", "RETURN 3")
    late = program(*lines, 'HOST 4 #"y" [] *', "FORCE 3 3", "RETURN 3")
    assert (run(soon).fuel, run(late).fuel) == (5, 6)


@pytest.mark.parametrize(
    ("lines", "least"),
    [
        ('CONST 1 #"x"; CONST 2 #64000; LIBRARY 0 #"str::repeat" [1,2]', 1_000),
        ('CONST 1 #"x"; CONST 2 #64000; LIBRARY 0 #"str::repeat" [1,2]; ADD 0 0 0', 2_000),
        ('CONST 1 #64000; CONST 2 #null; LIBRARY 0 #"range" [1,2]', 1_000),
        ('CONST 1 #64000; CONST 2 #null; LIBRARY 0 #"range" [1,2]; TEXT 0 [0]', 2_000),
    ],
)
def test_large_values_cost_more(lines: str, least: int) -> None:
    """In proportion to their size."""
    ran = run(program(*lines.split("; "), "RETURN 1"))
    assert least <= ran.fuel < 20 * least


CHUNKS = (
    'CONST 1 #64000; CONST 2 #1; CONST 3 #null; LIBRARY 0 #"range" [1,3]; '
    'LIBRARY 0 #"list::chunks" [0,2]'
)


@pytest.mark.parametrize(
    ("lines", "least"),
    [
        ('CONST 1 #"[%s1]"; LIBRARY 0 #"json::parse" [1]' % ("1," * 32_000), 16_000),
        ('CONST 1 #64000; CONST 2 #null; LIBRARY 0 #"range" [1,2]; LIBRARY 0 #"str" [0]', 24_000),
        ('CONST 1 #64000; CONST 2 #null; LIBRARY 0 #"range" [1,2]; TEXT 0 [0]', 24_000),
        ('CONST 1 #64000; CONST 2 #null; LIBRARY 0 #"range" [1,2]; PAIRS 0 0', 64_000),
        ('CONST 1 #64000; CONST 2 #null; LIBRARY 0 #"range" [1,2]; EQ 0 0 0', 24_000),
        (
            CHUNKS + '; LIBRARY 0 #"list::unique" [0]',
            200_000,
        ),
    ],
    ids=["json::parse", "str", "text", "pairs", "equal", "unique"],
)
def test_what_is_done_item_by_item_costs_fuel_for_each(lines: str, least: int) -> None:
    """A slice of fuel is a few milliseconds: many calls of such functions fitted into one, and all
    others waited for seconds."""
    assert run(program(*lines.split("; "), "RETURN 1"), fuel=10**9).fuel >= least


def test_the_text_of_a_long_list_takes_little_longer_than_its_json() -> None:
    """One instruction makes it, and nothing else goes on meanwhile: it took a hundred times as
    long."""
    items = items_of(range(90_000))

    def cpu(do: Callable[[Any], object], given: object) -> float:
        began = time.process_time()
        do(given)
        return time.process_time() - began

    plain = min(cpu(msgspec.json.encode, [*items]) for _ in range(5))
    assert min(cpu(text_of, items) for _ in range(5)) < 15 * plain


GROWING = {
    "text": (('CONST 0 #"ab"', "top: ADD 0 0 0", "JUMP @top"), "10,000,000 characters"),
    "list": (("CONST 0 #[1]", "top: ADD 0 0 0", "JUMP @top"), "1,000,000 items"),
    "shared": (("CONST 0 #[1]", "top: LIST 0 [0,0]", "JUMP @top"), "items in all"),
    "deep": (("CONST 0 #[1]", "top: LIST 0 [0]", "JUMP @top"), "100 deep"),
    "spelled": (("CONST 0 #[1]", "top: TEXT 0 [0,0]", "JUMP @top"), "10,000,000 characters"),
    "pairs": (("CONST 0 #[1]", "top: PAIRS 0 0", "LIST 0 [0,0]", "JUMP @top"), "items in all"),
}


@pytest.mark.parametrize("name", GROWING)
def test_values_do_not_grow_without_end(name: str) -> None:
    """Doubling soon meets LimitReached, also where only references are doubled."""
    ran = run(program(*GROWING[name][0], "RETURN 0"), fuel=10**9)
    assert ran.step.error is not None
    assert ran.step.error.error == "LimitReached"
    assert GROWING[name][1] in ran.step.error.reason


def test_many_references_to_one_large_value_end_the_program() -> None:
    """Written down they would be large each; this cannot be caught."""
    lines = ('CONST 1 #"x"', "CONST 2 #9000000", 'LIBRARY 0 #"str::repeat" [1,2]')
    moves = [f"MOVE {at} 0" for at in range(3, 16)]
    vm = Vm(
        module := program(*lines, *moves, "top: JUMP @top", "RETURN 0"),
        start(module, 0, (), VmLimits()),
    )
    vm.run(2_000_000)
    assert vm.written().error == vm.run(1).error
    assert vm.state.error is not None
    assert vm.state.error.error == "LimitReached"


def test_variables_are_limited() -> None:
    """All live calls together have so many registers and no more."""
    f = Code("f", ("CALL 0 $f [] *", "RETURN 0"), registers=10)
    main = Code("main", ("CALL 0 $f [] *", "RETURN 0"), registers=10)
    ran = same_in_pieces(assemble(main, f), limits=VmLimits(registers=100))
    assert ran.step.error is not None
    assert len(ran.step.error.stack) == 10
