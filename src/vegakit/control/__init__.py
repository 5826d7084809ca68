"""Operations on a running system: tables, their records, and the clients of a socket and of a
kernel that is served (host).

Each part is loaded when it is first used: the records need no event loop, and the client of a
socket needs no program machine.
"""

from vegakit.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vegakit.control.bus_messages import (
        AnswerCommandRequest as AnswerCommandRequest,
        CommandIdRequest as CommandIdRequest,
        CommandRecord as CommandRecord,
        CommandStatus as CommandStatus,
        PublishedMessage as PublishedMessage,
        PublishRequest as PublishRequest,
        QueryRequest as QueryRequest,
        RenewCommandRequest as RenewCommandRequest,
        SendRequest as SendRequest,
        SubscribeRequest as SubscribeRequest,
        TakeCommandRequest as TakeCommandRequest,
        TakenCommand as TakenCommand,
        TopicItem as TopicItem,
        TopicItemKind as TopicItemKind,
    )
    from vegakit.control.client import (
        BlockingControlClient as BlockingControlClient,
        ControlClient as ControlClient,
        connect as connect,
    )
    from vegakit.control.execution_messages import (
        AgentAnswer as AgentAnswer,
        ExecuteAgentRequest as ExecuteAgentRequest,
        ExecutePipelineRequest as ExecutePipelineRequest,
        InferenceRequest as InferenceRequest,
        ListTenantsRequest as ListTenantsRequest,
        MessageRole as MessageRole,
        NumberedPipelineEvent as NumberedPipelineEvent,
        PipelineEvent as PipelineEvent,
        PipelineEventKind as PipelineEventKind,
        SaidMessage as SaidMessage,
        SetTenantBudgetRequest as SetTenantBudgetRequest,
        TenantBudget as TenantBudget,
        TenantPage as TenantPage,
        TenantRecord as TenantRecord,
        TenantRequest as TenantRequest,
    )
    from vegakit.control.kernel_calls import KernelCalls as KernelCalls
    from vegakit.control.kernel_client import (
        KernelClient as KernelClient,
        KernelUnavailableError as KernelUnavailableError,
    )
    from vegakit.control.kernel_messages import (
        CheckQuotaRequest as CheckQuotaRequest,
        CreateEnvelopeRequest as CreateEnvelopeRequest,
        CreateInterruptRequest as CreateInterruptRequest,
        CreateProcessRequest as CreateProcessRequest,
        EnvelopeIdRequest as EnvelopeIdRequest,
        ExecutionMetrics as ExecutionMetrics,
        InitializeSessionRequest as InitializeSessionRequest,
        InterruptIdRequest as InterruptIdRequest,
        InterruptPage as InterruptPage,
        InterruptRecord as InterruptRecord,
        KernelEvent as KernelEvent,
        KernelEventKind as KernelEventKind,
        KernelProcess as KernelProcess,
        ListInterruptsRequest as ListInterruptsRequest,
        ListProcessesRequest as ListProcessesRequest,
        NextInstructionRequest as NextInstructionRequest,
        NextRunnable as NextRunnable,
        NextRunnableRequest as NextRunnableRequest,
        NumberedEvent as NumberedEvent,
        PendingInterrupt as PendingInterrupt,
        PidRequest as PidRequest,
        PipelineEnvelope as PipelineEnvelope,
        ProcessCounts as ProcessCounts,
        ProcessingRecord as ProcessingRecord,
        ProcessPage as ProcessPage,
        QuotaReply as QuotaReply,
        RecordUsageRequest as RecordUsageRequest,
        RenewProcessRequest as RenewProcessRequest,
        RenewTaskRequest as RenewTaskRequest,
        ReportRequest as ReportRequest,
        ResolveInterruptRequest as ResolveInterruptRequest,
        SessionRecord as SessionRecord,
        SessionReply as SessionReply,
        TaskLease as TaskLease,
        TerminateProcessRequest as TerminateProcessRequest,
        TerminateSessionRequest as TerminateSessionRequest,
        TransitionRequest as TransitionRequest,
        UpdateEnvelopeRequest as UpdateEnvelopeRequest,
        UseApprovalRequest as UseApprovalRequest,
        WatchRequest as WatchRequest,
    )
    from vegakit.control.kernel_operations import KERNEL_OPERATIONS as KERNEL_OPERATIONS
    from vegakit.control.messages import (
        CheckReply as CheckReply,
        CostLine as CostLine,
        CostReply as CostReply,
        EmptyRequest as EmptyRequest,
        ExplainReply as ExplainReply,
        FlowReply as FlowReply,
        Health as Health,
        KillResult as KillResult,
        Language as Language,
        LogEntry as LogEntry,
        ProcessKind as ProcessKind,
        ProcessStatus as ProcessStatus,
        ProcessView as ProcessView,
        ProgramRequest as ProgramRequest,
        RunReply as RunReply,
        RuntimeView as RuntimeView,
        UnboundedLine as UnboundedLine,
        is_within as is_within,
    )
    from vegakit.control.operations import (
        ALL_RIGHTS as ALL_RIGHTS,
        OPERATIONS as OPERATIONS,
        Operation as Operation,
        OperationError as OperationError,
        RefusalCode as RefusalCode,
        ReplyShape as ReplyShape,
        Right as Right,
        offered_by as offered_by,
        select as select,
        values as values,
    )
    from vegakit.control.process_views import (
        HostFacts as HostFacts,
        KillPlan as KillPlan,
        plan_kill as plan_kill,
        reserved_by_path as reserved_by_path,
        resolve as resolve,
        views_of as views_of,
    )
    from vegakit.control.questions import (
        Question as Question,
        answer_command as answer_command,
        answer_from as answer_from,
        question_of as question_of,
        refusal_text as refusal_text,
        render_question as render_question,
        short_id as short_id,
    )
    from vegakit.control.service_messages import (
        Bound as Bound,
        BoundsReply as BoundsReply,
        CheckRateLimitRequest as CheckRateLimitRequest,
        CompleteCallRequest as CompleteCallRequest,
        DispatchReply as DispatchReply,
        DispatchRequest as DispatchRequest,
        KernelRequestStatus as KernelRequestStatus,
        ListServicesRequest as ListServicesRequest,
        RateLimitReply as RateLimitReply,
        RegisterServiceRequest as RegisterServiceRequest,
        RenewCallRequest as RenewCallRequest,
        ServiceCall as ServiceCall,
        ServiceNameRequest as ServiceNameRequest,
        ServiceOutcome as ServiceOutcome,
        ServicePage as ServicePage,
        ServiceRequest as ServiceRequest,
        ServiceResponse as ServiceResponse,
        ServiceStats as ServiceStats,
        ServiceView as ServiceView,
        SystemStatus as SystemStatus,
        TakeCallRequest as TakeCallRequest,
        TakenCall as TakenCall,
        UpdateHealthRequest as UpdateHealthRequest,
        UserRateUsage as UserRateUsage,
    )
    from vegakit.control.sockets import (
        decode_request as decode_request,
        encode_reply as encode_reply,
        is_mine as is_mine,
        open_socket as open_socket,
    )


__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "bus_messages": (
            "AnswerCommandRequest CommandIdRequest CommandRecord CommandStatus PublishRequest "
            "PublishedMessage QueryRequest RenewCommandRequest SendRequest SubscribeRequest "
            "TakeCommandRequest TakenCommand TopicItem TopicItemKind"
        ),
        "client": "BlockingControlClient ControlClient connect",
        "kernel_calls": "KernelCalls",
        "kernel_client": "KernelClient KernelUnavailableError",
        "execution_messages": (
            "AgentAnswer ExecuteAgentRequest ExecutePipelineRequest InferenceRequest MessageRole "
            "NumberedPipelineEvent PipelineEvent PipelineEventKind SaidMessage "
            "ListTenantsRequest SetTenantBudgetRequest TenantBudget TenantPage TenantRecord "
            "TenantRequest"
        ),
        "kernel_messages": (
            "CheckQuotaRequest CreateEnvelopeRequest CreateInterruptRequest "
            "CreateProcessRequest PipelineEnvelope EnvelopeIdRequest ExecutionMetrics "
            "InitializeSessionRequest InterruptIdRequest InterruptPage InterruptRecord "
            "KernelEvent KernelEventKind ListInterruptsRequest ListProcessesRequest "
            "NextInstructionRequest NextRunnable NextRunnableRequest NumberedEvent "
            "PendingInterrupt PidRequest ProcessCounts ProcessPage KernelProcess "
            "ProcessingRecord QuotaReply RecordUsageRequest RenewProcessRequest "
            "RenewTaskRequest ReportRequest ResolveInterruptRequest SessionRecord "
            "SessionReply TaskLease TerminateProcessRequest "
            "TerminateSessionRequest TransitionRequest UpdateEnvelopeRequest "
            "UseApprovalRequest WatchRequest"
        ),
        "kernel_operations": "KERNEL_OPERATIONS",
        "messages": (
            "CheckReply CostLine CostReply EmptyRequest ExplainReply FlowReply Health KillResult "
            "Language LogEntry ProcessKind ProcessStatus ProcessView ProgramRequest RunReply "
            "RuntimeView UnboundedLine is_within"
        ),
        "operations": (
            "ALL_RIGHTS OPERATIONS Operation OperationError RefusalCode ReplyShape Right "
            "offered_by select values"
        ),
        "process_views": "HostFacts KillPlan plan_kill reserved_by_path resolve views_of",
        "questions": (
            "Question answer_command answer_from question_of refusal_text render_question short_id"
        ),
        "service_messages": (
            "Bound BoundsReply CheckRateLimitRequest CompleteCallRequest DispatchReply "
            "DispatchRequest ListServicesRequest RateLimitReply RegisterServiceRequest "
            "RenewCallRequest KernelRequestStatus ServiceCall ServiceNameRequest ServiceOutcome "
            "ServicePage ServiceRequest ServiceResponse ServiceStats ServiceView SystemStatus "
            "TakenCall TakeCallRequest UpdateHealthRequest UserRateUsage"
        ),
        "sockets": "decode_request encode_reply is_mine open_socket",
    },
)
