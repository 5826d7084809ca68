"""A script: Vega in a container with the usual profile, which makes no namespaces.

It is simulated by the filter that our own sandbox has, taken by this process for itself. Prints
what each kind of sandbox does here.
"""

import asyncio
import ctypes
import json
import os
import platform
import sys
from contextlib import aclosing
from pathlib import Path

from vegakit.child_process import Children
from vegakit.concurrency import SteadyClock
from vegakit.errors import UserError
from vegakit.host import Agent, ToolReturned
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.tools import ToolContext, tool
from vegakit.tools.sandbox.seccomp import filter_file
from vegakit.tools.sandbox.selection import SandboxKind, open_sandbox

SCRIPT = "id -u; env; touch made"


class _Program(ctypes.Structure):
    _fields_ = (("count", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def take_filter() -> None:
    steps = filter_file(platform.machine()).read_bytes()
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, ctypes.byref(_Program(len(steps) // 8, steps)), 0, 0) == 0


async def attempt(kind: SandboxKind, workspace: Path) -> str:
    clock = SteadyClock()
    async with aclosing(Children(clock)) as children:
        try:
            sandbox = await open_sandbox(children, clock, workspace, kind=kind)
        except UserError as error:
            return str(error)
        ran = await sandbox.run(["sh", "-c", SCRIPT], owner="test")
        return ran.stdout + ran.stderr


async def attempt_tool(kind: SandboxKind, workspace: Path) -> str:
    """The same, by a tool that a runtime calls."""

    @tool(capabilities=["process::exec"], allowed_commands=["sh -c **"], root=workspace)
    async def run(ctx: ToolContext) -> str:
        ran = await ctx.exec(["sh", "-c", SCRIPT])
        return ran.stdout + ran.stderr

    script = [{"calls": [{"name": "run", "arguments": {}}]}, "done"]
    async with Runtime(sandbox=kind) as rt:
        stream = rt.stream(Agent("a", model=ScriptedModel(script), tools=[run]), "go")
        said = [event.content async for event in stream if isinstance(event, ToolReturned)]
    return said[0].removeprefix("<untrusted>\n").removesuffix("\n</untrusted>")


async def main(workspace: Path) -> dict[str, str]:
    kinds = (SandboxKind.AUTO, SandboxKind.BUBBLEWRAP, SandboxKind.CONTAINER)
    plain = {str(kind): await attempt(kind, workspace) for kind in kinds}
    return plain | {f"tool {kind}": await attempt_tool(kind, workspace) for kind in kinds}


if __name__ == "__main__":
    take_filter()
    os.environ["CANARY"] = "canary"
    print(json.dumps(asyncio.run(main(Path(sys.argv[1])))))
