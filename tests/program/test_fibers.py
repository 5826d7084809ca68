"""Compiled programs as fibers of the program machine: turns, state, and what may not change."""

from dataclasses import replace

import pytest

from tests.program.compiled import code_of
from tests.program.rooms import Room, says
from vegakit.effects import SetTimer
from vegakit.errors import ProgramChanged
from vegakit.events import Answered
from vegakit.program import Bounds, Machine, Post, ProcessMessage, Program
from vegakit.records import from_json, to_json
from vegakit.vm import Vm

ENDLESS = "fn main() { let n = 0; while true { n = (n + 1) % 1000; } }"
SUM = "fn main(a: int, b: int) -> int { return a + b; }"
SPAWNS = """agent A { model fast }
fn many() -> int { let ps = [for i in range(600) { spawn A }]; return len(ps); }
fn main() -> int { return many(); }"""
SENDS = 'agent A { model fast }\nfn main() -> str { let x = A <- "one"; return x + (A <- "two"); }'


def test_an_endless_loop_leaves_room_for_others() -> None:
    """A step burns one slice of it; then others have their turn, however often it is woken."""
    room = Room({**code_of(SUM), "endless": code_of(ENDLESS)["main"]})
    room.ask(room.spawn("endless"), [])
    for _ in range(5):
        room.answer(Answered(None), room.only(SetTimer))
    told = room.ask(room.spawn("main"), [2, 3])
    assert room.told(told) == 5


def test_a_machine_that_is_alive_is_written_as_it_stands() -> None:
    """Nothing is packed while nobody writes the state down; nothing is missing when one does."""
    code = code_of(SENDS)
    room = Room(code)
    path = room.spawn("main")
    room.machine.step(Post(path, ProcessMessage([], "1")), 0)
    [fiber] = (room.state.processes[path].fibers or {}).values()
    assert isinstance(fiber.vm, Vm)
    written = from_json(Program, to_json(room.state))
    assert to_json(written) == to_json(room.state)


def test_many_processes_end_in_several_steps_before_what_follows() -> None:
    """Of what a call spawned a step ends a part; whoever writes the state down meanwhile goes on
    with the rest, and nobody hears of the call before all have ended."""
    room = Room(code_of(SPAWNS), Bounds(living=1_000, width=1_000))
    path = room.spawn("main")
    asked = room.ask(path, [])
    ended: list[int] = []
    while asked not in room.answers:
        before = len(room.state.processes)
        room.answer(Answered(None), room.only(SetTimer))
        ended.append(before - len(room.state.processes))
    assert len(room.state.processes) == 1
    assert room.told(asked) == 600
    assert max(ended) <= 150
    assert sum(one > 0 for one in ended) >= 4


def test_a_source_that_changed_meanwhile_is_told() -> None:
    """Its instructions are others: a run that was written down cannot go on with them."""
    code = code_of(SENDS)
    room = Room({**code, "main": replace(code["main"], digest="before")})
    room.ask(room.spawn("main"), [])
    room.machine = Machine(room.state, {**code, "main": replace(code["main"], digest="after")})
    with pytest.raises(ProgramChanged, match="its source was another"):
        room.answer(says("x"))
