"""Sends of compiled programs wait for money that others of the program hold, first come first
served, and never for ever."""

from typing import Any

from tests.program.compiled import code_of
from tests.program.rooms import CENT, Room, says
from vegakit.effects import CallModel
from vegakit.errors import BudgetExceeded
from vegakit.money import Money
from vegakit.program import MessageFailed

FAN = """
agent A { model fast }
fn main() -> [str] {
    let asked = [for i in range(5) { async A <- "{i}" }];
    return [for future in asked { await future }];
}
"""
MIXED = """
agent A { model fast }
fn main() -> [str] {
    let first = async A <- "first";
    let second = async A <- "second" budget $0.05;
    let third = async A <- "third";
    return [await first, await second, await third];
}
"""
STUCK = """
agent A { model fast }
fn main() -> str {
    let first = async A <- "first";
    let second = async A <- "second";
    session budget $0.015 { return "{await first} {await second}"; }
}
"""


def begun(text: str, cents: float) -> tuple[Room, str]:
    """Run a program with so much money; each call may cost two cents."""
    code = code_of(text)
    room = Room(code)
    return room, room.ask(room.spawn("main", wallet=Money(int(cents * CENT))), [])


def in_flight(room: Room) -> list[Any]:
    return [one for one in room.in_flight.values() if isinstance(one.request, CallModel)]


def said(effect: Any) -> str:
    return effect.request.request.messages[-1].parts[0].text


def test_a_send_waits_until_others_of_its_program_settle() -> None:
    room, ask = begun(FAN, 6)
    orders: list[list[str]] = []
    while calls := in_flight(room):
        orders.append([said(call) for call in calls])
        room.answer(says(said(calls[0])), calls[0])
    assert room.told(ask) == ["0", "1", "2", "3", "4"]
    assert orders[0] == ["0", "1", "2"]
    assert [order[0] for order in orders] == ["0", "1", "2", "3", "4"]


def test_money_that_is_spent_is_not_waited_for() -> None:
    """Of six cents three calls leave none."""
    room, ask = begun(FAN, 6)
    while calls := in_flight(room):
        room.answer(says("dear", Money(2 * CENT)), calls[0])
    assert room.fell(ask) == BudgetExceeded.__name__
    assert room.state.short == {}


def test_nobody_passes_who_came_first() -> None:
    """The part of the second would fit when the first is answered, and the third at once."""
    room, ask = begun(MIXED, 6)
    assert [said(call) for call in in_flight(room)] == ["first"]
    room.answer(says("one"))
    assert [said(call) for call in in_flight(room)] == ["second"]
    room.answer(says("two"))
    room.answer(says("three"))
    assert room.told(ask) == ["one", "two", "three"]


def test_where_every_holder_waits_the_youngest_is_refused_with_both_sums() -> None:
    """The session holds money, and waits for a send that waits for it."""
    room, ask = begun(STUCK, 3.5)
    while calls := in_flight(room):
        room.answer(says(said(calls[0])), calls[0])
    failure = room.answers[ask]
    assert isinstance(failure, MessageFailed), failure
    assert failure.error == BudgetExceeded.__name__
    assert "could cost $0.02" in failure.reason
    assert "$0.015 of it is held" in failure.reason
    assert room.state.short == {}


def test_a_send_that_waits_and_runs_out_of_time_is_forgotten() -> None:
    room, ask = begun(FAN.replace('async A <- "{i}"', 'async A <- "{i}" timeout 5s'), 6)
    assert len(room.state.short) == 2
    room.wait(5_000)
    assert room.fell(ask) == "Timeout"
    room.answer(says("late"), in_flight(room)[0])
    assert room.state.short == {}
