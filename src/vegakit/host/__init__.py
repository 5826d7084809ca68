"""The local host: does what pure code decided, through one gate (host).

The gate, the limiter, the journal and its recovery, approvals, and the machine of one run. What is
here takes `HostServices` and never the `Runtime`, so that other hosts can use it.
"""

from vegakit.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vegakit.host.activity import ActivityLog
    from vegakit.host.admission import AdmissionService, PreparedGrant
    from vegakit.host.agents import (
        Agent,
        Body,
        Child,
        Process,
        Reducer,
        Reply,
        StreamEvent,
        Supervisor,
        TextChunk,
        ToolCalled,
        ToolReturned,
        TurnEnded,
        only_in_program,
        read_media,
    )
    from vegakit.host.approvals import (
        Approvals,
        PermissionPolicy,
        Questions,
        as_audit,
        permission_policy_from,
    )
    from vegakit.host.budgets import Budgets, Lease, rule_of
    from vegakit.host.deployment import deploy
    from vegakit.host.effect_handlers import Context, EffectHandlers, current_process
    from vegakit.host.gate import Account, Gate, ModelCall
    from vegakit.host.journal import (
        EffectRecorder,
        JournaledRun,
        as_journal,
        ledger_beside,
        store_beside,
    )
    from vegakit.host.limiter import Limiter, LimiterRules, Limits, ModelRegistry
    from vegakit.host.local import Driver, EffectHandler, LocalHost
    from vegakit.host.pending_asks import PendingAsk
    from vegakit.host.program_run import ProgramRun
    from vegakit.host.python_interop import (
        PythonInterop,
        RunProgram,
        ToolLike,
        arguments,
        python_value,
        run_program,
    )
    from vegakit.host.recovery import Backlog, charge_missing
    from vegakit.host.registry import Registry
    from vegakit.host.services import HostServices


__all__ = [
    "Account",
    "ActivityLog",
    "AdmissionService",
    "Agent",
    "Approvals",
    "Backlog",
    "Body",
    "Budgets",
    "Child",
    "Context",
    "Driver",
    "EffectHandler",
    "EffectHandlers",
    "EffectRecorder",
    "Gate",
    "HostServices",
    "JournaledRun",
    "Lease",
    "Limiter",
    "LimiterRules",
    "Limits",
    "LocalHost",
    "ModelCall",
    "ModelRegistry",
    "PendingAsk",
    "PermissionPolicy",
    "PreparedGrant",
    "Process",
    "ProgramRun",
    "PythonInterop",
    "Questions",
    "Reducer",
    "Registry",
    "Reply",
    "RunProgram",
    "StreamEvent",
    "Supervisor",
    "TextChunk",
    "ToolCalled",
    "ToolLike",
    "ToolReturned",
    "TurnEnded",
    "arguments",
    "as_audit",
    "as_journal",
    "charge_missing",
    "current_process",
    "deploy",
    "ledger_beside",
    "only_in_program",
    "permission_policy_from",
    "python_value",
    "read_media",
    "rule_of",
    "run_program",
    "store_beside",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "activity": ("ActivityLog",),
        "admission": (
            "AdmissionService",
            "PreparedGrant",
        ),
        "agents": (
            "Agent",
            "Body",
            "Child",
            "Process",
            "Reducer",
            "Reply",
            "StreamEvent",
            "Supervisor",
            "TextChunk",
            "ToolCalled",
            "ToolReturned",
            "TurnEnded",
            "only_in_program",
            "read_media",
        ),
        "approvals": (
            "Approvals",
            "PermissionPolicy",
            "Questions",
            "as_audit",
            "permission_policy_from",
        ),
        "budgets": (
            "Budgets",
            "Lease",
            "rule_of",
        ),
        "deployment": ("deploy",),
        "effect_handlers": (
            "Context",
            "EffectHandlers",
            "current_process",
        ),
        "gate": (
            "Account",
            "Gate",
            "ModelCall",
        ),
        "journal": (
            "EffectRecorder",
            "JournaledRun",
            "as_journal",
            "ledger_beside",
            "store_beside",
        ),
        "limiter": (
            "Limiter",
            "LimiterRules",
            "Limits",
            "ModelRegistry",
        ),
        "local": (
            "Driver",
            "EffectHandler",
            "LocalHost",
        ),
        "pending_asks": ("PendingAsk",),
        "program_run": ("ProgramRun",),
        "python_interop": (
            "PythonInterop",
            "RunProgram",
            "ToolLike",
            "arguments",
            "python_value",
            "run_program",
        ),
        "recovery": (
            "Backlog",
            "charge_missing",
        ),
        "registry": ("Registry",),
        "services": ("HostServices",),
    },
)
