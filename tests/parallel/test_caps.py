"""One source under several caps and a rate: the same answers, never over, until the cap ends it."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from vegakit.conversation import ModelRequest, Text, UserMessage
from vegakit.errors import BudgetExceeded
from vegakit.host import LimiterRules
from vegakit.lang import check_program, compile_program
from vegakit.money import dollars
from vegakit.policy import Rate, RateRule
from vegakit.program import OverlapReport, Printed, WastedCost
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime, VegaProgram
from vegakit.testing import VirtualClock, run_virtual

SOURCE = """
agent Reader { model fast  max_tokens 200 }
fn main() {
    let notes = [];
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        let note = Reader <- "read {name}";
        notes = notes + [Reader <- "shorten {note}"];
    }
    print(notes);
    print(Reader <- "join {notes}");
}
"""
CALLS, LATENCY_MS = 17, 1_000
CALM = RateRule(None)
FIVE_A_MINUTE = RateRule(Rate(5, 60_000, 5))


@dataclass
class Came:
    printed: list[str] = field(default_factory=list[str])
    error: str = ""
    wasted: int = 0
    spent: int = 0
    took_ms: int = 0
    sequential_ms: int = 0
    calls: int = 0

    def add_waste(self, news: WastedCost) -> None:
        self.wasted += news.amount

    def keep_time(self, news: OverlapReport) -> None:
        self.sequential_ms = news.sequential_ms


def _answer(request: ModelRequest) -> str:
    said = request.messages[-1]
    assert isinstance(said, UserMessage)
    part = said.parts[0]
    assert isinstance(part, Text)
    return f"<{part.text}>"


def ran(budget: str, *, window: int = 64, rate: RateRule = CALM) -> Came:
    came = Came()
    run_virtual(_run(came, budget, window, rate))
    return came


async def _run(came: Came, budget: str, window: int, rate: RateRule) -> None:
    checked, _ = check_program(SOURCE, "main.vega", lambda _: None)
    assert checked is not None
    clock = VirtualClock()
    model = ScriptedModel(_answer, latency_ms=LATENCY_MS, clock=clock)
    began = clock.now()
    async with Runtime(
        budget,
        models=lambda _: model,
        clock=clock,
        lookahead=window,
        limits=lambda _: LimiterRules(rate),
    ) as rt:
        rt.on(Printed, lambda news: came.printed.append(news.text))
        rt.on(WastedCost, came.add_waste)
        rt.on(OverlapReport, came.keep_time)
        try:
            await rt.run(VegaProgram(compile_program(checked), Path()))
        except BudgetExceeded as error:
            came.error = str(error)
        came.spent = await rt.spent()
    came.took_ms, came.calls = clock.now() - began, len(model.requests)


@pytest.mark.parametrize("budget", ["$10", "$1", "$0.10", "$0.02"])
def test_the_answers_are_the_same_under_every_cap(budget: str) -> None:
    """A smaller cap only takes longer; nothing is wasted, and the cap is not passed."""
    whole, came = ran("$10", window=0), ran(budget)
    assert (came.printed, came.error) == (whole.printed, "")
    assert (came.calls, came.spent, came.wasted) == (CALLS, whole.spent, 0)
    assert came.spent <= dollars(budget)
    assert came.took_ms <= whole.took_ms == CALLS * LATENCY_MS
    assert came.sequential_ms == CALLS * LATENCY_MS


def test_money_decides_how_much_runs_at_once() -> None:
    assert ran("$10").took_ms == 3 * LATENCY_MS
    assert ran("$0.02").took_ms > 3 * LATENCY_MS


def test_five_requests_a_minute_change_no_answer() -> None:
    """Seventeen calls take three more minutes, as one after another."""
    whole, slow = ran("$10", window=0, rate=FIVE_A_MINUTE), ran("$10", rate=FIVE_A_MINUTE)
    assert slow.printed == whole.printed
    assert slow.calls == CALLS
    assert slow.took_ms <= whole.took_ms


@pytest.mark.parametrize("budget", ["$0.0012", "$0.00105"])
def test_a_cap_that_is_too_small_ends_it_where_it_ends_in_order(budget: str) -> None:
    whole, came = ran(budget, window=0), ran(budget)
    assert whole.error
    assert (came.printed, came.error, came.spent - came.wasted) == (
        whole.printed,
        whole.error,
        whole.spent,
    )
    assert came.spent <= dollars(budget)
