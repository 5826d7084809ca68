"""One OS child: a command and everything it started."""

import asyncio
from types import TracebackType
from typing import Self

from vegakit.runtime.children.pipes import Input, Output
from vegakit.runtime.children.wardens import Run, Warden

__all__ = ["Child"]

_GRACE_MS = 500


class Child:
    """Ends as a whole: what its command leaves behind when it exits is killed.

    Leaving `async with child:` ends it, however the block is left.
    """

    def __init__(
        self,
        owner: str,
        started_ms: int,
        run: Run,
        warden: Warden,
        stdout: Output,
        stderr: Output,
        stdin: Input | None,
    ) -> None:
        self.owner = owner
        self.started_ms = started_ms
        self.argv = run.argv
        self.pid = run.pid.result()
        self.stdout = stdout.stream
        self.stderr = stderr.stream
        self.stdin = stdin.stream if stdin else None
        self._exit_code = run.exit_code
        self._warden = warden

    async def wait(self) -> int:
        """The exit code, negative for a signal, when the whole tree is gone.

        Cancelling the wait ends the child.
        """
        try:
            return await asyncio.shield(self._exit_code)
        except asyncio.CancelledError:
            await self.end()
            raise

    async def end(self, grace_ms: int = _GRACE_MS) -> int:
        """SIGTERM to the tree; SIGKILL to what is left after the grace, or when cancelled."""
        if not self._exit_code.done():
            self._warden.terminate()
            try:
                await asyncio.wait([self._exit_code], timeout=grace_ms / 1000)
            finally:
                self._warden.dismiss()
        return await asyncio.shield(self._exit_code)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.end()
