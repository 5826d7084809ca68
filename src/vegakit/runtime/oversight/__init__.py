"""What people decide and can look up later: questions to them, permissions, the audit (host)."""

from vegakit.runtime.oversight.auditing import as_audit
from vegakit.runtime.oversight.calls import Caller, ToolUse
from vegakit.runtime.oversight.permitting import Permitting, mode_of, permitting_from
from vegakit.runtime.oversight.questions import Questions
from vegakit.runtime.oversight.spelling import Question, how_to_answer, rendered_question
from vegakit.runtime.oversight.watching import Oversight

__all__ = [
    "Caller",
    "Oversight",
    "Permitting",
    "Question",
    "Questions",
    "ToolUse",
    "as_audit",
    "how_to_answer",
    "mode_of",
    "permitting_from",
    "rendered_question",
]
