"""`vega trust`: show what a folder would change and start, and trust it; and the question that
other commands ask before they use a folder."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from vegakit.cli.look import look_of, one_line
from vegakit.cli.main import Argument, CommandParser
from vegakit.config import (
    FolderContent,
    TrustRecord,
    changed_starts,
    find_trust,
    folder_content,
    name_of_user,
    other_owners,
    project_folder,
    trust_command as command_to_trust,
    trust_folder,
    trust_for_this_process,
    trust_record,
    write_trust,
)
from vegakit.errors import SettingsError, UserError
from vegakit.lang import Module
from vegakit.sdk import python_functions

TRUST = Argument("--trust", action="store_true", help="trust its folder this time")
"""For commands that use files of a folder."""


def trust_command(arguments: Sequence[str]) -> int:
    """Run `vega trust`."""
    chosen = CommandParser(
        prog="vega trust",
        description="Show what a folder would change and start, ask, and trust it with all below "
        "it and its git worktrees.",
        arguments=[
            Argument("folder", nargs="?", type=Path, default=Path(), metavar="FOLDER"),
            Argument("-y", "--yes", action="store_true", help="ask nothing"),
            Argument("--list", action="store_true", help="show the folders that you trust"),
            Argument("--remove", action="store_true", help="trust the folder no longer"),
        ],
    ).parse_args(arguments)
    folder = chosen.folder.resolve()
    record = trust_record()
    if chosen.list:
        print("\n".join(map(one_line, sorted(record.folders))) or "you trust no folder")
    elif chosen.remove:
        if record.folders.pop(str(folder), None) is None:
            raise UserError(
                f"{folder} is no folder that you trust; to see those, type: vega trust --list"
            )
        write_trust(record)
        print(f"{one_line(str(folder))} is not trusted any more")
    elif not folder.is_dir():
        raise UserError(f"{folder} is no folder; give the folder of a project")
    else:
        return _trust(folder_content(folder), is_asked=not chosen.yes)
    return 0


def _trust(content: FolderContent, *, is_asked: bool) -> int:
    print(*_page(content), sep="\n")
    if is_asked and not _is_at_terminal():
        raise UserError("there is no terminal to ask at; to trust the folder, add: --yes")
    if is_asked and not _confirmed(content.folder):
        return 1
    trust_folder(content.folder, content.starts)
    print(f"{one_line(str(content.folder))} is trusted, with everything below it")
    return 0


def prepare_trust(folder: Path, files: Iterable[Path] = (), *, is_trusted: bool) -> None:
    """Ask at a terminal whether a folder is trusted, if it steers, or if one of the `files` is
    loaded as Python. Without a terminal nothing is asked, and what steers is not used."""
    project = project_folder(folder)
    if is_trusted:
        trust_for_this_process(project)
    if not _is_at_terminal():
        return
    try:
        content = folder_content(project)
    except SettingsError:  # the next command that reads the settings reports the error
        return
    is_known = find_trust(project) is not None
    changed = changed_starts(content)
    is_steering = not is_known and bool(content.settings or content.texts)
    if not changed and not is_steering and (find_trust(folder) or not any(map(_is_loaded, files))):
        return
    print(*_page(content, changed if is_known else ()), sep="\n", file=sys.stderr)
    if _confirmed(content.folder):
        trust_folder(content.folder, content.starts)


def _is_loaded(file: Path) -> bool:
    """Return whether a command loads a file as Python, rather than compile it."""
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    return bool(python_functions(text, file.name))


def admit_rights(file: Path, module: Module, allowed: Sequence[str] | None) -> None:
    """Ask whether a program in a folder that is not trusted may touch more than files that it
    reads, unless the user granted this before, or names what it may do."""
    file = file.resolve()
    rights = tuple(dict.fromkeys(_rights(module, allowed or ())))
    record = trust_record()
    is_granted = set(rights) <= set(record.rights.get(str(file), ()))
    if is_granted or find_trust(file.parent) is not None:
        return
    told = [f"{one_line(str(file))} is in a folder that you have not trusted, and may do this:"]
    told += [f"  {one_line(right)}" for right in rights]
    if _is_at_terminal():
        from vegakit.cli.questions import confirmed

        if confirmed("\n".join(told)):
            write_trust(TrustRecord(record.folders, {**record.rights, str(file): rights}))
            return
    # `--allow` names all that a run may use, so also what needs no question.
    names = dict.fromkeys(name for used in module.rights for name in used.capabilities)
    options = "".join(f" --allow {name}" for name in names)
    raise UserError(
        f"{file} may do what you have not granted ({', '.join(rights)}), in a folder that you have "
        f"not trusted; to grant it, add:{options or ' --trust'}; to trust the folder, type: "
        f"{command_to_trust(project_folder(file.parent))}"
    )


def _rights(module: Module, allowed: Sequence[str]) -> Iterator[str]:
    """Yield what a program may touch beyond files that it reads, in any file that it uses.
    `allowed` was granted already."""
    for rights in () if allowed else module.rights:
        rules = {
            "fs": ("**",) if rights.paths is None else rights.paths,
            "net": ("**",) if rights.hosts is None else rights.hosts,
            "process": ("**",) if rights.commands is None else rights.commands,
        }
        for name in rights.capabilities:
            family = name.partition("::")[0]
            if family in rules and name != "fs::read":
                yield from (f"{name} {rule}" for rule in rules[family])
    yield from (f"use mcp {name}" for name in module.mcp)
    yield from (f"use the tools of {name}" for agent in module.agents for name in agent.yaml)


def _confirmed(folder: Path) -> bool:
    from vegakit.cli.questions import confirmed

    return confirmed(f"do you trust {one_line(str(folder))}, and everything below it?")


def _is_at_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _page(content: FolderContent, changed: Sequence[str] = ()) -> Iterator[str]:
    """Yield what a folder would change if it is trusted, or what changed since it is."""
    look = look_of(sys.stderr)
    yield look.text(one_line(str(content.folder)))
    for name, value in content.settings.items():
        if not changed or name in changed:
            yield look.text(f"  vega.toml sets {one_line(name)} = {one_line(value)}")
    for name in changed or content.starts:
        if name not in content.settings:
            yield look.text(f"  starts or is offered to agents: {one_line(name)}")
    if not changed:
        for name in content.texts:
            yield look.text(f"  instructs agents: {one_line(name)}")
        for user in other_owners(content.folder):
            yield f"  files of another user count as yours: {name_of_user(user)}"
        yield "  Python in it runs with all your rights when you name its file"
