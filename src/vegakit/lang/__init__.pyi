from vegakit.ids import ANY_AGENT as ANY_AGENT
from vegakit.lang.analysis.cost_bounds import CostBound as CostBound
from vegakit.lang.analysis.cost_sends import (
    ModelTerms as ModelTerms,
    Quote as Quote,
    QuotedLine as QuotedLine,
    SendTerms as SendTerms,
    Unbounded as Unbounded,
    cost_of as cost_of,
    in_order as in_order,
)
from vegakit.lang.analysis.cost_statements import (
    KnownRun as KnownRun,
    main_params as main_params,
)
from vegakit.lang.analysis.cost_typical import typical_cost as typical_cost
from vegakit.lang.analysis.dataflow import (
    DataflowGraph as DataflowGraph,
    DataflowLink as DataflowLink,
    DataflowStep as DataflowStep,
    LinkKind as LinkKind,
    ShownStep as ShownStep,
    StepKind as StepKind,
    deciding_links as deciding_links,
    shown_steps as shown_steps,
    side_by_side as side_by_side,
)
from vegakit.lang.analysis.dataflow_statements import dataflow_of as dataflow_of
from vegakit.lang.analysis.effects import (
    NO_EFFECTS as NO_EFFECTS,
    EffectClass as EffectClass,
    EffectSet as EffectSet,
    Manifest as Manifest,
    ModuleEffects as ModuleEffects,
    conflict as conflict,
    file_path as file_path,
    joined as joined,
    manifest_of as manifest_of,
    on_path as on_path,
)
from vegakit.lang.analysis.quotes import (
    budget_of_main as budget_of_main,
    cost_of_round as cost_of_round,
    kill_cost as kill_cost,
    quote as quote,
    sends_of as sends_of,
    tightenings as tightenings,
    with_typical as with_typical,
)
from vegakit.lang.analysis.speculation import (
    CARVES as CARVES,
    PAUSES as PAUSES,
    SENDS as SENDS,
    STOPS as STOPS,
    SpeculationRules as SpeculationRules,
    changes as changes,
    only_reads as only_reads,
)
from vegakit.lang.check.rights import (
    denied_calls as denied_calls,
    faults_of_rules as faults_of_rules,
)
from vegakit.lang.check.symbols import Checked as Checked, signature_text as signature_text
from vegakit.lang.codegen.bytecode import (
    AgentSpec as AgentSpec,
    CompiledTool as CompiledTool,
    Function as Function,
    Handler as Handler,
    Module as Module,
    Op as Op,
    Rights as Rights,
    SupervisorSpec as SupervisorSpec,
)
from vegakit.lang.codegen.compiler import compile_program as compile_program
from vegakit.lang.codegen.disassembler import disassemble as disassemble
from vegakit.lang.codegen.verifier import from_vgb as from_vgb, to_vgb as to_vgb
from vegakit.lang.diagnostics import (
    MOST_STEPS as MOST_STEPS,
    Diagnostic as Diagnostic,
    TooMuchWorkError as TooMuchWorkError,
    as_json as as_json,
    render as render,
    spare_steps as spare_steps,
    step_limit as step_limit,
)
from vegakit.lang.frontends import (
    check_program as check_program,
    declared_nodes as declared_nodes,
)
from vegakit.lang.language_card import card as card
from vegakit.lang.library import (
    CATCHABLE as CATCHABLE,
    CONFIRM as CONFIRM,
    LIBRARY as LIBRARY,
    in_project as in_project,
)
from vegakit.lang.pieces import (
    IT as IT,
    PIECE_FILE as PIECE_FILE,
    Piece as Piece,
    PieceByPiece as PieceByPiece,
    is_open as is_open,
)
from vegakit.lang.python.lowering import lower as lower
from vegakit.lang.python.printer_program import to_python as to_python
from vegakit.lang.schemas import (
    Problem as Problem,
    answer_of as answer_of,
    answer_schema as answer_schema,
    arguments_of as arguments_of,
    schema_of as schema_of,
    value_of as value_of,
)
from vegakit.lang.syntax.formatter import format_source as format_source
from vegakit.lang.syntax.parser import parse as parse
from vegakit.lang.types import (
    ANY as ANY,
    BOOL as BOOL,
    DURATION as DURATION,
    FLOAT as FLOAT,
    INT as INT,
    MONEY as MONEY,
    NOTHING as NOTHING,
    NULL as NULL,
    STR as STR,
    ChoiceOf as ChoiceOf,
    FutureOf as FutureOf,
    ListOf as ListOf,
    MapOf as MapOf,
    OptionalOf as OptionalOf,
    Parameter as Parameter,
    Plain as Plain,
    ProcessOf as ProcessOf,
    RecordOf as RecordOf,
    Signature as Signature,
    StreamOf as StreamOf,
    Type as Type,
    type_label as type_label,
)
