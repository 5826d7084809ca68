"""What agents can do: tools from plain functions (adapter, host).

Capabilities, sandbox and MCP come on the same port.
"""

from vegakit.tools.functions import FunctionTool, ToolArgumentsError, function_tool, problems_of

__all__ = ["FunctionTool", "ToolArgumentsError", "function_tool", "problems_of"]
