"""The local host: the gate's do-half, turns, and the runtime people use (host)."""

from vegakit.runtime.agents import Agent
from vegakit.runtime.asking import run
from vegakit.runtime.asks import Ask
from vegakit.runtime.clock import SteadyClock
from vegakit.runtime.gate import Account, Gate, ModelCall
from vegakit.runtime.lanes import Lane, LaneRules
from vegakit.runtime.replies import (
    Reply,
    StreamEvent,
    TextChunk,
    ToolCalled,
    ToolReturned,
    TurnEnded,
)
from vegakit.runtime.runtime import Runtime

__all__ = [
    "Account",
    "Agent",
    "Ask",
    "Gate",
    "Lane",
    "LaneRules",
    "ModelCall",
    "Reply",
    "Runtime",
    "SteadyClock",
    "StreamEvent",
    "TextChunk",
    "ToolCalled",
    "ToolReturned",
    "TurnEnded",
    "run",
]
