from vegakit.control import Question as Question
from vegakit.host import (
    Agent as Agent,
    Child as Child,
    Process as Process,
    Reducer as Reducer,
    Reply as Reply,
    RunProgram as RunProgram,
    StreamEvent as StreamEvent,
    Supervisor as Supervisor,
    TextChunk as TextChunk,
    ToolCalled as ToolCalled,
    ToolReturned as ToolReturned,
    TurnEnded as TurnEnded,
    run_program as run_program,
)
from vegakit.program import (
    BreakerClosed as BreakerClosed,
    BreakerOpened as BreakerOpened,
    CallQueued as CallQueued,
    CallRetried as CallRetried,
    CostAlert as CostAlert,
    ProcessExited as ProcessExited,
    ProcessRestarted as ProcessRestarted,
    ProcessSpawned as ProcessSpawned,
    ProcessStuck as ProcessStuck,
    ProgramQuote as ProgramQuote,
)
from vegakit.sdk.ask import Ask as Ask
from vegakit.sdk.composition import (
    ModelFinder as ModelFinder,
    RuntimeOptions as RuntimeOptions,
    adopt as adopt,
    runtime_arguments as runtime_arguments,
)
from vegakit.sdk.control_server import (
    ControlServer as ControlServer,
    RuntimeControl as RuntimeControl,
)
from vegakit.sdk.known_world import ProjectWorld as ProjectWorld
from vegakit.sdk.patterns import map_all as map_all, race as race, retry_until as retry_until
from vegakit.sdk.pipeline_files import (
    PIPELINE_SUFFIXES as PIPELINE_SUFFIXES,
    PipelineFile as PipelineFile,
    agent_spec as agent_spec,
    pipeline_module as pipeline_module,
    pipeline_schema as pipeline_schema,
    read_pipeline as read_pipeline,
)
from vegakit.sdk.programs import (
    Failed as Failed,
    LoadHook as LoadHook,
    MaxLen as MaxLen,
    ProgramRefused as ProgramRefused,
    PythonProgram as PythonProgram,
    VegaFunction as VegaFunction,
    VegaProgram as VegaProgram,
    interop_at as interop_at,
    load as load,
    names_at as names_at,
    parallel as parallel,
    program as program,
    session as session,
    spawn as spawn,
    tools_at as tools_at,
    vega as vega,
)
from vegakit.sdk.runtime import Runtime as Runtime
from vegakit.sdk.sources import (
    CheckedSource as CheckedSource,
    Source as Source,
    check_source as check_source,
    load_bytecode as load_bytecode,
    nodes_in as nodes_in,
    programs_below as programs_below,
    project_root as project_root,
    python_functions as python_functions,
    with_rules as with_rules,
)
