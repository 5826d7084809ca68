"""Pipelines: stages, routes, joins and bounds (pure)."""

from vegakit.policy.routing.conditions import Condition
from vegakit.policy.routing.instructions import (
    Instruction,
    ReportRefusal,
    RunAgent,
    StageAsked,
    StageCompleted,
    StageFailed,
    StageFailure,
    StageOutcome,
    Task,
    TaskId,
    Wait,
    WaitInterrupt,
)
from vegakit.policy.routing.pipeline import Bounds, Join, Pipeline, RoutingRule, Stage
from vegakit.policy.routing.problems import pipeline_problems
from vegakit.policy.routing.session import Session, begin_session

__all__ = [
    "Bounds",
    "Condition",
    "Instruction",
    "Join",
    "Pipeline",
    "ReportRefusal",
    "RoutingRule",
    "RunAgent",
    "Session",
    "Stage",
    "StageAsked",
    "StageCompleted",
    "StageFailed",
    "StageFailure",
    "StageOutcome",
    "Task",
    "TaskId",
    "Wait",
    "WaitInterrupt",
    "begin_session",
    "pipeline_problems",
]
