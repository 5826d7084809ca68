"""A message that a crash delivers again costs no more than one that is asked once."""

import pytest

from tests.program.rooms import CENT, Room, agent, calls, says
from vegakit.agent import ToolOutcome
from vegakit.errors import ErrorClass
from vegakit.events import Answered, Crashed, Failed
from vegakit.money import Money
from vegakit.policy import RetryRule
from vegakit.program import ProcessExited, send_limits as tries
from vegakit.program.wallets import SendBudgets


def _crashes(room: Room, times: int) -> str:
    ask = room.prompt(room.spawn("a"))
    for _ in range(times):
        room.answer(Crashed("bug", CENT))
    return ask


def test_the_part_is_one_for_all_lives() -> None:
    """Two cents may be spent by each call; of four the second crash leaves two, the third one."""
    room = Room({"a": agent(budget=Money(4 * CENT), retry=RetryRule(max_attempts=9))})
    ask = _crashes(room, 3)
    assert room.fell(ask) == "BudgetExceeded"
    assert sum(wallet.spent for wallet in room.state.wallets.values()) == 3 * CENT


def test_what_tools_spent_is_of_the_part_too() -> None:
    """Two calls are two cents of the three; the next life has no room for one of two."""
    room = Room({"a": agent("look", budget=Money(3 * CENT), idempotent=("look",))})
    ask = room.prompt(room.spawn("a"))
    room.answer(calls("look"))
    room.answer(Answered(ToolOutcome("seen")))
    room.answer(Crashed("bug", CENT))
    assert room.fell(ask) == "BudgetExceeded"


def test_a_call_is_made_as_often_as_it_may_be_tried_whatever_life_makes_it() -> None:
    """Then the asker hears of it, and the process lives."""
    room = Room({"a": agent()})
    ask = _crashes(room, 3)
    assert room.fell(ask) == "AgentFailed"
    assert not room.news(ProcessExited)


def test_retries_of_the_gate_count_in_every_life() -> None:
    """The gate reports two attempts, the program adds one, and the next life may make none."""
    room = Room({"a": agent()})
    ask = room.prompt(room.spawn("a"))
    room.answer(Failed(ErrorClass.TIMEOUT, "slow", attempts=2))
    room.wait(10_000)
    room.answer(Crashed("bug", CENT))
    assert "3 times, and may not ask again" in room.answers[ask].reason


def test_other_messages_have_parts_of_their_own() -> None:
    room = Room({"a": agent(budget=Money(2 * CENT))})
    path = room.spawn("a")
    first = room.prompt(path)
    room.answer(Crashed("bug", CENT))
    assert room.fell(first) == "BudgetExceeded"
    second = room.prompt(path)
    room.answer(says("ok"))
    assert room.told(second).text == "ok"


@pytest.mark.parametrize(
    ("where", "name"), [(SendBudgets, "spent"), (tries, "keep_attempts")], ids=["spent", "left"]
)
def test_a_fresh_part_in_every_life_is_found(
    where: object, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: earlier lives are forgotten."""
    from vegakit.program import sends

    target = where if where is SendBudgets else sends
    monkeypatch.setattr(target, name, lambda *_: 0)
    with pytest.raises((AssertionError, KeyError)):
        test_the_part_is_one_for_all_lives()
