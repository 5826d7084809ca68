"""What agents can do: functions with declared rights, and the handles they hold (adapter, host).

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
from vegakit.tools.sanitising import Untrusted, for_model, sanitise

__all__ = [
    "Answer",
    "Approver",
    "Entry",
    "Files",
    "FunctionTool",
    "Http",
    "Kind",
    "Listing",
    "Middleware",
    "Proposal",
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
    "problems_of",
    "sanitise",
    "timed",
    "tool",
    "wrapped",
]
