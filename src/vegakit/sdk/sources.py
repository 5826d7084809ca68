"""Programs in the files of a project: where its folder begins, what is read, what is found.

Commands that only read programs load this module, so it imports neither asyncio nor the runtime.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vegakit.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from vegakit.lang import Checked, Diagnostic, Module, Signature, Type


_MOST_BYTES = 1 << 20
_MARKERS = ("vega.toml", ".git")
_PROGRAMS = (".vega", ".py")


class Source:
    """A file of a project and what it uses: nothing outside the project's folder is read."""

    def __init__(self, path: Path) -> None:
        self.root = project_root(path)
        self.name = path.resolve().relative_to(self.root).as_posix()
        self.texts: dict[str, str] = {}

    def read(self, name: str) -> str | None:
        """Return the text of a file, or None if there is no such file."""
        path = (self.root / name).resolve()
        if not path.is_relative_to(self.root) or not path.is_file():
            return None
        text = _text(path)
        self.texts[name] = text
        return text


@dataclass(frozen=True)
class CheckedSource:
    """A file that was checked, with all that it uses."""

    source: Source
    text: str
    checked: "Checked | None"
    diagnostics: "Sequence[Diagnostic]"

    @property
    def is_sound(self) -> bool:
        """Whether the program has no error; warnings do not count."""
        return self.checked is not None and all(d.severity != "error" for d in self.diagnostics)


def check_source(
    path: Path,
    tools: "Mapping[str, Signature] | None" = None,
    types: "Mapping[str, Type] | None" = None,
) -> CheckedSource:
    """Check the program in a file."""
    from vegakit.lang import check_program

    if path.suffix not in _PROGRAMS and path.is_file():
        raise UserError(
            f"{path.name} is no program by its name; give the path of a "
            f"{' or '.join(_PROGRAMS)} file"
        )
    source = Source(path)
    text = source.read(source.name)
    if text is None:
        raise _unreadable(path)
    return CheckedSource(
        source, text, *check_program(text, source.name, source.read, tools=tools, types=types)
    )


def nodes_in(path: Path, text: str | None = None) -> tuple[str, ...]:
    """Return the ids of the nodes that a program declares: whoever checks or runs it gives them as
    `tools`. Of what cannot be read there are none; that is told when it is checked."""
    from vegakit.lang import declared_nodes

    if path.suffix not in _PROGRAMS or not path.is_file():
        return ()
    source = Source(path)
    read = source.read(source.name) if text is None else text
    return declared_nodes(read or "", source.name, source.read)


def _unreadable(path: Path) -> UserError:
    """Return why a path is no program, and which one was probably meant."""
    folder = path if path.is_dir() else path.parent
    programs = [str(one) for one in sorted(folder.glob("*")) if one.suffix in _PROGRAMS]
    rule = f"give the path of a {' or '.join(_PROGRAMS)} file"
    if path.is_dir():
        found = f"{rule}, such as {programs[0]}" if programs else rule
        return UserError(f"{path} is a folder; {found}")
    return UserError(f"there is no file {path}; {did_you_mean(str(path), programs, rule)}")


def load_bytecode(path: Path) -> "Module":
    """Load a compiled program, which is verified."""
    from vegakit.lang import from_vgb

    try:
        return from_vgb(path.read_bytes())
    except OSError as error:
        raise UserError(
            f"{path} cannot be read: {error.strerror}; correct the path, or make it, type: "
            f"vega build {path.with_suffix('.vega')}"
        ) from error


def project_root(path: Path) -> Path:
    """The nearest folder above that looks like a project's, or else the file's own."""
    here = path.resolve().parent
    for folder in (here, *here.parents):
        if any((folder / marker).exists() for marker in _MARKERS):
            return folder
    return here


def _text(path: Path) -> str:
    size = path.stat().st_size
    if size > _MOST_BYTES:
        raise UserError(f"{path.name} has {size:,} bytes; a program has at most {_MOST_BYTES:,}")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path.name} is not UTF-8 text: {error.reason}; save it as UTF-8"
        ) from None
