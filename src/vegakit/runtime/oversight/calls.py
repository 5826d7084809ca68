"""A tool call as those see it who permit and audit it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vegakit.ids import EffectKey, Pid, TraceId
from vegakit.ports import AuditLevel, Tool
from vegakit.tools import audit_level

__all__ = ["Caller", "ToolUse"]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, and where in the program."""

    place: EffectKey
    process: Pid
    agent: str


@dataclass(frozen=True, slots=True)
class ToolUse:
    tool: Tool
    arguments: Mapping[str, Any]
    caller: Caller
    trace_id: TraceId

    @property
    def name(self) -> str:
        return self.tool.spec.name

    @property
    def level(self) -> AuditLevel:
        return audit_level(self.tool)
