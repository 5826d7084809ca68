"""One truth of money on the screen: a turn says its own cost, each sum is the one in the status
line, and where a bill is not known both say at most."""

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.cli.terminal.test_screen import ends, notes, opened, say
from tests.patience import until
from tests.sage.scene import scene
from vegakit.cli.terminal.amounts import amount, limit, shown, spent_told
from vegakit.cli.terminal.draw import Canvas, lines_of, status_line
from vegakit.cli.terminal.reducer import on_event
from vegakit.cli.terminal.state import EndItem, MoneyView, ViewState
from vegakit.money import NANOS, dollars
from vegakit.sage import EndReason, SageCost, SageEnd, SageSession, SageTurn
from vegakit.testing import Break, DropConnection, ProviderReply


def a_session(budget: float = 10.0) -> ViewState:
    state = ViewState()
    on_event(state, SageSession("n", "r", "/p", "smart", "ask", budget, False), 0)
    return state


def turn(state: ViewState, number: int, spent: float, unbilled: float = 0.0) -> str:
    """Carry out a turn, and return its last line."""
    on_event(state, SageTurn(number, "do it"), 0)
    on_event(state, SageCost(spent, None), 1)
    on_event(state, SageEnd(EndReason.DONE, spent_usd=spent, unbilled_usd=unbilled), 67)
    (line, *_) = lines_of(state.items[-1], Canvas(100))
    return "".join(one.text for one in line)


def status(state: ViewState) -> str:
    return "".join(one.text for one in status_line(state, 100, ""))


def test_a_turn_says_what_it_cost_and_the_session_in_all() -> None:
    state = a_session()
    assert turn(state, 1, 0.01141).endswith("· $0.0115 spent")
    assert turn(state, 2, 0.0812).endswith("· $0.0698 spent, $0.0812 in all")
    assert " $0.0812 of $10.00" in status(state)


def test_at_most_stands_wherever_a_bill_is_not_known() -> None:
    """In the turn in which it was cut off, in the sums of those after it, and in the status."""
    state = a_session()
    turn(state, 1, 0.01)
    cut = turn(state, 2, 0.21, unbilled=0.2)
    assert cut.endswith("at most $0.2000 spent, at most $0.2100 in all")
    assert turn(state, 3, 0.22).endswith("· $0.0100 spent, at most $0.2200 in all")
    assert "≤ $0.2200 of $10.00" in status(state)
    assert spent_told(state.money).startswith("at most $0.2200 of $10.00 spent")


amounts = st.integers(0, 100 * NANOS)


@given(amounts, amounts, amounts)
def test_figures_add_up_and_none_is_better_than_it_is(most: int, spent: int, held: int) -> None:
    own = MoneyView(most, spent, max(0, most - spent - held))
    told = shown(own)
    assert dollars(told.spent.replace(",", "")) >= spent
    assert told.spent == amount(spent)
    left = told.left.replace(",", "")
    assert left.startswith("<") or dollars(left) <= max(0, most - spent)


@pytest.mark.parametrize(
    ("nanos", "told"), [(10 * NANOS, "$10.00"), (120_000_000, "$0.12"), (1_234_500, "$0.0012")]
)
def test_a_limit_of_whole_cents_is_in_cents(nanos: int, told: str) -> None:
    assert limit(nanos) == told


async def test_an_answer_that_broke_off_and_came_again_counts_as_at_most(tmp_path: Path) -> None:
    """Nobody knows what the first one costs, and it stays charged."""
    broken = ProviderReply("one two three", breaks=Break(2, DropConnection()))
    with scene(tmp_path, [broken, "Whole."]) as it, it.inside():
        async with opened(it) as (app, pilot):
            await say(pilot, "talk")
            await until(lambda: ends(app) == [EndReason.DONE])
            end = next(one.end for one in app.state.items if isinstance(one, EndItem))
            assert end is not None
            assert 0 < end.unbilled_usd < (end.spent_usd or 0)
            assert "≤ $" in status(app.state)
            assert len(notes(app)) == 1
