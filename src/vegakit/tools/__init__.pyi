from vegakit.tools.decorator import (
    SandboxPool as SandboxPool,
    SandboxSpec as SandboxSpec,
    ToolContext as ToolContext,
    current_sandboxes as current_sandboxes,
    python_folders as python_folders,
    tool as tool,
)
from vegakit.tools.files import Files as Files
from vegakit.tools.functions import (
    Approver as Approver,
    FunctionTool as FunctionTool,
    OutputType as OutputType,
    ToolArgumentsError as ToolArgumentsError,
    ToolRights as ToolRights,
    as_tools as as_tools,
    audit_level as audit_level,
    by_name as by_name,
    contents_of as contents_of,
    current_effect as current_effect,
    declared_rights as declared_rights,
    fold_name as fold_name,
    function_tool as function_tool,
    returns_untrusted_text as returns_untrusted_text,
    rights_of as rights_of,
)
from vegakit.tools.http import Http as Http
from vegakit.tools.mcp.pins import McpPins as McpPins, McpReview as McpReview
from vegakit.tools.mcp.registry import McpServers as McpServers
from vegakit.tools.mcp.servers import (
    McpSamplingRequest as McpSamplingRequest,
    McpSamplingResult as McpSamplingResult,
    McpServer as McpServer,
    mcp_server as mcp_server,
)
from vegakit.tools.openat import (
    best_opener as best_opener,
    folder_mark as folder_mark,
    open_by_walk as open_by_walk,
    write_output as write_output,
)
from vegakit.tools.protected_names import is_protected as is_protected
from vegakit.tools.sandbox import SandboxLimits as SandboxLimits
from vegakit.tools.sandbox.bubblewrap import (
    Bubblewrap as Bubblewrap,
    run_confined as run_confined,
)
from vegakit.tools.sandbox.quarantine import (
    is_stub as is_stub,
    remove_left_stubs as remove_left_stubs,
)
from vegakit.tools.tool_files import (
    CommandPlace as CommandPlace,
    ToolFile as ToolFile,
    command_tool as command_tool,
)
from vegakit.tools.tool_tables import (
    ToolFileProblem as ToolFileProblem,
    YamlNode as YamlNode,
    convert_node as convert_node,
    read_yaml as read_yaml,
)
