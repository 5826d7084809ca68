"""The calls of one answer: which can be made, what came of each, and what fails again and again.

A failure is a tool, its arguments and its error. It is repeated while every round of calls has it:
a round without it ends the row, other calls beside it do not.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from vegakit.agent.actions import PlannedCall, ToolOutcome
from vegakit.conversation import ToolCall, ToolResult, ToolSpec
from vegakit.records import canonical, digest128

__all__ = ["failures_in_a_row", "mistakes", "planned", "repeated", "results_of"]

_SHOWN = 200


def mistakes(calls: Sequence[ToolCall], tools: Sequence[ToolSpec]) -> dict[int, ToolOutcome]:
    """What the model is told at once of calls that nobody could make, by index."""
    known = [tool.name for tool in tools]
    problems = {index: _problem(call, known) for index, call in enumerate(calls)}
    return {index: ToolOutcome(text, True) for index, text in problems.items() if text}


def _problem(call: ToolCall, known: Sequence[str]) -> str:
    if call.name not in known:
        return f"there is no tool {call.name!r}; there is: {', '.join(known) or 'no tool at all'}"
    if not isinstance(call.arguments, dict):
        got = canonical(call.arguments).decode()[:_SHOWN]
        return f"the arguments of {call.name} must be one JSON object; got {got}"
    return ""


def planned(calls: Sequence[ToolCall], tools: Sequence[ToolSpec]) -> tuple[PlannedCall, ...]:
    wrong = mistakes(calls, tools)
    return tuple(PlannedCall(i, call) for i, call in enumerate(calls) if i not in wrong)


def results_of(
    calls: Sequence[ToolCall], outcomes: Mapping[int, ToolOutcome]
) -> tuple[ToolResult, ...]:
    return tuple(
        ToolResult(call.id, call.name, _storable(outcomes[i].content), outcomes[i].is_error)
        for i, call in enumerate(calls)
    )


def _storable(text: str) -> str:
    """A tool may hand over half a surrogate pair, as from a file name, which JSON cannot hold."""
    return text.encode("utf-8", "replace").decode()


def failures_in_a_row(
    before: Mapping[str, int], calls: Sequence[ToolCall], results: Sequence[ToolResult]
) -> dict[str, int]:
    """How often each failure of this round has come by now, by its digest."""
    now = Counter(_failure(*pair) for pair in zip(calls, results, strict=True) if pair[1].is_error)
    return {failure: before.get(failure, 0) + times for failure, times in now.items()}


def repeated(
    row: Mapping[str, int], most: int, calls: Sequence[ToolCall], results: Sequence[ToolResult]
) -> ToolResult | None:
    """The first result of this round that came `most` times in a row."""
    pairs = zip(calls, results, strict=True)
    return next((r for c, r in pairs if row.get(_failure(c, r), 0) >= most), None)


def _failure(call: ToolCall, result: ToolResult) -> str:
    return digest128([call.name, call.arguments, result.content])
