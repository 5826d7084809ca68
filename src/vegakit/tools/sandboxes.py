"""The sandboxes of a runtime: one for each place, opened when a tool first wants to run something.

Who calls a tool sets `current_sandboxes`. Outside of a runtime there is none, and nothing runs.
"""

import asyncio
import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from vegakit.errors import UserError
from vegakit.ports import Clock, Launcher, Ran, Sandbox

if TYPE_CHECKING:
    from vegakit.tools.sandbox import Limits, SandboxKind

__all__ = ["Place", "Sandboxes", "current_sandboxes", "sandboxes_here"]


class Place(Struct, frozen=True):
    """A workspace, or None for an empty one; what beside it may be read; how much may be taken, or
    None for the usual."""

    workspace: Path | None
    writable: bool = True
    readable: tuple[Path, ...] = ()
    limits: "Limits | None" = None


class Sandboxes:
    """`owner` tells the path of the process that calls, `kind` is one of `SandboxKind`."""

    def __init__(
        self, launcher: Launcher, clock: Clock, owner: Callable[[], str], kind: str = "auto"
    ) -> None:
        self._launcher, self._clock = launcher, clock
        self._owner, self._kind = owner, kind
        self._open: dict[Place, Sandbox] = {}
        self._opening = asyncio.Lock()
        self._empty: Path | None = None

    async def run(self, argv: Sequence[str], place: Place, said: bytes = b"") -> Ran:
        """`said` is what it reads."""
        sandbox = await self._at(place)
        return await sandbox.run(argv, owner=self._owner(), said=said)

    async def _at(self, place: Place) -> Sandbox:
        """Two over one workspace would take each other's guards away."""
        from vegakit.tools.sandbox import Limits, open_sandbox

        async with self._opening:
            if place not in self._open:
                self._open[place] = await open_sandbox(
                    self._launcher,
                    self._clock,
                    place.workspace or self._nothing(),
                    kind=_kind(self._kind),
                    readable=place.readable,
                    limits=place.limits or Limits(),
                    writable=place.writable and place.workspace is not None,
                )
        return self._open[place]

    def _nothing(self) -> Path:
        """Stays empty, because it is never writable, and goes with us."""
        if self._empty is None:
            self._empty = Path(tempfile.mkdtemp(prefix="vega-empty-"))
            weakref.finalize(self, shutil.rmtree, self._empty, ignore_errors=True)
        return self._empty


def _kind(name: str) -> "SandboxKind":
    from vegakit.tools.sandbox import SandboxKind

    if name not in [*SandboxKind]:
        raise UserError(
            f"no command is run: sandbox={name!r} is none of {', '.join(SandboxKind)}; name one"
        )
    return SandboxKind(name)


current_sandboxes: ContextVar[Sandboxes | None] = ContextVar("vega_sandboxes", default=None)


def sandboxes_here() -> Sandboxes:
    if (here := current_sandboxes.get()) is None:
        raise UserError(
            "no command is run: a tool runs commands only when a Runtime calls it, because that "
            "ends them; give it to an agent and ask that"
        )
    return here
