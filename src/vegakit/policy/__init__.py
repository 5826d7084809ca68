"""The rules of the runtime, one small machine a file (pure).

Each machine is a record that turns to JSON and back at any step. It is told what happened, with
`now` in steady milliseconds, and answers with a verdict or actions as data; nobody here waits,
reads a clock, draws a random number or logs. Rules and table stand at the top of each file; the
tests hold every machine against an independent model.

Each is loaded when one of its names is first used: an agent on a laptop does not wait for the
machines that only the kernel runs.
"""

from vegakit.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vegakit.policy.approvals import (
        ApprovalPending as ApprovalPending,
        Attempt as Attempt,
        apply_permission as apply_permission,
    )
    from vegakit.policy.budget import (
        LEASE_MS as LEASE_MS,
        Admission as Admission,
        Budget as Budget,
        Claim as Claim,
        ClaimState as ClaimState,
        LeaseWatch as LeaseWatch,
        Settlement as Settlement,
    )
    from vegakit.policy.capability.access import (
        AccessRequest as AccessRequest,
        Allowed as Allowed,
        Denied as Denied,
        Fetch as Fetch,
        ReadPath as ReadPath,
        RunCommand as RunCommand,
        Use as Use,
        WritePath as WritePath,
    )
    from vegakit.policy.capability.commands import (
        parse_command as parse_command,
        risky_word as risky_word,
        rule_within as rule_within,
    )
    from vegakit.policy.capability.grants import (
        Grant as Grant,
        decide as decide,
        delegate as delegate,
    )
    from vegakit.policy.capability.hosts import (
        parse_url as parse_url,
    )
    from vegakit.policy.capability.paths import (
        clean_path as clean_path,
    )
    from vegakit.policy.interrupts import (
        INTERRUPT_KINDS as INTERRUPT_KINDS,
        Approved as Approved,
        Consequence as Consequence,
        Declined as Declined,
        Interrupt as Interrupt,
        InterruptAnswer as InterruptAnswer,
        InterruptKind as InterruptKind,
        InterruptRefusal as InterruptRefusal,
        InterruptRequest as InterruptRequest,
        InterruptRule as InterruptRule,
        Interrupts as Interrupts,
        InterruptStatus as InterruptStatus,
        Replied as Replied,
        Resume as Resume,
        TakeErrorNext as TakeErrorNext,
        TerminalReason as TerminalReason,
        Terminate as Terminate,
    )
    from vegakit.policy.mailbox import (
        Accepted as Accepted,
        Dropped as Dropped,
        EndProcess as EndProcess,
        ExitKind as ExitKind,
        ExitReason as ExitReason,
        Mailbox as Mailbox,
        MailboxEntry as MailboxEntry,
        MailboxFull as MailboxFull,
        MailboxRule as MailboxRule,
        SendDown as SendDown,
        SendExit as SendExit,
        Signal as Signal,
        Signals as Signals,
        Taken as Taken,
        Waiting as Waiting,
    )
    from vegakit.policy.permissions import (
        NeedsApproval as NeedsApproval,
        PermissionMode as PermissionMode,
        PermissionRule as PermissionRule,
        Permissions as Permissions,
        parse_permission as parse_permission,
        permit_call as permit_call,
    )
    from vegakit.policy.pipeline import (
        Condition as Condition,
        Join as Join,
        Pipeline as Pipeline,
        PipelineBounds as PipelineBounds,
        RoutingRule as RoutingRule,
        Stage as Stage,
        most_runs as most_runs,
        pipeline_problems as pipeline_problems,
    )
    from vegakit.policy.pipeline_agents import (
        AgentDefinition as AgentDefinition,
        OutputField as OutputField,
        PipelineDefinition as PipelineDefinition,
        agent_problems as agent_problems,
        answer_output as answer_output,
        as_text as as_text,
        definition_problems as definition_problems,
        stage_agent as stage_agent,
        stage_prompt as stage_prompt,
    )
    from vegakit.policy.quota import (
        Consumption as Consumption,
        Dimension as Dimension,
        Quota as Quota,
        QuotaExceeded as QuotaExceeded,
        QuotaRule as QuotaRule,
        RemainingBudget as RemainingBudget,
        SoftWallReached as SoftWallReached,
        WithinQuota as WithinQuota,
    )
    from vegakit.policy.rate import (
        UNHEALTHY as UNHEALTHY,
        Admitted as Admitted,
        Breaker as Breaker,
        BreakerChange as BreakerChange,
        BreakerRule as BreakerRule,
        BreakerState as BreakerState,
        LimitWait as LimitWait,
        Meter as Meter,
        NeverFits as NeverFits,
        NotYet as NotYet,
        Permit as Permit,
        Queued as Queued,
        Rate as Rate,
        RateLimiter as RateLimiter,
        RateRule as RateRule,
        RateStrategy as RateStrategy,
        Remaining as Remaining,
        SlowDown as SlowDown,
        WaitReason as WaitReason,
        describe_long_wait as describe_long_wait,
        describe_open_breaker as describe_open_breaker,
        describe_oversized_call as describe_oversized_call,
        describe_rate_limit as describe_rate_limit,
    )
    from vegakit.policy.retry import (
        TRANSIENT as TRANSIENT,
        Backoff as Backoff,
        GiveUp as GiveUp,
        GiveUpReason as GiveUpReason,
        Resend as Resend,
        Retry as Retry,
        RetryAt as RetryAt,
        RetryBudget as RetryBudget,
        RetryBudgetRule as RetryBudgetRule,
        RetryRule as RetryRule,
        RetryVerdict as RetryVerdict,
        format_wait as format_wait,
        may_resend as may_resend,
        start_retry as start_retry,
    )
    from vegakit.policy.safe_text import (
        NotDisplayable as NotDisplayable,
        Secrets as Secrets,
        Untrusted as Untrusted,
        escape_for_terminal as escape_for_terminal,
        escape_json as escape_json,
        escape_text as escape_text,
        mark_untrusted as mark_untrusted,
        quote_name as quote_name,
        sanitise as sanitise,
        unmarked as unmarked,
        wrap_escaped as wrap_escaped,
    )
    from vegakit.policy.scheduler import (
        AgingRule as AgingRule,
        MoveRefused as MoveRefused,
        Priority as Priority,
        ProcessState as ProcessState,
        ReadyQueue as ReadyQueue,
        move as move,
        ready_rank as ready_rank,
    )
    from vegakit.policy.scopes import (
        BINDING as BINDING,
        NO_RULES as NO_RULES,
        CapOverrun as CapOverrun,
        InsufficientBudget as InsufficientBudget,
        NeedsHigherCap as NeedsHigherCap,
        Notice as Notice,
        OnExceed as OnExceed,
        Reserved as Reserved,
        Scope as Scope,
        ScopeAdmission as ScopeAdmission,
        ScopeClosed as ScopeClosed,
        ScopeRule as ScopeRule,
        ScopeRules as ScopeRules,
        SpendWindow as SpendWindow,
        ThresholdCrossed as ThresholdCrossed,
        WindowRule as WindowRule,
    )
    from vegakit.policy.services import (
        MOST_SLOTS as MOST_SLOTS,
        MOST_TAKEN as MOST_TAKEN,
        Service as Service,
        ServiceFacts as ServiceFacts,
        ServiceHealth as ServiceHealth,
        ServiceType as ServiceType,
        choose_service as choose_service,
    )
    from vegakit.policy.session import (
        Instruction as Instruction,
        PipelineSession as PipelineSession,
        ReportRefusal as ReportRefusal,
        RunAgent as RunAgent,
        StageAsked as StageAsked,
        StageCompleted as StageCompleted,
        StageFailed as StageFailed,
        StageFailure as StageFailure,
        StageOutcome as StageOutcome,
        StageTask as StageTask,
        TaskId as TaskId,
        WaitForInterrupts as WaitForInterrupts,
        WaitForTasks as WaitForTasks,
        begin_session as begin_session,
        failure_of as failure_of,
    )
    from vegakit.policy.supervision import (
        ChildRecord as ChildRecord,
        ChildState as ChildState,
        ChildType as ChildType,
        ExitSupervisor as ExitSupervisor,
        KillChild as KillChild,
        ReportEnded as ReportEnded,
        ReportReady as ReportReady,
        RestartRule as RestartRule,
        RestartStrategy as RestartStrategy,
        StartChild as StartChild,
        StopChild as StopChild,
        SupervisorAction as SupervisorAction,
        SupervisorMachine as SupervisorMachine,
        WakeAt as WakeAt,
    )
    from vegakit.policy.user_rate import (
        RateDecision as RateDecision,
        RateSpan as RateSpan,
        SpanUsage as SpanUsage,
        UserRate as UserRate,
        UserRateRule as UserRateRule,
    )

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "approvals": "ApprovalPending Attempt apply_permission",
        "budget": "LEASE_MS Admission Budget Claim ClaimState LeaseWatch Settlement",
        "capability.access": "AccessRequest Allowed Denied Fetch ReadPath RunCommand Use WritePath",
        "capability.commands": "parse_command risky_word rule_within",
        "capability.grants": "Grant decide delegate",
        "capability.hosts": "parse_url",
        "capability.paths": "clean_path",
        "interrupts": (
            "INTERRUPT_KINDS Approved Consequence Declined Interrupt InterruptAnswer "
            "InterruptKind InterruptRefusal InterruptRequest InterruptRule InterruptStatus "
            "Interrupts Replied Resume TakeErrorNext TerminalReason Terminate"
        ),
        "mailbox": (
            "Accepted Dropped EndProcess ExitKind ExitReason Mailbox MailboxEntry MailboxFull "
            "MailboxRule SendDown SendExit Signal Signals Taken Waiting"
        ),
        "permissions": (
            "NeedsApproval PermissionMode PermissionRule Permissions parse_permission permit_call"
        ),
        "pipeline": (
            "Condition Join Pipeline PipelineBounds RoutingRule Stage most_runs pipeline_problems"
        ),
        "pipeline_agents": (
            "AgentDefinition OutputField PipelineDefinition agent_problems answer_output as_text "
            "definition_problems stage_agent stage_prompt"
        ),
        "quota": (
            "Consumption Dimension Quota QuotaExceeded QuotaRule RemainingBudget SoftWallReached "
            "WithinQuota"
        ),
        "rate": (
            "UNHEALTHY Admitted Breaker BreakerChange BreakerRule BreakerState LimitWait Meter "
            "NeverFits NotYet Permit Queued Rate RateLimiter RateRule RateStrategy Remaining "
            "SlowDown WaitReason describe_long_wait describe_open_breaker describe_oversized_call "
            "describe_rate_limit"
        ),
        "retry": (
            "TRANSIENT Backoff GiveUp GiveUpReason Resend Retry RetryAt RetryBudget "
            "RetryBudgetRule RetryRule RetryVerdict format_wait may_resend start_retry"
        ),
        "safe_text": (
            "NotDisplayable Secrets Untrusted escape_for_terminal escape_json escape_text "
            "mark_untrusted quote_name sanitise unmarked wrap_escaped"
        ),
        "scheduler": "AgingRule MoveRefused Priority ProcessState ReadyQueue move ready_rank",
        "scopes": (
            "BINDING NO_RULES CapOverrun InsufficientBudget NeedsHigherCap Notice OnExceed "
            "Reserved Scope ScopeAdmission ScopeClosed ScopeRule ScopeRules SpendWindow "
            "ThresholdCrossed WindowRule"
        ),
        "services": (
            "MOST_SLOTS MOST_TAKEN Service ServiceFacts ServiceHealth ServiceType choose_service"
        ),
        "session": (
            "Instruction PipelineSession ReportRefusal RunAgent StageAsked StageCompleted "
            "StageFailed StageFailure StageOutcome StageTask TaskId WaitForInterrupts "
            "WaitForTasks begin_session failure_of"
        ),
        "supervision": (
            "ChildRecord ChildState ChildType ExitSupervisor KillChild ReportEnded ReportReady "
            "RestartRule RestartStrategy StartChild StopChild SupervisorAction SupervisorMachine "
            "WakeAt"
        ),
        "user_rate": "RateDecision RateSpan SpanUsage UserRate UserRateRule",
    },
)
