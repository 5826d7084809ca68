"""Make the agent of a turn or of a task: its bounds, its patience, and what it never forgets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from vegakit.agent import CompactionRule, TurnRule
from vegakit.host import Agent
from vegakit.policy import TRANSIENT, Backoff, BreakerRule, RetryRule
from vegakit.ports import Model, Tool
from vegakit.sage.patches import PATCHED_PATH

_MOST_STEPS, _MOST_CALLS = 400, 4_000
"""Far beyond what a task needs: what ends a turn is its budget, or that it goes in a circle."""
_SAME_RESULTS = 5
"""A test that is run again after each edit may fail alike a few times; an agent that learns nothing
from five equal results learns nothing from the sixth."""
_CUT_ANSWERS = 3
"""In a row: a model that is told so writes a long file in parts, and each try is paid for."""

_ASSUMED_WINDOW = 128_000
"""Tokens of a window that nobody knows. A request counts as the most tokens that its bytes can be,
so what is summed up here is in truth about a quarter of it, and fits the windows of small models,
too."""
PINNED_TOOL, PATCH_TOOL = "todo", "apply_patch"


@dataclass(frozen=True)
class CodingAgent(Agent[str]):
    """An agent that may call many tools in a turn, is stopped when it goes in a circle, and keeps
    what is `pinned` when its conversation is summed up."""

    pinned: tuple[tuple[str, str], ...] = ()

    def rule_for(self, model: Model) -> TurnRule:
        """Return the rule of a turn, with the bounds of a coding agent."""
        rule = super().rule_for(model)
        most = rule.settings.max_tokens
        if rule.context_tokens is not None:  # an answer leaves room for what it answers to
            most = min(most, max(1, rule.context_tokens // 4))
        return replace(
            rule,
            settings=replace(rule.settings, max_tokens=most),
            max_tool_calls=_MOST_CALLS,
            identical_results=_SAME_RESULTS,
            truncated_replies=_CUT_ANSWERS,
            compaction=CompactionRule(
                dict(self.pinned), (PINNED_TOOL,), _ASSUMED_WINDOW, {PATCH_TOOL: PATCHED_PATH}
            ),
        )


PATIENT = RetryRule(
    max_attempts=8,
    backoff=Backoff(200, 2.0, 20_000),
    on=tuple(sorted(TRANSIENT)),
    speak_again=True,
)
"""Nobody sits beside a session to start it again, so it waits out a storm of refusals, and asks
again for an answer that broke off; one that may have been billed stays charged."""
STEADY = BreakerRule(threshold=1_000)
"""Of a session, in place of its model's: that one opens at the fifth failure in a row, and a
session would end before it has tried as often as its patience says."""


def coding_agent(
    name: str,
    model: str,
    instructions: str,
    tools: Sequence[Tool],
    tokens: int,
    *,
    retry: RetryRule | None,
    breaker: BreakerRule | None,
    pinned: Mapping[str, str] | None = None,
) -> CodingAgent:
    """Return the agent of a turn or of a task. What it may spend is said by the budgets around it,
    and not by a usual amount for one question."""
    return CodingAgent(
        name,
        model=model,
        instructions=instructions,
        tools=tools,
        max_tokens=tokens,
        max_steps=_MOST_STEPS,
        history="summarise",
        on_exceed="allow",
        retry=retry,
        breaker=breaker,
        pinned=tuple((pinned or {}).items()),
    )
