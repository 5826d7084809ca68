"""Programs in the files of a project: where its folder begins, what is read, what is found.

Commands that only read programs load this module, so it imports neither asyncio nor the runtime.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from vegakit.config import may_steer, why_ignored
from vegakit.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from vegakit.lang import Checked, Diagnostic, Module, Signature, Type


_MOST_BYTES = 1 << 20
_MARKERS = ("vega.toml", ".git")
_PROGRAMS = (".vega", ".py")


class Source:
    """A file of a project and what it uses: nothing outside the project's folder is read, nor what
    belongs to another user, unless it is trusted."""

    def __init__(self, path: Path) -> None:
        self.root = project_root(path)
        self.name = path.resolve().relative_to(self.root).as_posix()
        self.texts: dict[str, str] = {}

    def read(self, name: str) -> str | None:
        """Return the text of a file, or None if there is no such file."""
        path = (self.root / name).resolve()
        if not path.is_relative_to(self.root) or not path.is_file():
            return None
        if name != self.name and (why := why_ignored(path)):
            raise UserError(why)
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

    @property
    def python_functions(self) -> tuple[str, ...]:
        """The functions of the file that stay Python, which no check can read."""
        return python_functions(self.text, self.source.name)


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
    checked, found = check_program(text, source.name, source.read, tools=tools, types=types)
    return CheckedSource(source, text, checked, with_rules(checked, found))


def python_functions(text: str, name: str) -> tuple[str, ...]:
    """Return the functions of a program in Python that stay Python: to run the program, its file is
    loaded."""
    from vegakit.lang import lower

    return tuple(lower(text, name).tools) if name.endswith(".py") else ()


def with_rules(
    checked: "Checked | None", found: "Sequence[Diagnostic]"
) -> "tuple[Diagnostic, ...]":
    """Return what was found with what is wrong with the rules of a sound program: a right that no
    run could have is refused before there is one, and a call that no run would do is warned of."""
    from vegakit.lang import denied_calls, faults_of_rules

    if checked is None:
        return tuple(found)
    if wrong := tuple(faults_of_rules(checked, _RULES)):
        return (*found, *wrong)
    denied = denied_calls(checked, _denial)
    return (*found, *sorted(denied, key=lambda one: (one.file, one.at)))


def _fault(field: str, rule: str) -> str | None:
    # Only a program that names rules has them loaded.
    from vegakit.errors import InvalidRuleError
    from vegakit.lang import in_project
    from vegakit.policy import Grant

    try:
        match field:
            case "paths":
                # As programs may also name the folder of their project.
                Grant(paths=(in_project(rule),))
            case "commands":
                Grant(commands=(rule,))
            case _:
                Grant(hosts=(rule,))
    except InvalidRuleError as error:
        return str(error)
    return None


def _denial(
    capability: str, reached: str, rules: "Mapping[str, tuple[str, ...]]"
) -> tuple[str, str] | None:
    from vegakit.errors import InvalidRuleError
    from vegakit.lang import in_project
    from vegakit.policy import Denied, Grant, ReadPath, decide, parse_command, parse_url

    paths = (in_project(rule) for rule in rules["paths"])
    try:
        grant = Grant((capability,), (), tuple(paths), rules["commands"], rules["hosts"])
    except InvalidRuleError:  # too many of them, which is told when it runs
        return None
    match capability.partition("::")[0]:
        case "fs":
            wanted = ReadPath(in_project(reached))
            grant = Grant(("fs",), paths=grant.paths)
        case "process":
            wanted = parse_command(reached)
        case _:
            wanted = parse_url("GET" if capability.endswith("get") else "POST", reached)
    said = wanted if isinstance(wanted, Denied) else decide(grant, wanted)
    if not isinstance(said, Denied):
        return None
    why, _, lacking = said.reason.partition("; add allowed_")
    what, _, listed = why.partition(" was asked; ")
    listed = listed.partition(";")[0]
    rule = lacking.partition('["')[2].removesuffix('"]')
    return (f"{what} is not among `{listed.partition(' ')[0]}`" if listed else why), rule


_RULES = {field: partial(_fault, field) for field in ("paths", "commands", "hosts")}


def programs_below(folder: Path) -> list[Path]:
    """Return the programs in a folder and below it. Of the files in Python these are those that say
    `@program`; what is hidden or installed there is of others."""
    python = (
        path
        for path in folder.rglob("*.py")
        if not any(_OF_OTHERS.match(name) for name in path.relative_to(folder).parts[:-1])
        and path.is_file()
        and _IS_PROGRAM.search(path.read_text(encoding="utf-8", errors="replace"))
    )
    return sorted([*filter(Path.is_file, folder.rglob("*.vega")), *python])


_OF_OTHERS = re.compile(r"\.|(?:venv|node_modules|site-packages|__pycache__)$")
_IS_PROGRAM = re.compile(r"^@(?:vegakit\.)?program\b", re.MULTILINE)


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
    """The nearest folder above that looks like a project's, or else the file's own. It is never
    above both the file's folder and the current one: whoever made a folder above chose neither."""
    here = path.resolve().parent
    current = Path.cwd()
    for folder in (here, *here.parents):
        marks = (folder / marker for marker in _MARKERS)
        if any(mark.exists() and may_steer(mark) for mark in marks):
            return folder
        if folder == current or not here.is_relative_to(current):
            break
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
