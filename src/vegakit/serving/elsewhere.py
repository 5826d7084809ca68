"""Runtimes of this user that the server did not start: only if it was started to reach them."""

import re
from typing import Any

from msgspec import to_builtins

from vegakit.errors import UserError
from vegakit.money import show
from vegakit.runtime import Remote, connect
from vegakit.serving.charter import Charter
from vegakit.serving.pages import view_row

__all__ = ["Elsewhere"]

_NAME = re.compile(r"[\w.~-]{0,60}", re.ASCII)


class Elsewhere:
    def __init__(self, charter: Charter) -> None:
        self._granted = charter.all_runtimes

    async def ps(self, at: str) -> dict[str, Any]:
        remote = self._at(at)
        runtime, views = await remote.info(), await remote.ps()
        left = None if runtime.left is None else show(runtime.left)
        rows = [view_row(view, view.path, runtime.now_ms) for view in views]
        return {"runtime": runtime.name, "os_pid": runtime.os_pid, "processes": rows, "left": left}

    async def kill(self, at: str, name: str) -> dict[str, Any]:
        return to_builtins(await self._at(at).kill(name, tree=True))

    def _at(self, at: str) -> Remote:
        """By its name or pid; a path could lead to any socket of this machine."""
        if not self._granted:
            raise UserError(
                "this server shows and ends only what it runs itself; leave out `at`. Its owner "
                "can widen that: vega mcp serve --all-runtimes"
            )
        if not _NAME.fullmatch(at) or at.endswith(".sock"):
            raise UserError(f"{at[:80]!a} is no name and no OS pid of a runtime")
        return connect(at or None)
