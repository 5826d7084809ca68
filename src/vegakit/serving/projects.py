"""Programs that clients send or name: read below one folder, and looked at in a thread.

A path is opened beneath the root, without links; what a program uses of other files is read so too.
"""

import asyncio
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

from vegakit.errors import CapabilityDenied, ToolFailed, UserError
from vegakit.lang import Checked, Diagnostic, check, render
from vegakit.policy import Grant
from vegakit.serving.requests import ProgramRequest
from vegakit.tools import Files

__all__ = ["Looked", "Project"]

_SUFFIXES = {"vega": ".vega", "python": ".py"}
_READS = Grant(("fs::read",), paths=("**",))
_MOST_BYTES = 1 << 20
_WITHIN_S = 60.0


@dataclass(frozen=True)
class Looked:
    checked: Checked | None
    diagnostics: tuple[Diagnostic, ...]
    texts: dict[str, str] = field(repr=False)

    @property
    def is_sound(self) -> bool:
        return self.checked is not None and all(d.severity != "error" for d in self.diagnostics)

    @property
    def shown(self) -> str:
        return render(self.diagnostics, self.texts)


class Project:
    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._files = Files(self.root, _READS, max_bytes=_MOST_BYTES)

    async def look(self, asked: ProgramRequest) -> Looked:
        name, text = await self._taken(asked)
        loop = asyncio.get_running_loop()
        texts = {name: text}

        def read(used: str) -> str | None:
            coming: Future[str | None] = asyncio.run_coroutine_threadsafe(self._text(used), loop)
            found = coming.result(_WITHIN_S)
            if found is not None:
                texts[used] = found
            return found

        return Looked(*await asyncio.to_thread(check, text, name, read), texts)

    async def _taken(self, asked: ProgramRequest) -> tuple[str, str]:
        if bool(asked.source) == bool(asked.path):
            raise UserError("give either `source`, the text of a program, or `path`, its file")
        if asked.source:
            return f"program{_SUFFIXES[asked.language]}", asked.source
        if not asked.path.endswith(tuple(_SUFFIXES.values())):
            known = " or ".join(_SUFFIXES.values())
            raise UserError(f"{asked.path[:80]!a} is no program: its name has to end in {known}")
        try:
            return asked.path, await self._content(asked.path)
        except (CapabilityDenied, ToolFailed) as error:
            raise UserError(
                f"{error}; give a plain path from the project's folder, such as lib/review.vega"
            ) from None

    async def _text(self, name: str) -> str | None:
        try:
            return await self._content(name)
        except (CapabilityDenied, ToolFailed):
            return None

    async def _content(self, name: str) -> str:
        content = await self._files.read(name)
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise UserError(f"{name!a} is not UTF-8 text: {error.reason}; save it so") from None
