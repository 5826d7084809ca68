from vegakit.errors import (
    AgentFailed as AgentFailed,
    BudgetExceeded as BudgetExceeded,
    Cancelled as Cancelled,
    CapabilityDenied as CapabilityDenied,
    CircuitOpen as CircuitOpen,
    ContractViolated as ContractViolated,
    LimitReached as LimitReached,
    OutputTruncated as OutputTruncated,
    ProgramChanged as ProgramChanged,
    RateLimited as RateLimited,
    Timeout as Timeout,
    ToolFailed as ToolFailed,
    VegaError as VegaError,
)
from vegakit.lang import card as card
from vegakit.money import Dollars as Dollars
from vegakit.program import Bounds as Bounds, ProgramRights as ProgramRights
from vegakit.sdk import (
    Agent as Agent,
    Child as Child,
    Failed as Failed,
    MaxLen as MaxLen,
    Process as Process,
    Reducer as Reducer,
    Reply as Reply,
    Runtime as Runtime,
    Supervisor as Supervisor,
    adopt as adopt,
    load as load,
    map_all as map_all,
    parallel as parallel,
    program as program,
    race as race,
    retry_until as retry_until,
    run_program as run_program,
    session as session,
    spawn as spawn,
    vega as vega,
)
from vegakit.telemetry import trace as trace
from vegakit.tools import tool as tool

__version__: str
