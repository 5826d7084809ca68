"""What agents can do: functions with declared rights, handles, commands in a box (adapter, host).

Most agents need few of these, so each is loaded when it is first used.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vegakit.tools.confined import Answer, Entry, Files, Http, Kind, Listing, Stat
    from vegakit.tools.functions import FunctionTool, ToolArgumentsError, function_tool, problems_of
    from vegakit.tools.granted import ToolContext, tool
    from vegakit.tools.mcp import (
        McpPins,
        McpReview,
        McpSample,
        McpSampled,
        McpServer,
        McpServers,
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
    from vegakit.tools.naming import by_name
    from vegakit.tools.rights import (
        Rights,
        audit_level,
        brings_text,
        contents_of,
        current_effect,
        declared,
        rights_of,
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
    from vegakit.tools.sandboxes import Place, Sandboxes, current_sandboxes
    from vegakit.tools.yaml_tools import ToolFile, ToolFileError, tools_schema

_HOME_OF = {
    "CONTAINER_FLAGS": "sandbox",
    "Answer": "confined",
    "Approver": "middleware",
    "Bubblewrap": "sandbox",
    "Container": "sandbox",
    "Entry": "confined",
    "ExecTool": "sandbox",
    "Files": "confined",
    "FunctionTool": "functions",
    "Http": "confined",
    "Kind": "confined",
    "Limits": "sandbox",
    "Listing": "confined",
    "McpPins": "mcp",
    "McpReview": "mcp",
    "McpSample": "mcp",
    "McpSampled": "mcp",
    "McpServer": "mcp",
    "McpServers": "mcp",
    "Middleware": "middleware",
    "Proposal": "middleware",
    "Place": "sandboxes",
    "Rights": "rights",
    "SandboxKind": "sandbox",
    "Sandboxes": "sandboxes",
    "Seatbelt": "sandbox",
    "Stat": "confined",
    "ToolArgumentsError": "functions",
    "ToolContext": "granted",
    "ToolFile": "yaml_tools",
    "ToolFileError": "yaml_tools",
    "approved": "middleware",
    "audit_level": "rights",
    "by_name": "naming",
    "cached": "middleware",
    "contents_of": "rights",
    "brings_text": "rights",
    "current_effect": "rights",
    "current_sandboxes": "sandboxes",
    "declared": "rights",
    "function_tool": "functions",
    "limited": "middleware",
    "logged": "middleware",
    "mcp_server": "mcp",
    "open_sandbox": "sandbox",
    "problems_of": "functions",
    "rights_of": "rights",
    "timed": "middleware",
    "tool": "granted",
    "tools_schema": "yaml_tools",
    "wrapped": "middleware",
}

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
    "McpPins",
    "McpReview",
    "McpSample",
    "McpSampled",
    "McpServer",
    "McpServers",
    "Middleware",
    "Place",
    "Proposal",
    "Rights",
    "SandboxKind",
    "Sandboxes",
    "Seatbelt",
    "Stat",
    "ToolArgumentsError",
    "ToolContext",
    "ToolFile",
    "ToolFileError",
    "approved",
    "audit_level",
    "brings_text",
    "by_name",
    "cached",
    "contents_of",
    "current_effect",
    "current_sandboxes",
    "declared",
    "function_tool",
    "limited",
    "logged",
    "mcp_server",
    "open_sandbox",
    "problems_of",
    "rights_of",
    "timed",
    "tool",
    "tools_schema",
    "wrapped",
]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"vegakit.tools has no {name!r}; it has {', '.join(__all__)}")
    value = getattr(__import__(f"vegakit.tools.{_HOME_OF[name]}", fromlist=[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
