"""Commands that can do no harm: one command at a time, without a shell, in a sandbox (host).

Where no sandbox is, nothing runs.
"""

from vegakit.tools.sandbox.command import SandboxLimits
from vegakit.tools.sandbox.selection import SandboxKind, open_sandbox

__all__ = [
    "SandboxKind",
    "SandboxLimits",
    "open_sandbox",
]
