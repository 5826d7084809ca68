from vegakit.contracts import (
    PersonAction as PersonAction,
    RolloutMode as RolloutMode,
    RolloutRule as RolloutRule,
    StageChange as StageChange,
)
from vegakit.vesper.comparisons import (
    Comparison as Comparison,
    by_field as by_field,
    close as close,
    exact as exact,
    ignored as ignored,
    judge as judge,
    same_set as same_set,
)
from vegakit.vesper.evidence import (
    KeptDifference as KeptDifference,
    RolloutRecord as RolloutRecord,
)
from vegakit.vesper.monitoring import (
    RolloutAlert as RolloutAlert,
    Webhook as Webhook,
    detection_text as detection_text,
    percent as percent,
    stage_name as stage_name,
)
from vegakit.vesper.native import (
    NATIVE_AFTER as NATIVE_AFTER,
    HotPath as HotPath,
    NativePath as NativePath,
)
from vegakit.vesper.node_debugger import (
    Breakpoint as Breakpoint,
    DebuggedNode as DebuggedNode,
    DebugStop as DebugStop,
    Moment as Moment,
    MomentKind as MomentKind,
    NodeDebugger as NodeDebugger,
    parse_breakpoint as parse_breakpoint,
    read_plain as read_plain,
    shown_moment as shown_moment,
    step_named as step_named,
    with_value as with_value,
)
from vegakit.vesper.node_files import (
    NodeFile as NodeFile,
    find_nodes as find_nodes,
    load_node as load_node,
    parse_node as parse_node,
)
from vegakit.vesper.node_host import (
    MakePath as MakePath,
    NodeHost as NodeHost,
    ask_with as ask_with,
    check_grant as check_grant,
    grant_of as grant_of,
    put_records as put_records,
    read_sensitively as read_sensitively,
    shown_clauses as shown_clauses,
    shown_outcome as shown_outcome,
    shown_records as shown_records,
)
from vegakit.vesper.node_paths import (
    DirectPath as DirectPath,
    Divergence as Divergence,
    NodePath as NodePath,
    NodeReport as NodeReport,
    PythonPath as PythonPath,
    compare_paths as compare_paths,
    written_path as written_path,
)
from vegakit.vesper.node_replay import (
    NewVersion as NewVersion,
    Replay as Replay,
    StepChange as StepChange,
    beside_trace as beside_trace,
    debugged_trace as debugged_trace,
    new_version as new_version,
    parse_change as parse_change,
    replayed as replayed,
    steps_before as steps_before,
    write_version as write_version,
)
from vegakit.vesper.node_rollouts import (
    NodeFailed as NodeFailed,
    NodeRollout as NodeRollout,
    node_agent as node_agent,
    node_rollout as node_rollout,
)
from vegakit.vesper.node_tables import node_schema as node_schema
from vegakit.vesper.node_tools import (
    CallableNode as CallableNode,
    NodeTool as NodeTool,
    ResultCache as ResultCache,
    callable_node as callable_node,
    outputs_of as outputs_of,
    program_nodes as program_nodes,
    show_signature as show_signature,
)
from vegakit.vesper.node_traces import (
    KnownRecords as KnownRecords,
    NodeTrace as NodeTrace,
    Redaction as Redaction,
    TracedEffect as TracedEffect,
    TraceRecorder as TraceRecorder,
    WatchedPath as WatchedPath,
    read_trace as read_trace,
    write_trace as write_trace,
)
from vegakit.vesper.operations import (
    BoundPoint as BoundPoint,
    FoundRollout as FoundRollout,
    RolloutStatus as RolloutStatus,
    StoredRollouts as StoredRollouts,
    is_place as is_place,
    open_rollouts as open_rollouts,
    store_with_rollouts as store_with_rollouts,
)
from vegakit.vesper.paths import CallInputs as CallInputs
from vegakit.vesper.proofs import (
    MOST_ITEMS as MOST_ITEMS,
    SOLVER_EFFORT as SOLVER_EFFORT,
    ClauseProof as ClauseProof,
    NodeProof as NodeProof,
    ProofLimits as ProofLimits,
    ProofVerdict as ProofVerdict,
    prove_node as prove_node,
)
from vegakit.vesper.quotes import (
    QuotedStage as QuotedStage,
    RolloutQuote as RolloutQuote,
    render_rollout_quote as render_rollout_quote,
)
from vegakit.vesper.repository import (
    NodeDependency as NodeDependency,
    NodeRepository as NodeRepository,
    capabilities_of as capabilities_of,
    compiler_version as compiler_version,
    name_of as name_of,
    node_digest as node_digest,
)
from vegakit.vesper.rollouts import RolledOut as RolledOut, rollout as rollout
from vegakit.vesper.shadows import CheckedInput as CheckedInput
