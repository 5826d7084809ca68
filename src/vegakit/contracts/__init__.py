"""Contracts: nodes under typed expressions, and whether a candidate may replace what is trusted
(pure).

`node_types`, `expressions`, `checker`, `typed` and `evaluation` are the contract language, from its
text to a verdict. `confidence` counts comparisons and tests them however often one looks; `rollout`
decides by them who answers a call. Nobody here waits or reads a clock.
"""

from vegakit.contracts.checker import NameScope, check_expression
from vegakit.contracts.confidence import (
    ALPHA,
    CALLS_BETWEEN_ALARMS,
    MIN_SAMPLE,
    Confidence,
    Evidence,
    FaultDetector,
    InputSource,
    PairedTally,
    Tally,
    difference_of,
)
from vegakit.contracts.evaluation import (
    ArithmeticTrap,
    BrokenClause,
    Clause,
    Evaluator,
    TrapKind,
    Verdict,
    evaluate,
    judge,
)
from vegakit.contracts.expressions import ExpressionError
from vegakit.contracts.node_types import (
    DecimalType,
    NodeType,
    NodeTypeError,
    NodeValueError,
    RecordType,
    parse_type,
    read_value,
    show_type,
    show_value,
)
from vegakit.contracts.rollout import (
    STAGES,
    Compared,
    PersonAction,
    PersonDecided,
    ReferenceRepeated,
    Rollout,
    RolloutEvent,
    RolloutMode,
    RolloutRoute,
    RolloutRule,
    RolloutStage,
    StageChange,
    calls_to_detection,
)
from vegakit.contracts.typed import Expression, NamedValue, cost_of

__all__ = [
    "ALPHA",
    "CALLS_BETWEEN_ALARMS",
    "MIN_SAMPLE",
    "STAGES",
    "ArithmeticTrap",
    "BrokenClause",
    "Clause",
    "Compared",
    "Confidence",
    "DecimalType",
    "Evaluator",
    "Evidence",
    "Expression",
    "ExpressionError",
    "FaultDetector",
    "InputSource",
    "NameScope",
    "NamedValue",
    "NodeType",
    "NodeTypeError",
    "NodeValueError",
    "PairedTally",
    "PersonAction",
    "PersonDecided",
    "RecordType",
    "ReferenceRepeated",
    "Rollout",
    "RolloutEvent",
    "RolloutMode",
    "RolloutRoute",
    "RolloutRule",
    "RolloutStage",
    "StageChange",
    "Tally",
    "TrapKind",
    "Verdict",
    "calls_to_detection",
    "check_expression",
    "cost_of",
    "difference_of",
    "evaluate",
    "judge",
    "parse_type",
    "read_value",
    "show_type",
    "show_value",
]
