"""A process as Python code sees it: something to ask, to watch and to end."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any, Generic

from msgspec import Struct
from typing_extensions import TypeVar

from vegakit.ids import Pid
from vegakit.money import Money
from vegakit.policy import ExitReason

__all__ = ["Process"]

T = TypeVar("T", default=Any)


class Process(Struct, Generic[T], frozen=True, gc=False):
    """Answers are of the type its body gives: a `Reply` of an agent, a value of anything else.

    It stands for all lives of the process: after a restart the same handle reaches the next one.
    """

    _program: Any
    path: str

    @property
    def pid(self) -> Pid:
        return self._program.pid_of(self.path)

    async def ask(
        self,
        message: Any,  # noqa: ANN401
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        deps: object = None,
        files: Sequence[str | Path] = (),
    ) -> T:
        return await self.send(message, timeout=timeout, deps=deps, files=files)

    def send(
        self,
        message: Any,  # noqa: ANN401
        *,
        timeout: float | None = None,
        deps: object = None,
        files: Sequence[str | Path] = (),
    ) -> "asyncio.Future[T]":
        """Starts at once; await the future for the answer, cancel it to cancel the work."""
        return self._program.send(self.path, message, timeout=timeout, deps=deps, files=files)

    def tell(self, message: Any) -> None:  # noqa: ANN401
        """Nobody waits for an answer."""
        self._program.tell(self.path, message)

    def stream(
        self,
        message: object,
        *,
        timeout: float | None = None,
        deps: object = None,
    ) -> AsyncGenerator[Any]:
        """What an agent says while it says it; leaving the loop early cancels it."""
        return self._program.stream(self.path, message, timeout=timeout, deps=deps)

    async def recall(self, limit: int = 100) -> int:
        """Gives an agent with memory, before it is first asked, what an agent of this path said in
        earlier programs: at most so many messages. How many it knows now."""
        return await self._program.recall(self.path, limit)

    def link(self, other: "Process[Any]") -> None:
        """If one ends abnormally for good, the other crashes too."""
        self._program.link(self.path, other.path)

    def unlink(self, other: "Process[Any]") -> None:
        self._program.unlink(self.path, other.path)

    def monitor(self) -> "asyncio.Future[ExitReason]":
        """Done when the process has ended for good; cancel it to watch no longer."""
        return self._program.monitor(self.path)

    def exit(self, reason: str = "exit") -> None:
        """An exit signal: this life crashes, its supervisor decides what follows."""
        self._program.exit(self.path, reason)

    async def stop(self) -> ExitReason:
        """For good: it is asked to end, and killed if it takes too long."""
        return await self._program.end(self.path, kill=False)

    async def kill(self) -> ExitReason:
        """For good and at once, with everything that it started."""
        return await self._program.end(self.path, kill=True)

    @property
    def spent(self) -> Money:
        return self._program.machine.purses.spent(self.path)

    @property
    def alive(self) -> bool:
        return self._program.is_alive(self.path)

    def __repr__(self) -> str:
        return f"<Process {self.path}>"
