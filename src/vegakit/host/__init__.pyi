from vegakit.host.activity import RARE_NEWS as RARE_NEWS, ActivityLog as ActivityLog
from vegakit.host.admission import (
    AdmissionService as AdmissionService,
    PreparedGrant as PreparedGrant,
)
from vegakit.host.agents import (
    Agent as Agent,
    AskOptions as AskOptions,
    Body as Body,
    Child as Child,
    ChildOptions as ChildOptions,
    Process as Process,
    Reducer as Reducer,
    Reply as Reply,
    StreamEvent as StreamEvent,
    Supervisor as Supervisor,
    TextChunk as TextChunk,
    ToolCalled as ToolCalled,
    ToolReturned as ToolReturned,
    TurnEnded as TurnEnded,
    budget_wait_ms_of as budget_wait_ms_of,
    current_process as current_process,
    only_in_program as only_in_program,
    seconds_of as seconds_of,
)
from vegakit.host.approvals import (
    Approvals as Approvals,
    PermissionPolicy as PermissionPolicy,
    Questions as Questions,
    as_audit as as_audit,
    mode_of as mode_of,
    permission_policy_from as permission_policy_from,
    user_name as user_name,
)
from vegakit.host.authors import (
    AskCost as AskCost,
    cost_of_ask as cost_of_ask,
    cost_of_call as cost_of_call,
)
from vegakit.host.budgets import (
    AGAIN as AGAIN,
    NO_PRICE as NO_PRICE,
    Budgets as Budgets,
    Lease as Lease,
    place_of as place_of,
    price_of as price_of,
    rule_of as rule_of,
    scope_of_agent as scope_of_agent,
)
from vegakit.host.deployment import (
    agent_of as agent_of,
    deploy as deploy,
    program_digest as program_digest,
    python_externals as python_externals,
)
from vegakit.host.effect_handlers import (
    AskContext as AskContext,
    EffectHandlers as EffectHandlers,
    StreamBuffer as StreamBuffer,
)
from vegakit.host.gate import (
    Account as Account,
    Gate as Gate,
    ModelCall as ModelCall,
)
from vegakit.host.journal import (
    EffectRecorder as EffectRecorder,
    JournaledRun as JournaledRun,
    PastAnswers as PastAnswers,
    ProcessRuns as ProcessRuns,
    as_cache as as_cache,
    as_journal as as_journal,
    as_ledger as as_ledger,
    runs_of_process as runs_of_process,
    store_beside as store_beside,
)
from vegakit.host.limiter import (
    Limiter as Limiter,
    LimiterRules as LimiterRules,
    Limits as Limits,
    ModelRegistry as ModelRegistry,
)
from vegakit.host.local import (
    Driver as Driver,
    EffectHandler as EffectHandler,
    LocalHost as LocalHost,
)
from vegakit.host.pending_asks import PendingAsk as PendingAsk, read_media as read_media
from vegakit.host.program_run import ProgramRun as ProgramRun
from vegakit.host.python_interop import (
    PythonInterop as PythonInterop,
    RunProgram as RunProgram,
    ToolLike as ToolLike,
    arguments as arguments,
    python_value as python_value,
    run_program as run_program,
)
from vegakit.host.recovery import (
    Backlog as Backlog,
    CutOffCalls as CutOffCalls,
    Recovered as Recovered,
    charge_missing as charge_missing,
    claims_of as claims_of,
    recover as recover,
    retry_store as retry_store,
)
from vegakit.host.registry import Registry as Registry
from vegakit.host.reuse import (
    Walk as Walk,
    keep_answers as keep_answers,
    keep_rest as keep_rest,
    walk_through as walk_through,
)
from vegakit.host.services import (
    AgentStandIn as AgentStandIn,
    HostServices as HostServices,
    ProgramSend as ProgramSend,
    check_numbers as check_numbers,
    check_parts as check_parts,
)
from vegakit.host.takeovers import (
    TakeoverTerms as TakeoverTerms,
    cut_off_message as cut_off_message,
    takeover as takeover,
)
