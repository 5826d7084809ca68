"""Programs on Temporal: they outlive their workers, and what was paid for is kept (adapter, host).

    client ── updates, signals ──▶ workflow: the program machine ── activities ──▶ the gate

The program itself is the same pure machine that runs locally. It takes agents and reducers; a
coroutine cannot be taken up again by another worker and is refused.
"""

from vegakit.durable.client import Connection, ProgramHandle, connect
from vegakit.durable.deployments import Deployment
from vegakit.durable.host import TemporalHost
from vegakit.durable.messages import Launch
from vegakit.durable.payloads import RECORDS
from vegakit.durable.serving import Role, serve
from vegakit.durable.workflows import ProgramWorkflow, provide

__all__ = [
    "RECORDS",
    "Connection",
    "Deployment",
    "Launch",
    "ProgramHandle",
    "ProgramWorkflow",
    "Role",
    "TemporalHost",
    "connect",
    "provide",
    "serve",
]
