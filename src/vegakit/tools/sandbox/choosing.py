"""Which sandbox: the one that is asked for or the one of this system, tried before it is used."""

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from vegakit.errors import UserError
from vegakit.ports import Clock, Launcher, Sandbox
from vegakit.tools.sandbox.bubblewrap import Bubblewrap
from vegakit.tools.sandbox.container import Container
from vegakit.tools.sandbox.limits import DEFAULT_LIMITS, Limits
from vegakit.tools.sandbox.seatbelt import Seatbelt

__all__ = ["SandboxKind", "open_sandbox"]


class SandboxKind(StrEnum):
    """AUTO is never CONTAINER: nobody but you knows that the container is a boundary."""

    AUTO = "auto"
    BUBBLEWRAP = "bubblewrap"
    SEATBELT = "seatbelt"
    CONTAINER = "container"


async def open_sandbox(
    launcher: Launcher,
    clock: Clock,
    workspace: Path,
    *,
    kind: SandboxKind = SandboxKind.AUTO,
    readable: Sequence[Path] = (),
    path: Sequence[Path] = (),
    limits: Limits = DEFAULT_LIMITS,
    writable: bool = True,
) -> Sandbox:
    """Raises `UserError` with what to install or allow where there is none: nothing runs then.
    A container decides by itself what is `writable`."""
    if kind is SandboxKind.CONTAINER:
        container = Container(launcher, clock, workspace, limits=limits)
        await container.probe()
        return container
    if kind is SandboxKind.SEATBELT or (kind is SandboxKind.AUTO and sys.platform == "darwin"):
        return Seatbelt(
            launcher,
            clock,
            workspace,
            readable=readable,
            path=path,
            limits=limits,
            writable=writable,
        )
    if sys.platform == "win32":
        raise UserError(
            "no command is run: there is no sandbox for Windows, and Vega runs none without; "
            "start Vega in WSL 2 or in a Linux container"
        )
    bubblewrap = Bubblewrap(
        launcher,
        clock,
        workspace,
        readable=readable,
        path=path,
        limits=limits,
        writable=writable,
    )
    await bubblewrap.probe()
    return bubblewrap
