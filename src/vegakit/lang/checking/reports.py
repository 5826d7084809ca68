"""Diagnostics as they are found, and the name that was perhaps meant."""

from collections.abc import Iterable

from vegakit.lang.diagnostics import (
    MAX_DIAGNOSTICS,
    Diagnostic,
    Edit,
    EnoughFoundError,
    nearest,
)
from vegakit.lang.tree import Node

__all__ = ["Reports", "instead", "meant"]

_COMPARED = 60


class Reports:
    """Of one program; `file` is the one being checked. With enough errors the check ends."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.found: list[Diagnostic] = []
        self.errors = 0

    def error(
        self,
        code: str,
        where: Node,
        message: str,
        help: str = "",  # noqa: A002  (the field's name)
        edit: Edit | None = None,
    ) -> None:
        self.errors += 1
        self._add(Diagnostic(code, message, self.file, where.at, where.end, help, edit))
        if self.errors >= MAX_DIAGNOSTICS:
            raise EnoughFoundError

    def warn(
        self,
        code: str,
        where: Node,
        message: str,
        help: str = "",  # noqa: A002
        edit: Edit | None = None,
    ) -> None:
        self._add(Diagnostic(code, message, self.file, where.at, where.end, help, edit, "warning"))

    def take(self, found: Iterable[Diagnostic]) -> None:
        for one in found:
            self.errors += one.severity == "error"
            self._add(one)

    def _add(self, found: Diagnostic) -> None:
        if found.severity == "error" or len(self.found) < MAX_DIAGNOSTICS:
            self.found.append(found)

    def in_order(self) -> tuple[Diagnostic, ...]:
        """By file and place, errors kept before warnings."""
        kept = sorted(self.found, key=lambda found: found.severity)[:MAX_DIAGNOSTICS]
        return tuple(sorted(kept, key=lambda found: (found.file, found.at)))


def meant(name: str, names: Iterable[str]) -> str:
    """The name that was meant, or ''; of very many names only the likeliest are compared."""
    wanted, letters = name.lower(), set(name.lower())
    alike = [other for other in names if abs(len(other) - len(name)) <= max(2, len(name) // 3)]
    if wanted in (lowered := {other.lower(): other for other in alike}):
        return lowered[wanted]
    if len(alike) > _COMPARED:
        alike.sort(key=lambda other: len(letters.symmetric_difference(other.lower())))
    return nearest(name, alike[:_COMPARED])


def instead(where: Node, close: str) -> tuple[str, Edit | None]:
    """The help and the edit that put `close` there; neither when it is empty."""
    if not close:
        return "", None
    return f"did you mean `{close}`?", Edit(where.at, where.end, close)
