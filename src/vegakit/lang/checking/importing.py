"""The files of a program: the main one, and all that its `use` lines name.

A path is read from the folder of the file that names it, and may only lead downwards; so nothing
outside the project can be named. Reading itself is done by who asks for the check.
"""

import re
from collections.abc import Callable
from typing import TypeAlias

from vegakit.lang.checked import Unit
from vegakit.lang.checking.reports import Reports
from vegakit.lang.parsing import Parsed, parse
from vegakit.lang.tree import UseFile

__all__ = ["Read", "read_units"]

Read: TypeAlias = Callable[[str], str | None]

MOST_FILES = 100
_PART = re.compile(r"[\w.\- ]*[\w\-]")


def read_units(
    text: str,
    file: str,
    read: Read,
    reports: Reports,
    parse: Callable[[str, str], Parsed] = parse,
) -> dict[str, Unit]:
    """The main file first. What cannot be read is reported and left out."""
    reader = _Reader(read, reports, parse)
    reader.take(text, file)
    return reader.units


class _Reader:
    def __init__(self, read: Read, reports: Reports, parse: Callable[[str, str], Parsed]) -> None:
        self._read, self._reports, self._parse = read, reports, parse
        self.units: dict[str, Unit] = {}
        self._names: set[str] = set()
        self._open: list[str] = []

    def take(self, text: str, path: str) -> None:
        parsed = self._parse(text, path)
        self._reports.take(parsed.diagnostics)
        unit = Unit(path, text, parsed.source, {}, self._name(path) if self.units else "")
        self.units[path] = unit
        self._open.append(path)
        for decl in unit.source.decls:
            if isinstance(decl, UseFile):
                self._reports.file = path
                self._use(unit, decl)
        self._open.pop()

    def _use(self, unit: Unit, use: UseFile) -> None:
        path = self._path(unit.path, use)
        if path is None:
            return
        if path in self._open:
            circle = " -> ".join([*self._open[self._open.index(path) :], path])
            self._reports.error(
                "import-cycle",
                use,
                f"these files use each other in a circle: {circle}",
                "move what both need into a third file",
            )
            return
        if path in self.units or self._load(path, use):
            unit.uses[use.name] = path

    def _load(self, path: str, use: UseFile) -> bool:
        if len(self.units) >= MOST_FILES:
            self._reports.error(
                "too-many-files", use, f"a program has at most {MOST_FILES} files", "join some"
            )
            return False
        text = self._read(path)
        if text is None:
            self._reports.error(
                "file-not-found",
                use,
                f"there is no file `{path}` in the project",
                "a path is read from the folder of the file that names it",
            )
            return False
        self.take(text, path)
        return True

    def _path(self, here: str, use: UseFile) -> str | None:
        parts = [part for part in use.path.split("/") if part != "."]
        if not use.path.endswith(".vega"):
            self._refuse(use, "does not end in .vega", "only Vega files can be used")
        elif use.path.startswith("/") or ".." in parts or not all(map(_PART.fullmatch, parts)):
            self._refuse(
                use,
                "does not lead downwards from this file",
                'write a path such as "lib/text.vega", without `..`, a leading `/`, `\\` or `:`',
            )
        else:
            return "/".join([*here.split("/")[:-1], *parts])
        return None

    def _refuse(self, use: UseFile, why: str, advice: str) -> None:
        self._reports.error("bad-import", use, f'the path "{use.path}" {why}', advice)

    def _name(self, path: str) -> str:
        stem = re.sub(r"\W", "_", path.rpartition("/")[2].removesuffix(".vega"))
        name, count = stem, 1
        while name in self._names:
            count += 1
            name = f"{stem}_{count}"
        self._names.add(name)
        return name
