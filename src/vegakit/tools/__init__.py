"""What agents can do: functions with declared rights, handles, commands in a box (adapter, host).

MCP servers and tools from YAML come on the same port.
"""

from vegakit.tools.confined import Answer, Entry, Files, Http, Kind, Listing, Stat
from vegakit.tools.functions import FunctionTool, ToolArgumentsError, function_tool, problems_of
from vegakit.tools.granted import ToolContext, tool
from vegakit.tools.middleware import (
    Approver,
    Middleware,
    Proposal,
    approved,
    cached,
    limited,
    logged,
    timed,
    wrapped,
)
from vegakit.tools.sandbox import (
    CONTAINER_FLAGS,
    Bubblewrap,
    Container,
    ExecTool,
    Limits,
    SandboxKind,
    Seatbelt,
    open_sandbox,
)
from vegakit.tools.sanitising import Untrusted, for_model, sanitise

__all__ = [
    "CONTAINER_FLAGS",
    "Answer",
    "Approver",
    "Bubblewrap",
    "Container",
    "Entry",
    "ExecTool",
    "Files",
    "FunctionTool",
    "Http",
    "Kind",
    "Limits",
    "Listing",
    "Middleware",
    "Proposal",
    "SandboxKind",
    "Seatbelt",
    "Stat",
    "ToolArgumentsError",
    "ToolContext",
    "Untrusted",
    "approved",
    "cached",
    "for_model",
    "function_tool",
    "limited",
    "logged",
    "open_sandbox",
    "problems_of",
    "sanitise",
    "timed",
    "tool",
    "wrapped",
]
