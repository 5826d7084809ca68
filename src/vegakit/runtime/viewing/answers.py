"""What a runtime answers to whoever looks in."""

import asyncio
import os
from collections.abc import AsyncGenerator
from difflib import get_close_matches
from importlib.metadata import version
from typing import TYPE_CHECKING

from msgspec.structs import replace

from vegakit.errors import UserError
from vegakit.policy import ExitKind
from vegakit.program import Phase, Process
from vegakit.runtime.oversight import Question
from vegakit.runtime.processes import Kind, LogEntry, ProcessView, is_within
from vegakit.runtime.viewing.protocol import Killed, Request, RuntimeView
from vegakit.telemetry import Redactor

if TYPE_CHECKING:
    from vegakit.runtime.runtime import Runtime

__all__ = ["Answers"]

_LOOKS = 1_000
_BETWEEN_LOOKS_S = 0.01


class Answers:
    def __init__(self, runtime: "Runtime", redactor: Redactor) -> None:
        self._runtime = runtime
        self._redactor = redactor
        self._since_ms = runtime.clock.now()

    async def info(self, request: Request) -> AsyncGenerator[RuntimeView]:
        rt = self._runtime
        yield RuntimeView(
            rt.name,
            os.getpid(),
            version("vegakit"),
            rt.clock.now(),
            self._since_ms,
            rt.program.id,
            len(rt.program.machine.state.processes),
            rt.program.host.busy,
            len(rt.children.all()),
            rt.spent,
            await rt.remaining(),
        )

    async def ps(self, request: Request) -> AsyncGenerator[ProcessView]:
        for view in self._runtime.ps():
            yield replace(view, last_exit=self._redactor.redact(view.last_exit))

    async def logs(self, request: Request) -> AsyncGenerator[LogEntry]:
        rt = self._runtime
        known = {view.path for view in rt.ps()} | rt.recent.processes()
        path = _resolved(request.id, rt.program.id, known)
        async for entry in rt.recent.entries(path, self._redactor, follow=request.follow):
            yield entry

    async def kill(self, request: Request) -> AsyncGenerator[Killed]:
        program, views = self._runtime.program, {view.path: view for view in self._runtime.ps()}
        path = _resolved(request.id, program.id, set(views))
        doomed = [one for one in views if is_within(one, path)]
        if request.tree:
            await program.end(path, kill=True)
            yield await self._when_gone(doomed, {})
            return
        if views[path].kind is Kind.SUPERVISOR:
            raise UserError(
                f"{path} is a supervisor and has no life of its own; to end it with all below it, "
                f"type: vega kill --tree {path}"
            )
        life = program.machine.state.processes[path].generation
        program.exit(path, ExitKind.KILLED)
        yield await self._when_gone(doomed, {path: life})

    async def interrupts(self, request: Request) -> AsyncGenerator[Question]:
        """As they are: nobody approves what is hidden from them because it looks like a key."""
        for question in self._runtime.interrupts():
            yield question

    async def answer(self, request: Request) -> AsyncGenerator[str]:
        """Whoever may call here is the user of this runtime."""
        await self._runtime.oversight.answer(request.id, request.answer, "", request.action)
        yield request.id

    async def _when_gone(self, doomed: list[str], lives: dict[str, int]) -> Killed:
        """`lives` are those of the doomed whose next life is no survivor."""
        for _ in range(_LOOKS):
            if self._left_of(doomed, lives).is_clean:
                break
            await asyncio.sleep(_BETWEEN_LOOKS_S)
        return self._left_of(doomed, lives)

    def _left_of(self, doomed: list[str], lives: dict[str, int]) -> Killed:
        state = self._runtime.program.machine.state
        reborn = tuple(
            path
            for path, life in lives.items()
            if path in state.processes and state.processes[path].generation > life
        )
        resting = {path for path in lives if _is_down(state.processes.get(path))}
        return Killed(
            tuple(doomed),
            sum(
                path in state.processes or path in state.families
                for path in {*doomed} - {*reborn} - resting
            ),
            sum(
                flight.path in doomed and flight.generation <= lives.get(flight.path, 1 << 62)
                for flight in state.flights.values()
            ),
            sum(child.owner in doomed for child in self._runtime.children.all()),
            reborn,
        )


def _is_down(process: Process | None) -> bool:
    return process is not None and process.phase is Phase.DOWN


def _resolved(wanted: str, program: str, known: set[str]) -> str:
    path = wanted.removeprefix(f"{program}/")
    bare = path.rpartition("#")[0] if path != wanted else path
    for exact in (path, bare):
        if exact in known:
            return exact
    ending = sorted(one for one in known if one.endswith(f"/{path}"))
    if len(ending) == 1:
        return ending[0]
    if ending:
        raise UserError(f"{wanted!r} is {len(ending)} processes; type one: {', '.join(ending)}")
    close = get_close_matches(wanted, sorted(known), 1)
    hint = f"did you mean {close[0]}?" if close else "to see them, type: vega ps"
    raise UserError(f"there is no process {wanted!r}; {hint}")
