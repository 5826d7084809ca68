"""A desk over a real runtime with a scripted model, and official clients that call it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp import Client
from mcp_types import TextContent

from vegakit.money import dollars
from vegakit.program import Bounds
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.server import Operations, ServerPolicy
from vegakit.server.mcp import server_of

AGENT = "agent A { model fast  max_tokens 100 }\n"
ASK = AGENT + 'print(A <- "hello there");\n'
OUTSIDE = "the secret of somebody else"


class Gated(ScriptedModel):
    """Answers nobody before the gate is opened."""

    def __init__(self, *, is_open: bool = True) -> None:
        super().__init__("an answer", context_tokens=4_000)
        self.gate = asyncio.Event()
        if is_open:
            self.gate.set()

    async def _wait(self, latency_ms: int) -> None:
        await self.gate.wait()


@dataclass
class Stage:
    runtime: Runtime
    operations: Operations
    model: Gated
    root: Path
    gone: "asyncio.Future[Any]"

    @asynccontextmanager
    async def client(self, mode: str = "auto") -> AsyncGenerator["Caller"]:
        async with Client(server_of(self.operations), mode=mode) as client:
            yield Caller(client)


@dataclass
class Said:
    text: str
    page: Any
    refused: bool


@dataclass
class Caller:
    client: Client

    async def __call__(self, tool: str, **given: Any) -> Said:
        result = await self.client.call_tool(tool, given)
        [part] = result.content
        assert isinstance(part, TextContent)
        return Said(part.text, result.structured_content, result.is_error)


def furnished(folder: Path) -> Path:
    """A project with programs and files, and something outside of it that links lead to."""
    root = folder / "project"
    for name in ("lib", "src", "out"):
        (root / name).mkdir(parents=True)
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere/a.vega").write_text(f'print("{OUTSIDE}");\n')
    (root / "ask.vega").write_text(ASK)
    (root / "src/a.txt").write_text("the text of a")
    (root / "lib/shout.vega").write_text("fn shout(t: str) -> str { return str::upper(t); }\n")
    (root / "uses.vega").write_text('use "lib/shout.vega" as l\nprint(l::shout("abc"));\n')
    (root / "link.vega").symlink_to(folder / "elsewhere/a.vega")
    (root / "linked").symlink_to(folder / "elsewhere")
    return root


@asynccontextmanager
async def staged(
    folder: Path, model: Gated | None = None, budget: str = "$1", **server_policy: Any
) -> AsyncGenerator[Stage]:
    root, model = furnished(folder), model or Gated()
    given: dict[str, Any] = {"models": frozenset({"fast"}), "reads": ("src/**",), **server_policy}
    bounds = Bounds(depth=7)
    parts: dict[str, Any] = {"models": lambda _: model, "bounds": bounds, "observable": False}
    async with Runtime("$100", **parts) as runtime:
        operations = Operations(runtime, ServerPolicy(root, dollars(budget), **given))
        gone = await operations.runs.open()
        try:
            yield Stage(runtime, operations, model, root, gone)
        finally:
            gone.cancel()
