"""What a session tells its workers, and what they report back."""

from enum import StrEnum
from typing import Any, NewType, TypeAlias

from msgspec import Struct

from vegakit.ids import InterruptId
from vegakit.policy.interrupts.kinds import InterruptKind
from vegakit.policy.supervision.terminal import Terminate

__all__ = [
    "Instruction",
    "ReportRefusal",
    "RunAgent",
    "StageAsked",
    "StageCompleted",
    "StageFailed",
    "StageFailure",
    "StageOutcome",
    "Task",
    "TaskId",
    "Wait",
    "WaitInterrupt",
]

TaskId = NewType("TaskId", str)


class Task(Struct, frozen=True):
    """One issue of a stage to a worker; `llm_calls_left` is shared by all tasks that are out."""

    id: TaskId
    stage: str
    agent: str
    iteration: int
    attempt: int
    lease_until_ms: int
    deadline_ms: int | None = None
    tools: tuple[str, ...] | None = None
    llm_calls_left: int | None = None


class RunAgent(Struct, frozen=True, tag=True):
    tasks: tuple[Task, ...]


class Wait(Struct, frozen=True, tag=True):
    """All tasks are taken; the first lease to expire does so at `until_ms`."""

    until_ms: int


class WaitInterrupt(Struct, frozen=True, tag=True):
    interrupts: tuple[InterruptId, ...]


Instruction: TypeAlias = RunAgent | Wait | WaitInterrupt | Terminate


class StageFailure(StrEnum):
    """Each is also a reason to terminate."""

    TOOL_FAILED = "tool_failed"
    LLM_FAILED = "llm_failed"
    POLICY_VIOLATION = "policy_violation"
    TIMEOUT = "timeout"


class StageCompleted(Struct, frozen=True, tag=True):
    output: Any = None
    llm_calls: int = 0


class StageFailed(Struct, frozen=True, tag=True):
    failure: StageFailure
    llm_calls: int = 0


class StageAsked(Struct, frozen=True, tag=True):
    """It opened an interrupt and cannot go on before that is settled.

    If that happened before this report came, whoever takes the report settles it again here.
    """

    interrupt: InterruptId
    kind: InterruptKind
    llm_calls: int = 0


StageOutcome: TypeAlias = StageCompleted | StageFailed | StageAsked


class ReportRefusal(StrEnum):
    SESSION_ENDED = "session_ended"
    NOT_RUNNING = "not_running"
    LATE = "late"
    NEGATIVE_COUNT = "negative_count"
    NOT_WAITING = "not_waiting"
