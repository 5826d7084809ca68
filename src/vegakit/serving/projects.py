"""Programs that clients send or name: read below one folder.

A path is opened beneath the root, without links; what a program uses of other files is read so too.
"""

from pathlib import Path

from vegakit.errors import CapabilityDenied, ToolFailed, UserError
from vegakit.policy import Grant
from vegakit.serving.requests import ProgramRequest
from vegakit.tools import Files

__all__ = ["Project"]

_SUFFIXES = {"vega": ".vega", "python": ".py"}
_READS = Grant(("fs::read",), paths=("**",))
_MOST_BYTES = 1 << 20


class Project:
    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._files = Files(self.root, _READS, max_bytes=_MOST_BYTES)

    async def taken(self, asked: ProgramRequest) -> tuple[str, str]:
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

    async def text(self, name: str) -> str | None:
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
