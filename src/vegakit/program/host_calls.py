"""Calls of programs to what is not in them: library functions that the machine answers itself, and
tools, by name and in the form in which their results come."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from vegakit.effects import CallTool
from vegakit.errors import Raised
from vegakit.ids import ScopeId
from vegakit.lang import LIBRARY
from vegakit.program.actions import Noted
from vegakit.program.core import Core
from vegakit.vm import CallHost, restored, text_of

__all__ = ["CATCHABLE", "NOW", "OWN", "time_text", "tool_call", "tool_error", "tool_value"]

CATCHABLE = frozenset(kind.__name__ for kind in Raised.__subclasses__())

NOW = "time::now"
"""Answered here, except where a journal records what the world says: then it is a call of a tool,
so that a run that goes on is told the time that it was told, and comes to the same requests."""

_PYTHON = "python:"


def tool_call(want: CallHost, parameters: Mapping[str, Sequence[str]]) -> CallTool:
    """`mcp:server.tool(a,,b)` has the names that were written for its arguments."""
    if want.function == NOW:
        return CallTool(NOW, {}, ScopeId(""), repeatable=True)
    row = LIBRARY.get(want.function)
    name, _, written = want.function.partition("(")
    if row is not None:
        names: Sequence[str] = [parameter.name for parameter in row.params]
        arguments = dict(zip(names, want.args, strict=False))
        return CallTool(f"{name}@{want.rights}", arguments, ScopeId(""), row.repeatable)
    names = parameters.get(name, ())
    if written:
        names = _names(names, written.removesuffix(")").split(","))
    return CallTool(name, dict(zip(names, want.args, strict=False)), ScopeId(""))


def tool_value(tool: str, content: str) -> Any:  # noqa: ANN401
    """Functions of the library and of Python answer in JSON, other tools in words."""
    in_json = tool.partition("@")[0] in LIBRARY or tool.startswith(_PYTHON)
    return msgspec.json.decode(content) if in_json else content


def tool_error(content: str) -> tuple[str, str]:
    """A tool that failed says the name of its error first."""
    name, colon, reason = content.partition(": ")
    return (name, reason) if colon and name in CATCHABLE else ("ToolFailed", content)


def _names(known: Sequence[str], written: Sequence[str]) -> list[str]:
    """Of arguments: as they are written, or else by place."""
    places = [*known, *written][: len(written)]
    return [name or place for name, place in zip(written, places, strict=True)]


def _own_path(core: Core, path: str, want: CallHost) -> Any:  # noqa: ANN401
    return {"$": "process", "of": path}


def time_text(now_ms: int) -> str:
    return datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _now(core: Core, path: str, want: CallHost) -> Any:  # noqa: ANN401
    return time_text(core.now)


def _noted(kind: str) -> Callable[[Core, str, CallHost], Any]:
    def note(core: Core, path: str, want: CallHost) -> Any:  # noqa: ANN401
        text = " = ".join(text_of(restored(arg)) for arg in want.args)
        core.out.append(Noted(path, kind, text))
        return want.ticket if kind == "span" else None

    return note


OWN: dict[str, Callable[[Core, str, CallHost], Any]] = {
    "process::self": _own_path,
    NOW: _now,
    "trace::span": _noted("span"),
    "trace::event": _noted("event"),
    "trace::set_attribute": _noted("attribute"),
}
