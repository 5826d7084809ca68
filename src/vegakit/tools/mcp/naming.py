"""What the tools of a server are called before a model: `server__tool`, in the letters that every
provider takes, and never what another tool could be taken for.
"""

import re

__all__ = ["model_name", "unfit"]

_TOOL = re.compile(r"[A-Za-z0-9_.-]+")
_MOST = 64
"""Of letters in a name that OpenAI takes; others take more."""


def model_name(server: str, tool: str) -> str:
    return f"{server}__{tool.replace('.', '_')}"


def unfit(server: str, tool: str) -> str:
    """Why a tool of this name is not offered; empty if it is."""
    if not _TOOL.fullmatch(tool):
        return "its name has other letters than A-Z, a-z, 0-9, _, - and ."
    if len(model_name(server, tool)) > _MOST:
        return f"{server}__ and its name are longer than {_MOST} letters"
    return ""
