"""The tools of the coding agent.

| tool              | reaches the disk by                                  | done again?     |
|-------------------|------------------------------------------------------|-----------------|
| read              | `Files` with the one path that is named              | after a crash   |
| write, edit,      | the same with each path that is named, one call at a | never by itself |
| apply_patch       | time: an edit reads what it replaces                 |                 |
| glob, grep        | `git`, `find` and `grep` in the sandbox of the shell | after a crash   |
| map               | the same list, `Files`; parsers in a sandbox of      | after a crash   |
|                   | their own                                            |                 |
| shell             | the sandbox: the workspace is writable, but not      | never by itself |
|                   | `.git`; there is no network                          |                 |
| job               | nothing: it looks at what the shell has begun        | never by itself |
| todo              | nothing                                              | after a crash   |
| task              | the tools of its sub-agent                           | after a crash   |
| git               | the sandbox; `.git` is writable for commands that    | never by itself |
|                   | change it, but for its settings and hooks            |                 |
| fetch, ask, tools | nothing; they reach beyond the workspace             | see `outside`   |
| of MCP servers,   |                                                      |                 |
| run_program, node |                                                      |                 |
| of extensions     | the sandbox, with what they declare; see             | as each says    |
|                   | `extensions.turn_tools`                              |                 |
"""

from pathlib import Path

from vegakit.sage.tools.agents import SubAgents, TaskSession, cheap_model
from vegakit.sage.tools.commands import CommandTools, shown_command
from vegakit.sage.tools.files import IMAGE_TYPES, FileTools
from vegakit.sage.tools.git import GitTools
from vegakit.sage.tools.jobs import Jobs
from vegakit.sage.tools.outside import OnQuestion, OutsideTools, mcp_tools, node_tool, program_tools
from vegakit.sage.tools.project_map import ProjectMap
from vegakit.sage.tools.workspace import SageTool, ToolRegistry, Workspace

__all__ = [
    "IMAGE_TYPES",
    "Jobs",
    "OnQuestion",
    "OutsideTools",
    "SageTool",
    "SubAgents",
    "TaskSession",
    "ToolRegistry",
    "Workspace",
    "cheap_model",
    "mcp_tools",
    "node_tool",
    "program_tools",
    "shown_command",
    "workspace_tools",
]


def workspace_tools(workspace: Workspace, jobs: Jobs) -> tuple[SageTool, ...]:
    """Return the tools, always in the same order: they are a part of the prefix of a request that a
    provider caches."""
    parts = (
        FileTools(workspace),
        CommandTools(workspace, jobs),
        ProjectMap(workspace),
        GitTools(workspace, Path.home()),
    )
    return tuple(tool for part in parts for tool in part.tools())
