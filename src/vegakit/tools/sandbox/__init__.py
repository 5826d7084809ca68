"""Commands that can do no harm: one command at a time, without a shell, in a sandbox (host).

Where no sandbox is, nothing runs.
"""

from vegakit.tools.sandbox.bubblewrap import Bubblewrap
from vegakit.tools.sandbox.command import ExecTool, SandboxLimits
from vegakit.tools.sandbox.selection import (
    CONTAINER_FLAGS,
    Container,
    SandboxKind,
    Seatbelt,
    open_sandbox,
)

__all__ = [
    "CONTAINER_FLAGS",
    "Bubblewrap",
    "Container",
    "ExecTool",
    "SandboxKind",
    "SandboxLimits",
    "Seatbelt",
    "open_sandbox",
]
