"""The comparison can fail: each rule of a turn, broken on purpose, is found by the model of it."""

from collections.abc import Callable

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.agent.test_turn_properties import TurnAgainstLog
from vegakit.agent import DroppedHistory, Turn, turn as tool_round
from vegakit.agent.actions import TurnUsage
from vegakit.agent.turn import History

FAST = settings(max_examples=2_000, phases=[Phase.generate], report_multiple_bugs=False)


def one_step_more(self: TurnUsage, rule, input_tokens, steps):
    return _begin_call(self, rule, input_tokens, steps - 1)


def calls_tools_in_vain(self: TurnUsage, rule, calls):
    steps, self.steps = self.steps, 0
    refused, self.steps = _begin_tools(self, rule, calls), steps
    return refused


def forgets_silent_calls(self: TurnUsage, usage) -> None:
    if usage is not None:
        _on_answered(self, usage)


def never_forgets_a_failure(before, calls, results):
    return {**before, **_failures_in_a_row(before, calls, results)}


def by_arrival(calls, outcomes):
    return _results_of(calls, dict(zip(sorted(outcomes), outcomes.values(), strict=True)))


def parts_calls_from_results(messages):
    return [(message,) for message in messages]


def drops_one_too_many(self: History, size, room) -> int:
    return _excess(self, size, room) + 1


def counts_the_summary(self: History, text) -> None:
    _on_summary(self, text)
    self.dropped = DroppedHistory(self.dropped.messages + 1, self.dropped.exchanges)


def keeps_empty_answers(self: Turn, count):
    self.messages += (self.messages[0],)
    return _on_empty(self, count)


_begin_call, _begin_tools = TurnUsage.begin_call, TurnUsage.begin_tools
_on_answered, _excess, _on_summary = TurnUsage.on_answered, History.excess, History.on_summary
_failures_in_a_row, _results_of = tool_round.failures_in_a_row, tool_round.results_of
_on_empty = Turn._on_empty

FAULTS: list[tuple[str, Callable[..., object]]] = [
    ("vegakit.agent.actions.TurnUsage.begin_call", one_step_more),
    ("vegakit.agent.actions.TurnUsage.begin_tools", calls_tools_in_vain),
    ("vegakit.agent.actions.TurnUsage.on_answered", forgets_silent_calls),
    ("vegakit.agent.turn.failures_in_a_row", never_forgets_a_failure),
    ("vegakit.agent.turn.results_of", by_arrival),
    ("vegakit.agent.turn._split", parts_calls_from_results),
    ("vegakit.agent.turn.History.excess", drops_one_too_many),
    ("vegakit.agent.turn.History.on_summary", counts_the_summary),
    ("vegakit.agent.turn.Turn._on_empty", keeps_empty_answers),
]


def finds_a_difference() -> bool:
    try:
        run_state_machine_as_test(TurnAgainstLog, settings=FAST)
    except (AssertionError, KeyError, ValueError):
        return True
    return False


@pytest.mark.parametrize(("place", "fault"), FAULTS, ids=[f.__name__ for _, f in FAULTS])
def test_a_broken_rule_is_found(
    place: str, fault: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within two thousand histories, most of them within a dozen."""
    monkeypatch.setattr(place, fault)
    assert finds_a_difference()
