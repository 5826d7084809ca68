"""One kill takes MCP servers along: of a process with all below it, or of the whole runtime."""

import asyncio
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

from tests.patience import GONE_S, until
from tests.runtime.children.processes import comes_true, marked
from tests.tools.mcp.stage import COMMAND, furnished
from tests.tools.mcp.web import on_loopback, sums
from vegakit.host import Agent
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.tools import McpServer

AGENTS = 8
REPOSITORY = Path(__file__).parents[3]


def stuck(name: str, **arguments: object) -> ScriptedModel:
    """Calls a tool that does not come back, and another server's at the same time."""
    calls = [
        {"name": name, "arguments": arguments},
        {"name": "sums__wait", "arguments": {}},
    ]
    return ScriptedModel([{"calls": calls}, "done"])


async def test_a_kill_of_the_tree_leaves_no_server(tmp_path: Path) -> None:
    """Eight agents, each with a command and a connection of its own, gone."""
    mark = uuid4().hex
    plain = McpServer(
        name="plain",
        command=[*COMMAND, mark],
        folder=furnished(tmp_path),
        capabilities=["fs::read"],
    )
    async with on_loopback(sums()) as port, Runtime(pins=tmp_path / "pins.json") as rt:
        web = McpServer(name="sums", url=f"http://127.0.0.1:{port}/mcp", capabilities=["net::post"])
        tools = [
            *await rt.mcp.tools(plain, accept=True),
            *await rt.mcp.tools(web, accept=True),
        ]

        async def boss(_: str) -> None:
            agents = [
                Agent(f"a{number}", model=stuck("plain__sleep"), tools=tools)
                for number in range(AGENTS)
            ]
            await asyncio.gather(*(rt.spawn(agent).ask("go") for agent in agents))

        opened = rt.mcp._servers
        assert opened is not None
        opened.end_of("")  # what it was accepted with
        await until(lambda: not marked(mark))
        process = rt.spawn(boss)
        sent = process.send("go")
        await until(lambda: len(rt.children.all()) == AGENTS)
        await until(lambda: len(opened._open) == 2 * AGENTS)
        lives = [connection._session for connection in opened._open.values()]
        await until(lambda: len(marked(mark)) >= AGENTS)
        await process.kill()
        await until(lambda: not (rt.children.all() or marked(mark) or opened._open), GONE_S)
        await until(lambda: all(life is None or life._task.done() for life in lives), GONE_S)
        await asyncio.wait([sent])
        assert sent.exception() is not None


DOOMED = """
import asyncio
import sys
from pathlib import Path

from tests.tools.mcp.stage import COMMAND
from vegakit import Runtime
from vegakit.tools import McpServer

async def main(folder, mark):
    server = McpServer(
        name="plain", command=[*COMMAND, mark], folder=folder / "home", capabilities=["fs::read"]
    )

    async def work(_):
        tools = {tool.spec.name: tool for tool in await rt.mcp.tools(server)}
        await tools["plain__echo"].call({}, None)
        standing.append(1)
        if len(standing) == 8:
            print("up", flush=True)
        await tools["plain__sleep"].call({}, None)

    standing = []
    async with Runtime(pins=folder / "pins.json") as rt:
        await rt.mcp.tools(server, accept=True)
        await asyncio.gather(*(rt.spawn(work, name=f"w{n}").send("go") for n in range(8)))

asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
"""


def test_a_killed_runtime_leaves_no_server(tmp_path: Path) -> None:
    """`kill -9`: nothing is left."""
    mark = uuid4().hex
    furnished(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", DOOMED, str(tmp_path), mark], cwd=REPOSITORY, stdout=subprocess.PIPE
    ) as runtime:
        assert runtime.stdout is not None
        assert runtime.stdout.readline() == b"up\n"
        assert comes_true(
            lambda: len([pid for pid in marked(mark) if pid != runtime.pid]) >= AGENTS, GONE_S
        )
        runtime.kill()
    assert comes_true(lambda: not marked(mark), GONE_S)
