"""The register machine that runs compiled programs: requests out, results in (pure)."""

from vegakit.vm.machine import Vm, start
from vegakit.vm.module_facts import has_guards, never_fails, on_lookahead_bug, strict_lookahead
from vegakit.vm.requests import (
    AskBudget,
    CallHost,
    CancelRequest,
    CloseScope,
    CloseSpan,
    End,
    EndProcesses,
    FiberRequest,
    LinkBoth,
    OpenScope,
    Print,
    PriorSend,
    SendTo,
    SpawnAgent,
    SpeculativeCall,
    SpeculativeCallUsed,
    Watch,
)
from vegakit.vm.state import Crash, Status, Step, VmState
from vegakit.vm.stdlib import computed
from vegakit.vm.values import json_text, restored, text_of

__all__ = [
    "AskBudget",
    "CallHost",
    "CancelRequest",
    "CloseScope",
    "CloseSpan",
    "Crash",
    "End",
    "EndProcesses",
    "FiberRequest",
    "LinkBoth",
    "OpenScope",
    "Print",
    "PriorSend",
    "SendTo",
    "SpawnAgent",
    "SpeculativeCall",
    "SpeculativeCallUsed",
    "Status",
    "Step",
    "Vm",
    "VmState",
    "Watch",
    "computed",
    "has_guards",
    "json_text",
    "never_fails",
    "on_lookahead_bug",
    "restored",
    "start",
    "strict_lookahead",
    "text_of",
]
