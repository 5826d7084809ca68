"""Whether a candidate may replace what is trusted: evidence, and the machine of a rollout (pure).

`confidence` counts comparisons and tests them however often one looks; `rollout` decides by them
who answers a call. Nobody here waits or reads a clock: an event goes in, and a decision comes out.
"""

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

__all__ = [
    "ALPHA",
    "CALLS_BETWEEN_ALARMS",
    "MIN_SAMPLE",
    "STAGES",
    "Compared",
    "Confidence",
    "Evidence",
    "FaultDetector",
    "InputSource",
    "PairedTally",
    "PersonAction",
    "PersonDecided",
    "ReferenceRepeated",
    "Rollout",
    "RolloutEvent",
    "RolloutMode",
    "RolloutRoute",
    "RolloutRule",
    "RolloutStage",
    "StageChange",
    "Tally",
    "calls_to_detection",
    "difference_of",
]
