"""Wardens as the runtime sees them; what is said between them stands in `launcher`."""

import asyncio
import errno
import json
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from vegakit.errors import UserError
from vegakit.ports import Guarded, GuardsOutdatedError
from vegakit.runtime.children.launching import Launcher

__all__ = ["Run", "Warden", "Wardens"]

_IDLE = 8
_HINTS = {
    "cwd": "give cwd= a directory that exists and may be entered",
    "groups": (
        "commands of root need control groups that bound their processes and memory, and none "
        "could be made; run Vega as another user than root"
    ),
    "guards": (
        "this machine allows no user namespaces, or its Linux is older than 5.12, so the workspace "
        "cannot be guarded. In a container, start it with `--security-opt seccomp=unconfined "
        "--security-opt apparmor=unconfined`, or let the container be the boundary: "
        "`sandbox='container'`. On Ubuntu 24.04 allow them by "
        "`sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
    ),
    "exec": "install it, give its full path, or put its directory into the PATH of env=",
    "warden": "start it again; if that fails too, free memory or raise `ulimit -u`",
}


class Run:
    """One command under a warden."""

    def __init__(
        self,
        argv: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        opens: Mapping[int, str],
        guards: Guarded | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.argv = tuple(argv)
        request = {
            "argv": self.argv,
            "cwd": str(cwd.absolute()),
            "env": dict(env),
            "opens": dict(opens),
            "guards": guards,
        }
        self.request = json.dumps(request).encode() + b"\n"
        self.pid: asyncio.Future[int] = loop.create_future()
        self.exit_code: asyncio.Future[int] = loop.create_future()
        """Known when the whole tree is gone."""

    def on_started(self, pid: str) -> None:
        self.pid.set_result(int(pid))

    def on_failed(self, number: str, step: str) -> None:
        why = f"{step}: {os.strerror(int(number))}; {_HINTS[step]}"
        self.exit_code.cancel()
        outdated = step == "guards" and int(number) == errno.ESTALE
        kind = GuardsOutdatedError if outdated else UserError
        self.pid.set_exception(kind(f"{self.argv[0]} was not started: {why}"))

    def on_ended(self, exit_code: str) -> None:
        self.exit_code.set_result(int(exit_code))

    def on_warden_lost(self) -> None:
        """The launcher kills what the warden kept. Should it be dead too, this is all we can do."""
        if not self.pid.done():
            self.on_failed(str(errno.EAGAIN), "warden")
        elif not self.exit_code.done():
            with suppress(ProcessLookupError):
                os.killpg(self.pid.result(), signal.SIGKILL)
            self.on_ended(str(-signal.SIGKILL))


class Warden(asyncio.Protocol):
    """Keeps one command after the other, until it is told to end one."""

    def __init__(
        self, control: socket.socket, groups: bytes, on_idle: "Callable[[Warden], None]"
    ) -> None:
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.groups = groups
        self._control = control
        self._on_idle = on_idle
        self._transport: asyncio.Transport | None = None
        self._heard = b""
        self._run: Run | None = None
        self._told_to_end = False

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_unix_connection(lambda: self, sock=self._control)

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def start(self, run: Run, stdio: Sequence[int]) -> None:
        self._run = run
        try:
            sent = socket.send_fds(self._control, [run.request], stdio)
        except OSError:
            self._lose()
        else:
            self._write(run.request[sent:])

    def terminate(self) -> None:
        self._told_to_end = True
        self._write(b"t")

    def dismiss(self) -> None:
        """It kills what it keeps, and goes."""
        self._told_to_end = True
        if self._transport is None or not self.is_open:
            return
        if self._run is None:
            self._transport.close()
        else:
            self._transport.write_eof()

    def data_received(self, data: bytes) -> None:
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            self._on_line(*line.decode().split())

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose()
        self.gone.set_result(None)

    def _on_line(self, word: str, *values: str) -> None:
        assert self._run is not None, f"a warden without a command said {word}"
        if word == "started":
            self._run.on_started(*values)
            return
        {"failed": self._run.on_failed, "ended": self._run.on_ended}[word](*values)
        self._run = None
        if values[-1] == "groups":  # it will not be in them the next time either
            self.dismiss()
        if not self._told_to_end:
            self._on_idle(self)

    def _lose(self) -> None:
        if self._run is not None:
            self._run.on_warden_lost()
            self._run = None

    def _write(self, words: bytes) -> None:
        if self._transport is not None and self.is_open:
            self._transport.write(words)


class Wardens:
    """A few that have nothing to keep are held ready: to fork one costs more than to spawn, and to
    join a control group costs more than both."""

    def __init__(self) -> None:
        self._launcher = Launcher()
        self._idle: list[Warden] = []
        self._all: set[Warden] = set()

    async def take(self, wanted: Mapping[str, Mapping[str, str]]) -> Warden:
        groups = json.dumps(dict(wanted)).encode()
        self._idle = [warden for warden in self._idle if warden.is_open]
        for at, warden in reversed([*enumerate(self._idle)]):
            if warden.groups == groups:
                return self._idle.pop(at)
        warden = Warden(self._launcher.new_control(groups), groups, self._put_back)
        await warden.open()
        self._all.add(warden)
        warden.gone.add_done_callback(lambda _: self._all.discard(warden))
        return warden

    async def aclose(self) -> None:
        self._idle.clear()
        for warden in self._all:
            warden.dismiss()
        if self._all:
            await asyncio.wait([warden.gone for warden in self._all])
        await self._launcher.aclose()

    def _put_back(self, warden: Warden) -> None:
        """The one that was idle for longest goes."""
        self._idle.append(warden)
        if len(self._idle) > _IDLE:
            self._idle.pop(0).dismiss()
