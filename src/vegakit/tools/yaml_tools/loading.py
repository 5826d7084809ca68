"""A file of tools, read again when its content has changed.

    file = ToolFile("tools.yaml", grant, sandbox=sandbox)
    tools = file.load()
    ...
    if file.reload_if_changed():
        tools = file.tools

A content that is wrong is told once; until it is changed again the tools of the last good one
stay. Functions are imported once: their module is not read again.
"""

from collections.abc import Sequence
from hashlib import sha256
from os import PathLike
from pathlib import Path

from vegakit.errors import UserError
from vegakit.policy import Grant
from vegakit.ports import Sandbox, Tool
from vegakit.tools.yaml_tools.making import Given, made
from vegakit.tools.yaml_tools.reading import MAX_BYTES, Misread, Node, read
from vegakit.tools.yaml_tools.tables import File, checked

__all__ = ["ToolFile", "ToolFileError"]


class ToolFileError(UserError):
    """Begins with file and line."""


class ToolFile:
    """Without a grant no tool of the file may do anything; without a sandbox none is a command."""

    def __init__(
        self,
        path: str | PathLike[str],
        grant: Grant | None = None,
        *,
        sandbox: Sandbox | None = None,
        modules: Sequence[str] = (),
        root: str | PathLike[str] = ".",
        owner: str = "tools",
    ) -> None:
        self._path = Path(path)
        self._given = Given(grant or Grant(), sandbox, tuple(modules), Path(root), owner)
        self._seen = b""
        self.tools: tuple[Tool, ...] = ()

    def load(self) -> tuple[Tool, ...]:
        self._take(self._content())
        return self.tools

    def reload_if_changed(self) -> bool:
        content = self._content()
        if sha256(content).digest() == self._seen:
            return False
        self._take(content)
        return True

    def _content(self) -> bytes:
        """One byte more than is read, so that a file that is too large is seen to be."""
        if not self._path.is_file():
            raise ToolFileError(f"{self._path}: there is no such file; write one, or name another")
        try:
            with self._path.open("rb") as file:
                return file.read(MAX_BYTES + 1)
        except OSError as error:
            raise ToolFileError(f"{self._path}: {error.strerror}") from error

    def _take(self, content: bytes) -> None:
        self._seen = sha256(content).digest()
        try:
            self.tools = _tools(read(content), self._given)
        except Misread as error:
            raise ToolFileError(f"{self._path}:{error.line}: {error}") from None


def _tools(node: Node, given: Given) -> tuple[Tool, ...]:
    tables, listed = checked(File, node).tools, node.child("tools").value
    assert isinstance(listed, list)
    found: dict[str, Tool] = {}
    for table, place in zip(tables, listed, strict=True):
        if table.name in found:
            raise Misread(
                place.child("name").line, f"{table.name} is the name of two tools; rename one"
            )
        found[table.name] = made(table, place, given)
    return tuple(found.values())
