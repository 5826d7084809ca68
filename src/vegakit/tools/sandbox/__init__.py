"""Commands that can do no harm: one command at a time, without a shell, in a sandbox (host).

Where no sandbox is, nothing runs.
"""

from vegakit.tools.sandbox.bubblewrap import Bubblewrap
from vegakit.tools.sandbox.choosing import SandboxKind, open_sandbox
from vegakit.tools.sandbox.container import CONTAINER_FLAGS, Container
from vegakit.tools.sandbox.execution import ExecTool
from vegakit.tools.sandbox.limits import Limits
from vegakit.tools.sandbox.seatbelt import Seatbelt

__all__ = [
    "CONTAINER_FLAGS",
    "Bubblewrap",
    "Container",
    "ExecTool",
    "Limits",
    "SandboxKind",
    "Seatbelt",
    "open_sandbox",
]
