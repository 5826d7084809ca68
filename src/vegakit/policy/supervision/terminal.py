"""How a session ends: once, with one reason, for ever."""

from enum import StrEnum

from msgspec import Struct

__all__ = ["TerminalReason", "Terminate"]


class TerminalReason(StrEnum):
    COMPLETED = "completed"
    MAX_ITERATIONS = "max_iterations"
    MAX_LLM_CALLS = "max_llm_calls"
    MAX_AGENT_HOPS = "max_agent_hops"
    MAX_EDGE = "max_edge"
    USER_CANCELLED = "user_cancelled"
    TOOL_FAILED = "tool_failed"
    LLM_FAILED = "llm_failed"
    POLICY_VIOLATION = "policy_violation"
    TIMEOUT = "timeout"
    RESOURCE_EXHAUSTED = "resource_exhausted"
    SYSTEM_ERROR = "system_error"


class Terminate(Struct, frozen=True, tag=True):
    reason: TerminalReason
