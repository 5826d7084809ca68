"""The things agents can do: functions with declared rights, handles, commands in a sandbox
(adapter, host).

Most agents need few of these, so each is loaded when it is first used.
"""

from vegakit.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vegakit.tools.decorator import (
        SandboxPool as SandboxPool,
        SandboxSpec as SandboxSpec,
        ToolContext as ToolContext,
        current_sandboxes as current_sandboxes,
        tool as tool,
    )
    from vegakit.tools.files import Files as Files
    from vegakit.tools.functions import (
        Approver as Approver,
        FunctionTool as FunctionTool,
        ToolArgumentsError as ToolArgumentsError,
        ToolRights as ToolRights,
        audit_level as audit_level,
        by_name as by_name,
        contents_of as contents_of,
        current_effect as current_effect,
        declared_rights as declared_rights,
        function_tool as function_tool,
        problems_of as problems_of,
        returns_untrusted_text as returns_untrusted_text,
        rights_of as rights_of,
    )
    from vegakit.tools.mcp.pins import McpPins as McpPins, McpReview as McpReview
    from vegakit.tools.mcp.registry import McpServers as McpServers
    from vegakit.tools.mcp.servers import (
        McpSamplingRequest as McpSamplingRequest,
        McpSamplingResult as McpSamplingResult,
        McpServer as McpServer,
        mcp_server as mcp_server,
    )
    from vegakit.tools.tool_files import ToolFile as ToolFile

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "decorator": "SandboxPool SandboxSpec ToolContext current_sandboxes tool",
        "files": "Files",
        "functions": (
            "Approver FunctionTool ToolArgumentsError ToolRights audit_level by_name contents_of "
            "current_effect declared_rights function_tool problems_of returns_untrusted_text "
            "rights_of"
        ),
        "mcp.pins": "McpPins McpReview",
        "mcp.registry": "McpServers",
        "mcp.servers": "McpSamplingRequest McpSamplingResult McpServer mcp_server",
        "tool_files": "ToolFile",
    },
)
