"""Every structure, field, default and method that a kernel of this kind has, and ours for it.

A row is `its name : ours @ test`; a part has a test for the rows that name none. Ours is an
operation (`op get_process`), or a name below `vegakit`. Rows of one part that are methods are
counted: the number stands in the heading, so that a row which is lost is missed.
"""

from typing import NamedTuple

from tests.asked import Row

__all__ = ["OURS_ALONE", "PARTS", "PENDING", "Part", "Row", "rows_of"]


class Part(NamedTuple):
    title: str
    total: int
    test: str
    rows: str


def rows_of(part: Part) -> list[Row]:
    found: list[Row] = []
    for line in part.rows.strip().splitlines():
        name, _, rest = line.partition(":")
        ours, _, test = rest.partition("@")
        found.append(Row(part.title, name.strip(), ours.strip(), test.strip() or part.test))
    return found


ANSWER = "test_interrupts.test_an_answer_lets_the_process_go_on_once"
SILENCE = "test_interrupts.test_silence_has_the_consequence_of_the_kind"
ENDS = "test_interrupts.test_a_process_that_ends_takes_its_questions_with_it"
SHOWN = "test_services.test_a_service_is_shown_as_it_registered_itself"
CHOSEN = (
    "test_services.test_the_least_loaded_healthy_service_is_asked_then_a_degraded_one_to_its_half"
)
DONE = "test_services.test_a_request_is_done_and_its_slot_comes_back"
HANDLER = "test_services.test_a_handler_in_the_server_answers_for_every_tenant"
LISTED = "test_services.test_services_are_listed_by_type_and_capability_and_counted"
FILLS = "test_sessions.test_a_session_fills_its_envelope_and_tells_its_steps"
IDLE = "test_sessions.test_a_session_ends_when_it_is_idle_or_its_process_ends"
UPDATE = "test_sessions.test_an_update_is_never_lost"
WAY = "test_processes.test_a_process_goes_its_way_and_every_step_is_told"
USAGE = "test_processes.test_usage_is_counted_once_truly_and_told_when_it_passes_a_limit"
PAGED = "test_processes.test_a_list_is_paged_whole_and_filtered"
RATE = "test_status.test_a_users_rate_is_limited_and_given_back"
STATUS = "test_status.test_the_status_of_the_kernel_counts_all_there_is"
REQUEST = "test_status.test_the_status_of_a_request_is_all_that_is_of_it"
BOUNDS = "test_status.test_every_bound_is_shown_and_the_one_that_ended_it"
FORGET = "test_status.test_a_session_that_has_ended_is_forgotten_and_another_begun"
LISTEN = "test_status.test_listeners_are_told_after_the_commit_in_order_also_of_cancelled_calls"
CANCEL = "test_interrupts.test_cancelled_means_that_nobody_asked"
HELD = "test_interrupts.test_nobody_moves_a_process_past_its_question"
NO_PROCESS = "test_services.test_a_process_that_has_ended_asks_no_service"
FAILS = "test_services.test_what_a_service_says_went_wrong_is_told"
HANDED_ON = (
    "test_services.test_a_request_whose_holder_died_is_handed_out_again_and_the_late_one_refused"
)
LEASE = "test_processes.test_a_process_whose_holder_is_gone_is_ready_again"
REAPED = "test_processes.test_what_ended_long_ago_is_forgotten_with_all_that_is_of_it"
TREE = "test_processes.test_a_tree_ends_from_below"
QUEUE = "test_processes.test_the_queue_is_that_of_the_policy"
PAUSED = "test_sessions.test_a_stage_that_asked_goes_on_however_the_question_is_settled"
PIPELINE = "test_executions.test_a_pipeline_runs_and_its_events_are_told_in_order"
ONE_CALL = "test_executions.test_a_model_is_called_once_within_what_is_left"
COMMAND = "test_commands.test_a_command_goes_to_one_handler_and_its_outcome_is_kept"
FANS_OUT = "test_bus.test_what_is_published_fans_out_with_who_did"
ONE_BUS = "test_bus.test_two_servers_with_one_redis_are_one_bus"
DRAINED = "test_serve.test_a_drained_server_ends_its_streams_and_waiting_calls"
SETTINGS = "test_serve.test_settings_of_the_file_and_the_environment_hold"
SAYS = "test_serve.test_a_server_says_where_it_is_and_what_to_type"
METHODS = "test_grpc.test_every_operation_is_a_method_of_one_service"
EVERY = "test_http.test_every_operation_works_and_none_is_left_out"

PARTS = (
    Part(
        "Interrupts: structures",
        32,
        ANSWER,
        f"""
        InterruptService.interrupts: kernel.tables.INTERRUPT
        InterruptService.process_interrupts: kernel.processes.open_questions @ {ENDS}
        InterruptService.configs: policy.INTERRUPT_KINDS @ {SILENCE}
        KernelInterrupt.flow_interrupt: control.InterruptRecord.interrupt
        KernelInterrupt.status: policy.Interrupt.status
        KernelInterrupt.created_at: policy.Interrupt.opened_ms
        KernelInterrupt.resolved_at: policy.Interrupt.settled_ms
        KernelInterrupt.expires_at: policy.Interrupt.expires_ms @ {SILENCE}
        InterruptConfig.default_ttl: policy.interrupts.KindRule.ttl_ms @ {SILENCE}
        InterruptConfig.auto_expire: policy.interrupts.KindRule.at_expiry @ {SILENCE}
        InterruptConfig.require_response: policy.interrupts.KindRule.needs_response @ {SILENCE}
        FlowInterrupt.id: policy.InterruptRequest.id
        FlowInterrupt.pid: policy.InterruptRequest.owner
        FlowInterrupt.request: control.InterruptRecord.request
        FlowInterrupt.user: control.InterruptRecord.user
        FlowInterrupt.kind: policy.InterruptRequest.kind
        FlowInterrupt.question: policy.InterruptRequest.text
        FlowInterrupt.message: control.InterruptRecord.message
        FlowInterrupt.data: control.InterruptRecord.data
        FlowInterrupt.response: policy.Interrupt.answer
        InterruptResponse.text: policy.Replied.value
        InterruptResponse.approved: policy.Approved
        InterruptResponse.decision: policy.InterruptAnswer
        InterruptResponse.data: policy.Replied.value
        InterruptResponse.resolved_by: policy.Interrupt.answered_by
        InterruptKind: policy.InterruptKind @ {SILENCE}
        InterruptStatus: policy.InterruptStatus @ {SILENCE}
        InterruptStatus.pending: policy.InterruptStatus.PENDING @ {SILENCE}
        InterruptStatus.resolved: policy.InterruptStatus.RESOLVED
        InterruptStatus.expired: policy.InterruptStatus.EXPIRED @ {SILENCE}
        InterruptStatus.cancelled: policy.InterruptStatus.CANCELLED @ {ENDS}
        Kernel.interrupts: kernel.interrupts
        """,
    ),
    Part(
        "Interrupts: methods",
        11,
        ANSWER,
        f"""
        new: policy.InterruptRule @ {SILENCE}
        create_interrupt: op create_interrupt
        resolve_interrupt: op resolve_interrupt
        get_interrupt: op get_interrupt @ {SILENCE}
        get_pending_interrupt: op get_pending_interrupt
        list_interrupts: op list_interrupts @ {ENDS}
        cancel_interrupt: op cancel_interrupt @ {CANCEL}
        expire_old_interrupts: kernel.interrupts.expire @ {SILENCE}
        get_status: op get_interrupt @ {SILENCE}
        has_pending: op get_pending_interrupt
        cleanup_process_interrupts: kernel.processes.ended @ {ENDS}
        """,
    ),
    Part(
        "Services: structures",
        29,
        SHOWN,
        f"""
        ServiceRegistry.services: kernel.tables.SERVICE
        ServiceRegistry.handlers: kernel.Kernel.register_handler @ {HANDLER}
        ServiceRegistry.type_index: control.ListServicesRequest.type @ {LISTED}
        ServiceInfo.name: policy.ServiceFacts.name
        ServiceInfo.service_type: policy.ServiceFacts.type
        ServiceInfo.version: policy.ServiceFacts.version
        ServiceInfo.capabilities: policy.ServiceFacts.capabilities
        ServiceInfo.max_concurrent: policy.ServiceFacts.max_concurrent
        ServiceInfo.current_load: control.ServiceView.load
        ServiceInfo.status: policy.ServiceFacts.health
        ServiceInfo.last_health_check: policy.ServiceFacts.checked_ms
        ServiceInfo.metadata: policy.ServiceFacts.metadata
        type flow: policy.ServiceType.FLOW @ {LISTED}
        type worker: policy.ServiceType.WORKER @ {STATUS}
        type vertical: policy.ServiceType.VERTICAL @ {LISTED}
        type inference: policy.ServiceType.INFERENCE
        ServiceHandler: kernel.ServiceHandler @ {HANDLER}
        ServiceRequest.pid: control.ServiceRequest.pid @ {NO_PROCESS}
        ServiceRequest.envelope: control.ServiceRequest.envelope @ {DONE}
        ServiceRequest.metadata: control.ServiceRequest.metadata @ {DONE}
        ServiceResponse.envelope: control.ServiceResponse.envelope @ {DONE}
        ServiceResponse.error: control.ServiceResponse.error @ {FAILS}
        ServiceResponse.metadata: control.ServiceResponse.metadata @ {DONE}
        ServiceStatus.Healthy: policy.ServiceHealth.HEALTHY
        ServiceStatus.Degraded: policy.ServiceHealth.DEGRADED @ {CHOSEN}
        ServiceStatus.Unhealthy: policy.ServiceHealth.UNHEALTHY @ {CHOSEN}
        ServiceStatus.Unknown: policy.ServiceHealth.UNKNOWN @ {CHOSEN}
        stats: control.ServiceStats @ {LISTED}
        Kernel.services: kernel.services
        """,
    ),
    Part(
        "Services: methods",
        13,
        SHOWN,
        f"""
        new: policy.Service
        register_service: op register_service
        unregister_service: op unregister_service
        register_handler: kernel.Kernel.register_handler @ {HANDLER}
        get_service: op get_service
        list_services: op list_services @ {LISTED}
        list_services_by_type: op list_services @ {LISTED}
        update_health: op update_health @ {LISTED}
        can_accept: policy.Service.can_accept @ {CHOSEN}
        acquire_slot: policy.Service.acquire_slot @ {DONE}
        release_slot: policy.Service.release_slot @ {DONE}
        dispatch: op dispatch @ {DONE}
        get_stats: op get_service_stats @ {LISTED}
        """,
    ),
    Part(
        "Sessions: structures",
        28,
        FILLS,
        f"""
        Orchestrator.sessions: kernel.tables.SESSION
        OrchestrationSession.process_id: control.SessionRecord.pid
        OrchestrationSession.pipeline_config: policy.PipelineSession.pipeline
        OrchestrationSession.envelope: control.SessionRecord.envelope
        OrchestrationSession.edge_traversals: policy.PipelineSession.taken @ {BOUNDS}
        OrchestrationSession.terminated: policy.PipelineSession.ended
        OrchestrationSession.terminal_reason: policy.Terminate.reason
        OrchestrationSession.created_at: control.SessionRecord.created_ms
        OrchestrationSession.last_activity_at: control.SessionRecord.active_ms @ {IDLE}
        Instruction.kind: policy.Instruction
        Instruction.agent_name: policy.StageTask.agent
        Instruction.agent_config: policy.StageTask.tools
        Instruction.tasks: policy.RunAgent.tasks
        Instruction.envelope: control.SessionReply.envelope
        Instruction.terminal_reason: policy.Terminate.reason
        Instruction.termination_message: control.SessionReply.message
        Instruction.interrupt_pending: policy.WaitForInterrupts @ {PAUSED}
        Instruction.interrupt: policy.WaitForInterrupts.interrupts @ {PAUSED}
        InstructionKind.RunAgent: policy.RunAgent
        InstructionKind.Terminate: policy.Terminate
        InstructionKind.WaitInterrupt: policy.WaitForInterrupts @ {PAUSED}
        AgentExecutionMetrics.llm_calls: control.ExecutionMetrics.llm_calls
        AgentExecutionMetrics.tool_calls: control.ExecutionMetrics.tool_calls
        AgentExecutionMetrics.tokens_in: control.ExecutionMetrics.tokens_in
        AgentExecutionMetrics.tokens_out: control.ExecutionMetrics.tokens_out
        AgentExecutionMetrics.duration_ms: control.ExecutionMetrics.duration_ms
        AgentExecutionMetrics.cost: control.ExecutionMetrics.cost
        Kernel.orchestrator: kernel.sessions
        """,
    ),
    Part(
        "Sessions: methods",
        8,
        FILLS,
        f"""
        new: policy.begin_session
        initialize_session: op initialize_session
        get_next_instruction: op get_next_instruction
        report_agent_result: op report_agent_result
        get_session_state: op get_session_state @ {FORGET}
        terminate_session: op terminate_session @ test_sessions.test_the_first_reason_stands
        cleanup_session: op forget_session @ {FORGET}
        evaluate_routing: policy.Stage.next_after
        """,
    ),
    Part(
        "Processes",
        21,
        WAY,
        f"""
        ProcessControlBlock: control.KernelProcess
        pid: control.KernelProcess.pid
        request: control.KernelProcess.request
        user: control.KernelProcess.user
        session: control.KernelProcess.session
        parent: control.KernelProcess.parent @ {TREE}
        children: control.KernelProcess.children @ {TREE}
        priority: control.KernelProcess.priority @ {QUEUE}
        state: control.KernelProcess.state
        quota: control.KernelProcess.quota @ {USAGE}
        usage: policy.Quota.used @ {FILLS}
        current stage: control.KernelProcess.stage
        current service: control.KernelProcess.service
        pending interrupt: control.KernelProcess.interrupt @ {HELD}
        created_at: control.KernelProcess.created_ms
        started_at: control.KernelProcess.started_ms
        completed_at: control.KernelProcess.ended_ms
        ProcessState: policy.ProcessState
        Priority: policy.Priority @ {QUEUE}
        Kernel.lifecycle: kernel.processes
        ready queue: policy.ready_rank @ {QUEUE}
        """,
    ),
    Part(
        "KernelService: calls",
        12,
        WAY,
        f"""
        CreateProcess: op create_process
        GetProcess: op get_process @ {LEASE}
        ScheduleProcess: op schedule_process
        GetNextRunnable: op get_next_runnable
        TransitionState: op transition_state
        TerminateProcess: op terminate_process
        CheckQuota: op check_quota @ {USAGE}
        RecordUsage: op record_usage @ {USAGE}
        CheckRateLimit: op check_rate_limit @ {RATE}
        ListProcesses: op list_processes @ {PAGED}
        GetProcessCounts: op get_process_counts @ {PAGED}
        Submit: op submit @ test_processes.test_whoever_asks_again_makes_no_second_process
        """,
    ),
    Part(
        "EngineService: calls",
        9,
        UPDATE,
        f"""
        CreateEnvelope: op create_envelope
        UpdateEnvelope: op update_envelope
        CheckBounds: op check_bounds @ {BOUNDS}
        ExecutePipeline: op execute_pipeline @ {PIPELINE}
        ExecuteAgent: op execute_agent @ test_executions.test_one_agent_answers_and_is_counted
        CloneEnvelope: op clone_envelope
        store_envelope: kernel.tables.KernelTables.put
        get_envelope: op get_envelope
        get_envelope_mut: op update_envelope
        """,
    ),
    Part(
        "OrchestrationService and CommBusService: calls",
        8,
        FILLS,
        f"""
        InitializeSession: op initialize_session
        GetNextInstruction: op get_next_instruction
        ReportAgentResult: op report_agent_result
        GetSessionState: op get_session_state @ {FORGET}
        Publish: op publish @ {FANS_OUT}
        Send: op send @ {COMMAND}
        Query: op query @ {ONE_BUS}
        Subscribe: op subscribe @ {FANS_OUT}
        """,
    ),
    Part(
        "Kernel: methods",
        20,
        ANSWER,
        f"""
        create_interrupt: op create_interrupt
        resolve_interrupt: op resolve_interrupt
        get_pending_interrupt: op get_pending_interrupt
        register_service: op register_service @ {SHOWN}
        unregister_service: op unregister_service @ {SHOWN}
        register_handler: kernel.Kernel.register_handler @ {HANDLER}
        dispatch: op dispatch @ {HANDLER}
        dispatch_inference: op dispatch_inference @ {ONE_CALL}
        initialize_orchestration: op initialize_session @ {FILLS}
        get_next_instruction: op get_next_instruction @ {FILLS}
        report_agent_result: op report_agent_result @ {FILLS}
        get_orchestration_state: op get_session_state @ {FORGET}
        record_usage: op record_usage @ {USAGE}
        record_tool_call: policy.Consumption.tool_calls @ {FILLS}
        record_agent_hop: policy.Consumption.agent_hops @ {FILLS}
        get_remaining_budget: op get_remaining @ {REQUEST}
        cleanup_process: kernel.processes.reap @ {REAPED}
        cleanup: kernel.Kernel.sweep @ {SILENCE}
        shutdown: kernel.Kernel.drain @ {DRAINED}
        emit_event: kernel.tables.KernelTables.emit @ {LISTEN}
        """,
    ),
    Part(
        "What is left",
        7,
        USAGE,
        f"""
        RemainingBudget: policy.RemainingBudget
        llm_calls_remaining: policy.RemainingBudget.model_calls
        iterations_remaining: policy.RemainingBudget.iterations @ {BOUNDS}
        agent_hops_remaining: policy.RemainingBudget.agent_hops @ {BOUNDS}
        tokens_in_remaining: policy.RemainingBudget.input_tokens
        tokens_out_remaining: policy.RemainingBudget.output_tokens
        time_remaining_seconds: policy.RemainingBudget.wall_ms @ {BOUNDS}
        """,
    ),
    Part(
        "Events",
        14,
        WAY,
        f"""
        KernelEventHandler: kernel.EventListener @ {LISTEN}
        on_event: kernel.Kernel.on_event @ {LISTEN}
        ProcessCreated: control.KernelEventKind.PROCESS_CREATED
        ProcessStateChanged: control.KernelEventKind.PROCESS_STATE_CHANGED
        ProcessTerminated: control.KernelEventKind.PROCESS_TERMINATED
        ResourceExceeded: control.KernelEventKind.RESOURCE_EXCEEDED @ {USAGE}
        InterruptCreated: control.KernelEventKind.INTERRUPT_CREATED @ {EVERY}
        InterruptResolved: control.KernelEventKind.INTERRUPT_RESOLVED @ {ENDS}
        pcb: control.KernelEvent.pid
        old_state: control.KernelEvent.detail
        reason: control.KernelEvent.detail
        resource: control.KernelEvent.detail @ {USAGE}
        interrupt: control.KernelEvent.detail @ {ENDS}
        Kernel.events: op watch_events
        """,
    ),
    Part(
        "Status",
        13,
        STATUS,
        f"""
        SystemStatus: control.SystemStatus
        uptime_seconds: control.SystemStatus.uptime_ms
        process_counts: control.ProcessCounts.by_state
        total_processes: control.ProcessCounts.total
        service_counts: control.SystemStatus.services
        rate_limit_usage: control.SystemStatus.rate_limits @ {RATE}
        RequestStatus: control.KernelRequestStatus @ {REQUEST}
        pcb: control.KernelRequestStatus.process @ {REQUEST}
        envelope: control.KernelRequestStatus.envelope @ {REQUEST}
        pending_interrupt: control.KernelRequestStatus.interrupt @ {REQUEST}
        remaining_budget: control.KernelRequestStatus.remaining @ {REQUEST}
        get_system_status: op get_system_status
        get_request_status: op get_request_status @ {REQUEST}
        """,
    ),
    Part(
        "Subsystems and server",
        11,
        EVERY,
        f"""
        resources: policy.Quota @ {USAGE}
        rate_limiter: policy.UserRate @ {RATE}
        RateLimitUsage: policy.SpanUsage @ {RATE}
        logging: telemetry.LogOutput @ test_serve.test_logs_are_lines_of_json
        Config from the environment: config.tables.ServeTable @ {SETTINGS}
        KernelServiceServer: server.serve_grpc @ {METHODS}
        EngineServiceServer: server.serve_grpc @ {METHODS}
        OrchestrationServiceServer: server.serve_grpc @ {METHODS}
        CommBusServiceServer: server.serve_grpc @ {METHODS}
        main: cli.serve.serve_command @ {SAYS}
        shutdown_signal: server.serve.run_server @ {DRAINED}
        """,
    ),
)

PENDING: frozenset[str] = frozenset()
"""What is not there yet. When it is, it leaves this set, and its row names it and its test."""
OURS_ALONE = {
    "renew_process": LEASE,
    "use_approval": "test_interrupts.test_an_approval_is_used_once_in_time_for_its_action",
    "renew_task": "test_sessions.test_a_lease_is_renewed_and_ends",
    "take_request": DONE,
    "renew_request": HANDED_ON,
    "complete_request": DONE,
    "take_command": COMMAND,
    "renew_command": (
        "test_commands.test_a_handler_that_is_gone_is_followed_and_cannot_answer_any_more"
    ),
    "answer_command": COMMAND,
    "get_command": COMMAND,
    **dict.fromkeys(
        ("list_tenants", "get_tenant_budget", "set_tenant_budget", "get_budget"),
        "test_executions.test_a_budget_that_is_set_holds_at_every_server_at_once",
    ),
}
"""Operations for which there is no other name, and the test that calls each."""
