"""All MCP servers of one runtime, each owner's apart from all others'.

An owner is a process: no other process sees what it says to its server, the server's spending is
the owner's, and the server ends with the owner. Without a process the runtime is the owner.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from typing import TYPE_CHECKING

from vegakit.errors import CapabilityDenied, UserError
from vegakit.policy import sanitise
from vegakit.ports import ChildLauncher, Clock, Tool
from vegakit.tools.functions import Approver
from vegakit.tools.mcp.pins import McpPin, McpPins, McpReview, review_of
from vegakit.tools.mcp.servers import McpServer, SamplingHandler

if TYPE_CHECKING:
    from vegakit.tools.mcp.sessions import McpConnection, McpSession
    from vegakit.tools.mcp.transport import Streams


class McpServers:
    """`owner` says whose code runs here; `answer` makes who answers a server that asks for a model,
    for one owner."""

    def __init__(
        self,
        launcher: ChildLauncher,
        clock: Clock,
        pins: McpPins,
        *,
        owner: Callable[[], str] = lambda: "",
        answer: Callable[[McpServer, str], SamplingHandler] | None = None,
    ) -> None:
        self._launcher = launcher
        self._clock = clock
        self.pins = pins
        self._owner = owner
        self._answer = answer
        self._open: dict[tuple[str, str], McpConnection] = {}
        self._known: dict[str, McpServer] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def tools(
        self,
        server: McpServer,
        *,
        accept: bool | str = False,
        approver: Approver | None = None,
        asked: bool = False,
    ) -> tuple[Tool, ...]:
        """The accepted ones. `accept` says in code what `vega mcp accept` says at a terminal: all
        that it offers now, or if it is a digest, that and nothing else. `asked`: whoever makes the
        calls asks a person about those that nobody vouched for."""
        await _loaded()
        from vegakit.tools.mcp.sessions import tool_of

        self._know(server)
        pinned = self.pins.of(server)
        if accept and not (pinned is not None and pinned.digest == accept):
            pinned = await self._accept_now(server, accept)
        if pinned is None:
            raise _not_accepted(server)
        wanted = [tool for tool in pinned.tools if not server.only or tool.name in server.only]
        missing = {*server.only} - {tool.name for tool in wanted}
        if missing:
            raise UserError(f"{server.name} has no accepted tool {min(missing)!r}")
        connect = self._connector(server)
        return tuple(tool_of(server, tool, connect, approver, asked=asked) for tool in wanted)

    async def review(self, server: McpServer) -> McpReview:
        """Starts it, if need be, and asks what it offers."""
        await _loaded()
        self._know(server)
        tool_list = await self._connector(server)().tool_list()
        return review_of(self.pins.of(server), tool_list)

    def accept(self, server: McpServer, review: McpReview) -> McpPin:
        """Accept what a person has seen, and nothing else."""
        return self.pins.accept(server, review.tool_list.tools, self._clock.now())

    def end_of(self, owner: str) -> None:
        """End the servers of an owner at once; `aclose` waits for it."""
        for key in [key for key in self._open if key[1] == owner]:
            closing = asyncio.ensure_future(self._open.pop(key).aclose())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def aclose(self) -> None:
        """End all servers and wait until they are gone."""
        for _, owner in [*self._open]:
            self.end_of(owner)
        if self._closing:
            await asyncio.wait(self._closing)

    async def _accept_now(self, server: McpServer, accept: bool | str) -> McpPin:
        review = await self.review(server)
        if accept is not True and accept != review.digest:
            raise CapabilityDenied(
                f"{server.name} offers {review.digest} and {accept} was to be accepted; "
                f"look at what it offers: vega mcp accept {server.name}"
            )
        return self.accept(server, review)

    def _know(self, server: McpServer) -> None:
        known = self._known.setdefault(server.name, server)
        if known != server:
            raise UserError(f"two MCP servers are called {server.name}; rename one of them")

    def _connector(self, server: McpServer) -> "Callable[[], McpConnection]":
        from vegakit.tools.mcp.sessions import McpConnection

        def connect() -> McpConnection:
            owner = self._owner()
            key = (server.name, owner)
            if key not in self._open:
                start_session = self._session_factory(server, owner)
                self._open[key] = McpConnection(server, start_session, self._clock)
            return self._open[key]

        return connect

    def _session_factory(self, server: McpServer, owner: str) -> "Callable[[], McpSession]":
        from vegakit.tools.mcp.sessions import McpSession
        from vegakit.tools.mcp.transport import StderrTail, command_streams, http_streams

        asked = server.sampling is not None and self._answer is not None
        answer = self._answer(server, owner) if asked and self._answer else None

        def start_session() -> McpSession:
            stderr_tail = StderrTail()

            def open_streams(
                on_end: Callable[[str], None],
            ) -> "AbstractAsyncContextManager[Streams]":
                if server.url:
                    return http_streams(server, on_end)
                return command_streams(
                    server, self._launcher, self._clock, owner, stderr_tail, on_end
                )

            return McpSession(server.name, open_streams, answer, stderr_tail.text)

        return start_session


def _not_accepted(server: McpServer) -> UserError:
    return UserError(
        f"nobody has accepted the tools of MCP server {server.name} yet "
        f"({sanitise(server.place, 400)}), so none is used; look at them, and type: "
        f"vega mcp accept {server.name}"
    )


async def _loaded() -> None:
    """Import the client in a thread: it takes a while, and others should not wait for it."""
    try:
        await asyncio.to_thread(import_module, "mcp.client")
    except ImportError as error:
        raise UserError(
            f"MCP servers need {error.name}, which is not installed: pip install vegakit[mcp]"
        ) from error
