"""A server that is a command: started in the sandbox, spoken to over its pipes."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from vegakit.ports import ChildOutput, Clock, Launcher
from vegakit.tools.mcp.servers import McpServer
from vegakit.tools.mcp.streams import Input, Lines, Streams
from vegakit.tools.sandbox import open_sandbox

__all__ = ["Complaints", "command_streams"]

_KEPT = 2_000
_CHUNK = 1 << 14
_WINDOW_MS, _MOST_BYTES = 60_000, 16_000_000


class Complaints:
    """The end of what a server wrote to its stderr. One that writes without end is over."""

    def __init__(self) -> None:
        self.last = b""

    async def read(self, stream: ChildOutput, clock: Clock, on_over: Callable[[str], None]) -> None:
        since, heard = clock.now(), 0
        while chunk := await stream.read(_CHUNK):
            self.last = (self.last + chunk)[-_KEPT:]
            if clock.now() - since > _WINDOW_MS:
                since, heard = clock.now(), 0
            heard += len(chunk)
            if heard > _MOST_BYTES:
                on_over(f"it wrote more than {_MOST_BYTES:,} bytes to stderr within a minute")
                return

    def text(self) -> str:
        return f"its last words: {self.last.decode(errors='replace').strip()}" if self.last else ""


@asynccontextmanager
async def command_streams(
    server: McpServer,
    launcher: Launcher,
    clock: Clock,
    owner: str,
    complaints: Complaints,
    on_over: Callable[[str], None],
) -> AsyncGenerator[Streams]:
    async with AsyncExitStack() as open_now:
        folder = server.folder or open_now.enter_context(TemporaryDirectory(prefix="vega-mcp-"))
        sandbox = await open_sandbox(
            launcher,
            clock,
            Path(folder),
            kind=server.sandbox,
            readable=[Path(path) for path in server.readable],
            path=[Path(path) for path in server.path],
            writable=server.may_write or server.folder is None,
        )
        serving = sandbox.serve(tuple(server.command), owner=owner, env=server.env)
        child = await open_now.enter_async_context(serving)
        reading = asyncio.ensure_future(complaints.read(child.stderr, clock, on_over))
        open_now.callback(reading.cancel)
        assert child.stdin is not None
        yield Lines(child.stdout, on_over), Input(child.stdin, on_over)
