"""The local host: the gate's do-half, turns, and the runtime people use (host)."""

from vegakit.runtime.agents import Agent
from vegakit.runtime.asking import run
from vegakit.runtime.asks import Ask
from vegakit.runtime.clock import SteadyClock
from vegakit.runtime.gate import Account, Gate, ModelCall
from vegakit.runtime.lanes import Lane, LaneRules
from vegakit.runtime.patterns import map_all, race, retry_until
from vegakit.runtime.processes import (
    Child,
    Context,
    Driver,
    Health,
    Kind,
    LocalHost,
    LogEntry,
    Perform,
    Performing,
    Process,
    ProcessView,
    Reducer,
    Registry,
    State,
    Supervisor,
)
from vegakit.runtime.replies import (
    Reply,
    StreamEvent,
    TextChunk,
    ToolCalled,
    ToolReturned,
    TurnEnded,
)
from vegakit.runtime.runtime import Runtime
from vegakit.runtime.viewing import Killed, Remote, RuntimeView, connect

__all__ = [
    "Account",
    "Agent",
    "Ask",
    "Child",
    "Context",
    "Driver",
    "Gate",
    "Health",
    "Killed",
    "Kind",
    "Lane",
    "LaneRules",
    "LocalHost",
    "LogEntry",
    "ModelCall",
    "Perform",
    "Performing",
    "Process",
    "ProcessView",
    "Reducer",
    "Registry",
    "Remote",
    "Reply",
    "Runtime",
    "RuntimeView",
    "State",
    "SteadyClock",
    "StreamEvent",
    "Supervisor",
    "TextChunk",
    "ToolCalled",
    "ToolReturned",
    "TurnEnded",
    "connect",
    "map_all",
    "race",
    "retry_until",
    "run",
]
