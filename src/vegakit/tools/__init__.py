"""What agents can do: functions with declared rights, handles, commands in a box (adapter, host).

MCP servers come on the same port. Most agents need few of these, so each is loaded when it is first
used.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
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
    "Middleware": "middleware",
    "Proposal": "middleware",
    "SandboxKind": "sandbox",
    "Seatbelt": "sandbox",
    "Stat": "confined",
    "ToolArgumentsError": "functions",
    "ToolContext": "granted",
    "ToolFile": "yaml_tools",
    "ToolFileError": "yaml_tools",
    "Untrusted": "sanitising",
    "approved": "middleware",
    "cached": "middleware",
    "for_model": "sanitising",
    "function_tool": "functions",
    "limited": "middleware",
    "logged": "middleware",
    "open_sandbox": "sandbox",
    "problems_of": "functions",
    "sanitise": "sanitising",
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
    "Middleware",
    "Proposal",
    "SandboxKind",
    "Seatbelt",
    "Stat",
    "ToolArgumentsError",
    "ToolContext",
    "ToolFile",
    "ToolFileError",
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
