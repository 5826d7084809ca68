"""Agents that run sandboxed commands which mean to stay; as a script it waits to be killed.

python -m tests.tools.sandbox.doomed MARK FOLDER [LAUNCHER]
"""

import asyncio
import sys
from pathlib import Path

from tests.runtime.children.processes import comes_true
from vegakit.child_process import children as launching
from vegakit.host import Agent, Process
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.tools import ToolContext, tool

AGENTS = 8
STUBBORN = """
trap '' TERM HUP INT
(setsid bash -c 'trap "" TERM; touch daemon; while :; do sleep 9; done; : {mark}' &)
while [ ! -e daemon ]; do :; done
touch up; while :; do sleep 9; done; : {mark}
"""


def stayer(number: int, mark: str, folder: Path) -> Agent[str]:
    """Its one tool runs a command in a sandbox of its own, which ignores SIGTERM and leaves a
    daemon that does too."""
    workspace = folder / str(number)
    workspace.mkdir()

    @tool(capabilities=["process::exec"], allowed_commands=["bash -c **"], root=workspace)
    async def stay(ctx: ToolContext) -> str:
        """Stay."""
        return (await ctx.exec(["bash", "-c", STUBBORN.format(mark=mark)])).stdout

    model = ScriptedModel([{"calls": [{"name": "stay", "arguments": {}}]}, "done"])
    return Agent(f"stayer{number}", model=model, tools=[stay])


async def start_up(rt: Runtime, mark: str, folder: Path) -> Process[None]:
    """One process above all of them."""

    async def boss(_: str) -> None:
        agents = [stayer(number, mark, folder) for number in range(AGENTS)]
        await asyncio.gather(*(rt.spawn(agent).ask("stay") for agent in agents))

    process = rt.spawn(boss)
    process.send("go").add_done_callback(lambda asked: asked.exception())
    up = [folder / str(number) / "up" for number in range(AGENTS)]
    assert await asyncio.to_thread(comes_true, lambda: all(path.exists() for path in up), 60)
    return process


async def main(mark: str, folder: Path) -> None:
    async with Runtime() as rt:
        await start_up(rt, mark, folder)
        print("up", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    if len(sys.argv) > 3:
        launching._PLACE = Path(sys.argv[3])
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
