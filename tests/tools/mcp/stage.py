"""A plain server in a real sandbox, in a folder of its own, with a file of what was accepted."""

import json
import shutil
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from tests.tools.mcp import plain_server
from vegakit.child_process import Children
from vegakit.concurrency import SteadyClock
from vegakit.ports import Clock, Tool
from vegakit.tools import McpPins, McpServer, McpServers

PYTHON = "/usr/bin/python3"
COMMAND = (PYTHON, "-I", "server.py")
ANY = {"type": "object"}
NAMES = """
    echo die sleep change flood raw result environment read save connect sample request
""".split()


def described(*names: str, **more: str) -> list[dict[str, Any]]:
    """Tools as a server lists them: names, and names with a description."""
    given = {**{name: f"Does {name}." for name in names or NAMES}, **more}
    return [
        {"name": name, "description": words, "inputSchema": ANY} for name, words in given.items()
    ]


def furnished(folder: Path) -> Path:
    """The server's own folder below it, with all that the server needs."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    shutil.copy(plain_server.__file__, home / "server.py")
    if not (home / "tools.json").exists():
        (home / "tools.json").write_text(json.dumps(described()))
    return home


class Stage:
    def __init__(self, folder: Path, children: Children, clock: Clock, **server: Any) -> None:
        self.folder = folder
        self.children = children
        self.owner = ""
        given: dict[str, Any] = {"name": "plain", "command": COMMAND, "folder": folder / "home"}
        given |= {"capabilities": ["fs::read"], **server}
        self.server = McpServer(**given)
        self.pins = McpPins(folder / "pins.json")
        self.servers = McpServers(children, clock, self.pins, owner=lambda: self.owner)
        furnished(folder)

    def tool_list(self, *tools: Mapping[str, Any]) -> None:
        (self.folder / "home/tools.json").write_text(json.dumps(tools))

    async def tools(self, **options: Any) -> dict[str, Tool]:
        """By their own names; accepted as they are, unless that is said."""
        given: dict[str, Any] = {"accept": True, **options}
        found = await self.servers.tools(self.server, **given)
        return {tool.spec.name.partition("__")[2]: tool for tool in found}

    async def call(self, name: str, **given: Any) -> str:
        tools = await self.tools(accept=self.pins.of(self.server) is None)
        return await tools[name].call(given, None)


@asynccontextmanager
async def staged(folder: Path, clock: Clock | None = None, **server: Any) -> AsyncGenerator[Stage]:
    clock = clock or SteadyClock()
    async with aclosing(Children(clock)) as children:
        stage = Stage(folder, children, clock, **server)
        async with aclosing(stage.servers):
            yield stage
