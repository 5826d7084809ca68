"""What the commands for programs share: which file, and how what is wrong with it is shown."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from vegakit.errors import UserError
from vegakit.lang import Module, render
from vegakit.runtime import Looked, built_at, look_at, root_of

if TYPE_CHECKING:
    from vegakit.lang import AtLoad

__all__ = ["check_loading", "compiled_at", "programs_at", "show"]


def programs_at(paths: Iterable[Path]) -> list[Path]:
    """Of a folder all programs below it."""
    found: list[Path] = []
    for path in paths:
        below = sorted(path.rglob("*.vega")) if path.is_dir() else [path]
        if not below:
            raise UserError(f"there is no .vega file in {path}; give the path of one")
        found += below
    return found


def compiled_at(path: Path) -> tuple[Module, Path] | None:
    """The module and its project's folder; None when it was refused, which is shown then."""
    from vegakit.lang import compile_program

    if path.suffix == ".vgb":
        return built_at(path), root_of(path)
    found = look_at(path)
    show(found)
    if not found.is_sound or found.checked is None:
        return None
    return compile_program(found.checked), found.source.root


def check_loading(path: Path, text: str, code: "tuple[AtLoad, ...]") -> None:
    """Before a file's own code runs: its user trusts it, or there is none."""
    from vegakit.config import check_code_trusted

    check_code_trusted(path, text, list(map(str, code)))


def show(found: Looked) -> None:
    """What is wrong with it, on stderr: a program's output is its own."""
    if found.diagnostics:
        shown = render(found.diagnostics, found.source.texts, sys.stderr.isatty())
        print(shown, file=sys.stderr)
