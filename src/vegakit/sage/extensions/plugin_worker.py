"""Run the code of a plugin: the program that `plugins` starts in a sandbox, one child a request.

    {"module", "attribute", "do": "describe" | "tool" | "hook", …} ─▶ {"result"} or {"error"}

What the plugin prints is not its answer, and whatever it raises is one: an import may hang, exit,
fork or raise anything, and ends only this child.
"""

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, cast

from msgspec import to_builtins

from vegakit.sage.extensions.records import (
    DescribedTool,
    HookTime,
    Plugin,
    PluginManifest,
    SageHook,
)
from vegakit.tools import FunctionTool, rights_of


class PluginRefusedError(Exception):
    """The plugin is not what the protocol wants; the text says what to change."""


def main() -> None:
    """Answer the one request that stands on stdin."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    request = json.load(sys.stdin)
    answer: dict[str, Any]
    try:
        answer = {"result": _done(request)}
    except BaseException as error:  # noqa: BLE001  an import may raise SystemExit and its like
        answer = {"error": f"{type(error).__name__}: {error}"[:2_000]}
    with answers:
        json.dump(answer, answers)
        answers.flush()
        # What it left running, threads that never end among it, is not waited for.
        os._exit(0)


def _done(request: Mapping[str, Any]) -> object:
    sys.path[:0] = request["places"]
    found = getattr(import_module(request["module"]), request["attribute"])
    if not isinstance(found, Plugin):
        raise PluginRefusedError(
            f"its entry point names {type(found).__name__}; name a vegakit.sage.Plugin"
        )
    return _WORK[request["do"]](found, request)


def _describe(plugin: Plugin, request: Mapping[str, Any]) -> object:
    del request
    return to_builtins(
        PluginManifest(
            tuple(plugin.capabilities),
            tuple(_described(tool, plugin.capabilities) for tool in plugin.tools),
            tuple(plugin.commands),
            tuple(plugin.agents),
            tuple(
                SageHook(one.name, HookTime(one.when), tools=(*one.tools,), timeout_s=one.timeout_s)
                for one in plugin.hooks
            ),
        )
    )


def _described(tool: object, declared: Sequence[str]) -> DescribedTool:
    if not isinstance(tool, FunctionTool):
        named = getattr(tool, "__name__", str(tool))
        raise PluginRefusedError(
            f"the tool {named} declares no capabilities; write @tool(capabilities=[]) over it if "
            "it only computes, else what it does"
        )
    tool = cast("FunctionTool[..., Any]", tool)
    rights = rights_of(tool, {})
    if rights.wanted is None:
        raise PluginRefusedError(
            f"the tool {tool.spec.name} declares no capabilities; write @tool(capabilities=[…])"
        )
    wanted = rights.grant.capabilities
    if more := [one for one in wanted if one not in declared]:
        raise PluginRefusedError(
            f"the tool {tool.spec.name} declares {more[0]}, and its plugin does not; add it to "
            "Plugin(capabilities=[…])"
        )
    return DescribedTool(
        tool.spec.name,
        tool.spec.description,
        dict(tool.spec.parameters),
        tuple(wanted),
        idempotent=tool.idempotent,
        timeout_ms=tool.timeout_ms,
    )


def _call(plugin: Plugin, request: Mapping[str, Any]) -> object:
    tool = next(one for one in plugin.tools if one.spec.name == request["name"])
    call = getattr(tool, "call_here", None)
    arguments = request["arguments"]
    return asyncio.run(call(arguments) if call is not None else tool.call(arguments, None))


def _hook(plugin: Plugin, request: Mapping[str, Any]) -> object:
    hook = next(one for one in plugin.hooks if one.name == request["name"])
    said = hook.run(request["event"])
    if said is not None and not isinstance(said, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise PluginRefusedError(f"it returned {type(said).__name__}; return a text or None")
    return said or ""


_WORK = {"describe": _describe, "tool": _call, "hook": _hook}
