"""One turn of an agent as a machine: what was said goes in, actions come out (pure).

    start ─▶ AskModel ─▶ on_reply ─▶ CallTools ─▶ on_tools ─▶ AskModel ─▶ … ─▶ Finished | Failed

The host carries out each action and tells what came of it; the turn is a record that turns to JSON
and back between any two of these. What only the host can know it hands in with the event: `count`,
no fewer tokens than a request will be billed as input, and `check`, what is wrong with an answer.
"""

from vegakit.agent.actions import (
    REPEATED,
    SETTING_FORMS,
    AskModel,
    CallTools,
    CompactedHistory,
    CompactionRule,
    DroppedHistory,
    Finished,
    HistoryPolicy,
    PlannedCall,
    Summarise,
    ToolOutcome,
    TurnAction,
    TurnFailed,
    TurnRule,
    call_failed,
    check_settings,
)
from vegakit.agent.turn import Check, Count, Turn, TurnPhase

__all__ = [
    "REPEATED",
    "SETTING_FORMS",
    "AskModel",
    "CallTools",
    "Check",
    "CompactedHistory",
    "CompactionRule",
    "Count",
    "DroppedHistory",
    "Finished",
    "HistoryPolicy",
    "PlannedCall",
    "Summarise",
    "ToolOutcome",
    "Turn",
    "TurnAction",
    "TurnFailed",
    "TurnPhase",
    "TurnRule",
    "call_failed",
    "check_settings",
]
