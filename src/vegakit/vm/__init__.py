"""The register machine that runs compiled programs: wants out, answers in, all JSON (pure)."""

from vegakit.vm.decoding import Program, load
from vegakit.vm.library import PURE
from vegakit.vm.machine import Vm
from vegakit.vm.starting import start
from vegakit.vm.state import Crash, Limits, Status, Step, VmState
from vegakit.vm.texts import json_text, text_of
from vegakit.vm.unknown import never_fails, on_lookahead_bug, strict_lookahead
from vegakit.vm.values import restored, stored
from vegakit.vm.wants import (
    AskBudget,
    CallHost,
    Cancel,
    CloseScope,
    Drop,
    Early,
    End,
    LinkBoth,
    Older,
    OpenScope,
    Print,
    SendTo,
    SpawnAgent,
    Taken,
    Want,
    Watch,
)

__all__ = [
    "PURE",
    "AskBudget",
    "CallHost",
    "Cancel",
    "CloseScope",
    "Crash",
    "Drop",
    "Early",
    "End",
    "Limits",
    "LinkBoth",
    "Older",
    "OpenScope",
    "Print",
    "Program",
    "SendTo",
    "SpawnAgent",
    "Status",
    "Step",
    "Taken",
    "Vm",
    "VmState",
    "Want",
    "Watch",
    "json_text",
    "load",
    "never_fails",
    "on_lookahead_bug",
    "restored",
    "start",
    "stored",
    "strict_lookahead",
    "text_of",
]
