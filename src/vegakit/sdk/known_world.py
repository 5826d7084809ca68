"""The world as it is known before a program runs: the files of its project, as they are now.

A quote asks for the sizes and texts of files that a program names, and computes values with the
functions that the program will use. Nothing is written, no command is run, and nothing outside the
folder of the project is looked at.
"""

import os
import stat
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from vegakit.vm import computed

_MOST_TEXT = 400_000
"""Of a longer file only the size is known."""
_LONGEST = 4
"""A byte that is no text is read as four."""
_MOST_NAMES = 10_000


class ProjectWorld:
    """The files below the folder of a project, each looked at once."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._texts: dict[str, str | None] = {}

    def call(self, name: str, args: Sequence[Any]) -> Any:  # noqa: ANN401
        """Return the result of a pure function of the library."""
        return computed(name, args)

    def size(self, path: str) -> int | None:
        """Return how many bytes a file has as text at most; None if there is none to read."""
        text = self.text(path)
        if text is not None:
            return len(text.encode())
        file = self._file(path)
        return None if file is None else file.stat().st_size * _LONGEST

    def text(self, path: str) -> str | None:
        """Return the text of a file as a program reads it, None if it is long or not there."""
        if path not in self._texts:
            file = self._file(path)
            short = file is not None and file.stat().st_size <= _MOST_TEXT
            content = file.read_bytes() if file is not None and short else None
            self._texts[path] = (
                None if content is None else content.decode(errors="backslashreplace")
            )
        return self._texts[path]

    def names(self, path: str) -> list[str] | None:
        """Return the paths of what is in a folder, as `file::list` does; None if there is none."""
        folder = self._below(path)
        if folder is None or not folder.is_dir():
            return None
        names = sorted((PurePosixPath(path) / one.name).as_posix() for one in folder.iterdir())
        return names if len(names) <= _MOST_NAMES else None

    def _file(self, path: str) -> Path | None:
        """Return a plain file: to open anything else could wait for ever."""
        file = self._below(path)
        try:
            if file is None or not stat.S_ISREG(file.stat().st_mode):
                return None
            return file if os.access(file, os.R_OK) else None
        except OSError:
            return None

    def _below(self, path: str) -> Path | None:
        try:
            found = (self._root / path).resolve()
        except (OSError, ValueError, RuntimeError):
            return None
        return found if found.is_relative_to(self._root) else None
