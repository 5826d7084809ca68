"""The one owner of OS children."""

import asyncio
from asyncio.subprocess import DEVNULL
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from vegakit.errors import UserError
from vegakit.ports import Clock, Guarded
from vegakit.runtime.cancelling import all_of
from vegakit.runtime.children.child import Child
from vegakit.runtime.children.pipes import Ends, open_ends, read_from, write_to
from vegakit.runtime.children.wardens import Run, Warden, Wardens

__all__ = ["Children"]

_STARTS_AT_ONCE = 32
"""More could fill the launcher's socket, and a send to it would block the loop."""


class Children:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wardens = Wardens()
        self._living: list[Child] = []
        self._starting: set[asyncio.Task[Child]] = set()
        self._starts = asyncio.Semaphore(_STARTS_AT_ONCE)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    async def start(
        self,
        argv: Sequence[str],
        *,
        cwd: str | Path,
        env: Mapping[str, str],
        owner: str,
        stdin: int = DEVNULL,
        opens: Mapping[int, str] = MappingProxyType({}),
        groups: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
        guards: Guarded | None = None,
    ) -> Child:
        """`owner` is the path of the process it belongs to; `stdin` is PIPE, DEVNULL or a file's.

        `env` is all the environment it gets, `opens` are files by the descriptor that it reads them
        from, `groups` the settings of the control groups it is born in, by the folder of each,
        `guards` what it finds guarded: `GuardsOutdatedError` is raised if that changed meanwhile.
        Whoever is cancelled while starting leaves nothing.
        """
        if not argv:
            raise UserError("argv is empty; give a command and its arguments")
        self._refuse_strangers()
        run = Run(argv, Path(cwd), env, opens, guards)
        starting = asyncio.ensure_future(self._start(run, groups, owner, stdin))
        self._starting.add(starting)
        starting.add_done_callback(self._starting.discard)
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            await asyncio.wait([starting])
            if starting.exception() is None:
                await starting.result().end()
            raise

    def all(self) -> list[Child]:
        return self._living.copy()

    def of(self, owner: str) -> list[Child]:
        return [child for child in self._living if child.owner == owner]

    async def end_of(self, owner: str) -> None:
        await all_of([child.end() for child in self.of(owner)])

    async def aclose(self) -> None:
        self._closed = True
        if self._starting:
            await asyncio.wait(self._starting)
        await all_of([child.end() for child in self.all()])
        await self._wardens.aclose()

    async def _start(
        self, run: Run, groups: Mapping[str, Mapping[str, str]], owner: str, stdin: int
    ) -> Child:
        async with self._starts:
            self._refuse_when_closed()
            warden, ends = await self._launch(run, groups, stdin)
            stdout, stderr = await read_from(ends.stdout), await read_from(ends.stderr)
            feed = await write_to(ends.stdin) if ends.stdin else None
            for pipe in filter(None, (stdout, stderr, feed)):
                run.exit_code.add_done_callback(pipe.finish)
            await run.pid
        child = Child(owner, self._clock.now(), run, warden, stdout, stderr, feed)
        self._living.append(child)
        run.exit_code.add_done_callback(lambda _: self._living.remove(child))
        return child

    async def _launch(
        self, run: Run, groups: Mapping[str, Mapping[str, str]], stdin: int
    ) -> tuple[Warden, Ends]:
        try:
            with open_ends(stdin) as ends:
                warden = await self._wardens.take(groups)
                warden.start(run, ends.theirs)
        except OSError as error:
            raise UserError(
                f"{run.argv[0]} was not started: {error.strerror}; "
                "end something first, or raise `ulimit -n` and `ulimit -u`"
            ) from error
        return warden, ends

    def _refuse_strangers(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop not in {None, loop}:
            raise UserError(
                "children are started only from the event loop that started the first of them; "
                "from another thread use asyncio.run_coroutine_threadsafe(children.start(…), loop)"
            )
        self._loop = loop

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise UserError("these children were closed, so none is started; make new Children")
