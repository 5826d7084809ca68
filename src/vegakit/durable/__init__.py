"""Programs on Temporal: they outlive their workers, and what was paid for is kept (adapter, host).

    client ── updates, signals ──▶ workflow: the program machine ── activities ──▶ the gate

The program itself is the same pure machine that runs locally. It takes agents and reducers; a
coroutine cannot be taken up again by another worker and is refused.
"""

try:
    from vegakit.durable.client import ProgramHandle, TemporalConnection, connect
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] != "temporalio":
        raise
    raise ImportError(
        "programs on Temporal need temporalio, which is not installed; type: "
        "pip install 'vegakit[temporal]'",
        name=error.name,
    ) from error
from vegakit.durable.deployment import Deployment, Role, serve
from vegakit.durable.messages import RECORDS, Launch
from vegakit.durable.workflow import ProgramWorkflow, TemporalHost, register_code

__all__ = [
    "RECORDS",
    "Deployment",
    "Launch",
    "ProgramHandle",
    "ProgramWorkflow",
    "Role",
    "TemporalConnection",
    "TemporalHost",
    "connect",
    "register_code",
    "serve",
]
