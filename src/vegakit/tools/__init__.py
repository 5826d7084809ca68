"""What agents can do: functions with declared rights, handles, commands in a box (adapter, host).

Most agents need few of these, so each is loaded when it is first used.
"""

from vegakit.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vegakit.tools.decorator import (
        SandboxPool,
        SandboxSpec,
        ToolContext,
        current_sandboxes,
        tool,
    )
    from vegakit.tools.files import Entry, Files, Listing, Stat
    from vegakit.tools.functions import (
        FunctionTool,
        ToolArgumentsError,
        ToolRights,
        audit_level,
        by_name,
        contents_of,
        current_effect,
        declared_rights,
        function_tool,
        problems_of,
        returns_untrusted_text,
        rights_of,
    )
    from vegakit.tools.http import Http
    from vegakit.tools.http_requests import FetchResponse
    from vegakit.tools.mcp.pins import McpPins, McpReview
    from vegakit.tools.mcp.registry import McpServers
    from vegakit.tools.mcp.servers import (
        McpSamplingRequest,
        McpSamplingResult,
        McpServer,
        mcp_server,
    )
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
    from vegakit.tools.openat import FileKind
    from vegakit.tools.sandbox.bubblewrap import Bubblewrap
    from vegakit.tools.sandbox.command import ExecTool, SandboxLimits
    from vegakit.tools.sandbox.selection import (
        CONTAINER_FLAGS,
        Container,
        SandboxKind,
        Seatbelt,
        open_sandbox,
    )
    from vegakit.tools.tool_files import ToolFile, ToolFileError
    from vegakit.tools.tool_tables import tools_schema


__all__ = [
    "CONTAINER_FLAGS",
    "Approver",
    "Bubblewrap",
    "Container",
    "Entry",
    "ExecTool",
    "FetchResponse",
    "FileKind",
    "Files",
    "FunctionTool",
    "Http",
    "Listing",
    "McpPins",
    "McpReview",
    "McpSamplingRequest",
    "McpSamplingResult",
    "McpServer",
    "McpServers",
    "Middleware",
    "Proposal",
    "SandboxKind",
    "SandboxLimits",
    "SandboxPool",
    "SandboxSpec",
    "Seatbelt",
    "Stat",
    "ToolArgumentsError",
    "ToolContext",
    "ToolFile",
    "ToolFileError",
    "ToolRights",
    "approved",
    "audit_level",
    "by_name",
    "cached",
    "contents_of",
    "current_effect",
    "current_sandboxes",
    "declared_rights",
    "function_tool",
    "limited",
    "logged",
    "mcp_server",
    "open_sandbox",
    "problems_of",
    "returns_untrusted_text",
    "rights_of",
    "timed",
    "tool",
    "tools_schema",
    "wrapped",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "decorator": (
            "SandboxPool",
            "SandboxSpec",
            "ToolContext",
            "current_sandboxes",
            "tool",
        ),
        "files": (
            "Entry",
            "Files",
            "Listing",
            "Stat",
        ),
        "functions": (
            "FunctionTool",
            "ToolArgumentsError",
            "ToolRights",
            "audit_level",
            "by_name",
            "contents_of",
            "current_effect",
            "declared_rights",
            "function_tool",
            "problems_of",
            "returns_untrusted_text",
            "rights_of",
        ),
        "http": ("Http",),
        "http_requests": ("FetchResponse",),
        "mcp.pins": (
            "McpPins",
            "McpReview",
        ),
        "mcp.registry": ("McpServers",),
        "mcp.servers": (
            "McpSamplingRequest",
            "McpSamplingResult",
            "McpServer",
            "mcp_server",
        ),
        "middleware": (
            "Approver",
            "Middleware",
            "Proposal",
            "approved",
            "cached",
            "limited",
            "logged",
            "timed",
            "wrapped",
        ),
        "openat": ("FileKind",),
        "sandbox.bubblewrap": ("Bubblewrap",),
        "sandbox.command": (
            "ExecTool",
            "SandboxLimits",
        ),
        "sandbox.selection": (
            "CONTAINER_FLAGS",
            "Container",
            "SandboxKind",
            "Seatbelt",
            "open_sandbox",
        ),
        "tool_files": (
            "ToolFile",
            "ToolFileError",
        ),
        "tool_tables": ("tools_schema",),
    },
)
