"""Loops that ask before they begin, in the pure machine: a call here could cost two cents."""

from typing import Any

import pytest

from tests.program.compiled import code_of
from tests.program.rooms import Room, says
from vegakit.effects import AskHuman, CallModel
from vegakit.events import Answered
from vegakit.program.loop_approvals import LoopConfirmation

LOOP = """
agent A { model fast  max_steps 1  retry { max_attempts 1 } }
fn main() -> int {
    let words = str::words(A <- "x");
    let said = 0;
    session budget $1 confirm $0.05 {
        for word in words { A <- word; said = said + 1; }
    } catch BudgetExceeded { return -1; }
    return said;
}
"""


def begun(text: str, words: str) -> tuple[Room, str]:
    room = Room(code_of(text))
    ask = room.ask(room.spawn("main"), [])
    room.answer(says(words))
    return room, ask


def finished(room: Room, ask: str) -> Any:
    while room.in_flight:
        for effect in list(room.in_flight.values()):
            room.answer(says("ok"), effect)
    return room.told(ask)


def test_it_asks_before_the_first_call() -> None:
    """Three rounds of two cents; while nobody has answered, nothing is called, early neither."""
    room, ask = begun(LOOP, "a b c")
    question = room.only().request
    assert isinstance(question, AskHuman)
    assert question.question == (
        "A loop of 3 rounds may cost $0.06 at most, more than $0.05. Begin it?"
    )
    room.answer(Answered(True))
    assert all(isinstance(effect.request, CallModel) for effect in room.in_flight.values())
    assert finished(room, ask) == 3


@pytest.mark.parametrize("answer", [False, None])
def test_without_consent_no_round_is_run(answer: bool | None) -> None:
    room, ask = begun(LOOP, "a b c")
    room.answer(Answered(answer))
    assert finished(room, ask) == -1


def test_what_costs_less_just_runs() -> None:
    room, ask = begun(LOOP, "a b")
    assert all(isinstance(effect.request, CallModel) for effect in room.in_flight.values())
    assert finished(room, ask) == 2


def test_a_loop_costs_no_more_than_is_left() -> None:
    """Of a session of four cents, nobody need agree to six."""
    room, ask = begun(LOOP.replace("budget $1 ", "budget $0.04 "), "a b c")
    assert not any(isinstance(effect.request, AskHuman) for effect in room.in_flight.values())
    finished(room, ask)


def test_calls_in_loops_and_functions_below_are_counted() -> None:
    """Two sends in a function, called twice in a round: eight cents for one word."""
    text = LOOP.replace("A <- word;", "twice(word); twice(word);")
    text = 'fn twice(word: str) { A <- word; A <- "{word} again"; }\n' + text
    room, _ = begun(text, "a")
    assert "may cost $0.08 at most" in room.only().request.question


def test_a_budget_of_the_send_is_what_it_may_cost() -> None:
    room, _ = begun(LOOP.replace("A <- word;", "A <- word budget $0.01;"), "a b c d e f")
    assert not any(isinstance(effect.request, AskHuman) for effect in room.in_flight.values())


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("question", None), ("_most", 10**18), ("_round", 0)],
    ids=["never asks", "no confirm is found", "rounds cost nothing"],
)
def test_a_loop_that_asks_nobody_is_found(
    name: str, wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted."""
    monkeypatch.setattr(LoopConfirmation, name, lambda *_: wrong)
    with pytest.raises(AssertionError):
        test_it_asks_before_the_first_call()
