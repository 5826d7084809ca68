"""The repository of the workspace: a part of git that runs nothing but git itself.

    look for programs in the settings ─▶ refuse, or git in the sandbox ─▶ what it said

| danger                                  | why it comes to nothing                              |
|-----------------------------------------|------------------------------------------------------|
| hooks, fsmonitor, pager, editor, gpg    | turned off by options, which win over settings       |
| any other setting, known or not         | refused unless it is on the list of harmless ones    |
| the settings of the user                | not read, but for the name and address of commits    |
| a submodule, with settings of its own   | left out of what is added or restored                |
| a new hook or setting                   | frozen in the sandbox, also for `commit` and its like |
| push, fetch, and what else leaves       | refused; there is no network in the sandbox          |
| files that hold secrets                 | empty in the sandbox, and left out of what is added  |
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

from vegakit.errors import ToolFailed
from vegakit.policy import Grant, RunCommand, mark_untrusted, sanitise
from vegakit.ports import CommandResult
from vegakit.sage.git_settings import find_refused_setting, git_command
from vegakit.sage.tools.workspace import EXEC, TEXT, SageTool, Workspace, spec_of
from vegakit.sage.undo.windows import Reach
from vegakit.tools import ToolArgumentsError, ToolRights, is_protected

_LONGEST_S = 60


class GitArguments(Struct, forbid_unknown_fields=True):
    """The arguments of `git`."""

    args: list[str]


class _Command(Struct, frozen=True):
    """What a command of git is allowed: whether it `writes`, the options put before those given,
    the ones that are refused, or the `only` ones that are taken, without paths, and whether paths
    can be left out of it."""

    writes: bool = False
    only: str = ""
    first: tuple[str, ...] = ()
    refused: str = ""
    excludes: bool = False


_PLAIN_DIFF = ("--no-ext-diff", "--no-textconv")
_COMMANDS = {
    "status": _Command(excludes=True),
    "diff": _Command(first=_PLAIN_DIFF, refused="--no-index --output", excludes=True),
    "log": _Command(first=_PLAIN_DIFF, refused="--output --show-signature"),
    "show": _Command(first=_PLAIN_DIFF, refused="--output --show-signature"),
    "blame": _Command(),
    "add": _Command(
        writes=True, refused="-i --interactive -p --patch -e --edit -f --force", excludes=True
    ),
    "commit": _Command(
        writes=True,
        first=("--no-verify", "--no-gpg-sign"),
        only="-m --message --amend --no-edit --allow-empty -q --quiet -s --signoff --author --date",
    ),
    "branch": _Command(
        writes=True,
        refused="-u --set-upstream-to --unset-upstream --edit-description -t --track",
    ),
    "switch": _Command(writes=True, refused="-t --track --recurse-submodules"),
    "restore": _Command(writes=True, refused="-p --patch --recurse-submodules", excludes=True),
    "stash": _Command(writes=True, refused="-p --patch -a --all -u --include-untracked"),
}
_REFUSED = "-C --exec-path --upload-pack --receive-pack --ext-diff --textconv --git-dir --work-tree"
_LOOK = """
"$@" config --local --no-includes --list -z && printf '\\0' &&
"$@" ls-files -z -- . ':(exclude,attr:!filter)' && printf '\\0' &&
"$@" ls-files -z -s | { grep -z '^160000' || true; } && printf '\\0' &&
"$@" ls-files -z -co --exclude-standard && printf '\\0'
"""
"""The settings, files with a filter, submodules, and files that are there or not ignored. No entry
is empty, so an empty one ends each list, whatever bytes the others hold."""
_WITH_VALUE = ("-m", "--message", "--author", "--date")


class _Look(NamedTuple):
    """What is left out of commands. `protected` files are empty in the sandbox, or only guard a
    name, so they are neither to be seen nor added. In the folder of a submodule git would run git
    again, by settings of the submodule, which nobody has looked at: a command that may write to
    the repository does not go there."""

    protected: list[str]
    submodules: list[str]


class GitTools:
    """The tool for the repository of a workspace. `home` is the user's, whose settings say who
    commits."""

    def __init__(self, workspace: Workspace, home: Path) -> None:
        self._workspace, self._home = workspace, home

    def tools(self) -> tuple[SageTool, ...]:
        """Return it."""
        return (
            SageTool(
                spec_of("git", _TOLD_GIT, _GIT, "args"),
                GitArguments,
                self._git,
                self._executes,
                idempotent=False,
            ),
        )

    def _executes(self, given: GitArguments) -> ToolRights:
        _checked(given.args)
        wanted = RunCommand(("git", *given.args))
        return ToolRights((wanted,), Grant((EXEC,), commands=("git ***",)), sandboxed=True)

    async def _git(self, given: GitArguments) -> str:
        command = _checked(given.args)
        if not (self._workspace.folder / ".git").is_dir():
            raise ToolFailed(
                "the workspace holds no repository of its own; make one by `git init` at a terminal"
            )
        look = await self._look()
        name, *rest = given.args
        if name == "stash" and (tracked := await self._tracked(look.protected)):
            raise ToolFailed(
                f"{sanitise(tracked)} is out of reach, and a stash would take it along; leave "
                "stashes to the person"
            )
        left_out = look.protected + (look.submodules if command.writes else [])
        args = [name, *command.first, *_with_excludes(rest, left_out if command.excludes else [])]
        if not command.writes:
            ran = await self._run(args)
        else:
            # One at a time: git has one lock for its index.
            async with self._workspace.writing, self._workspace.changing(reach=Reach.REPOSITORY):
                ran = await self._run(args, repository=True)
        shown = [
            mark_untrusted(sanitise(await self._workspace.capped(stream, text)))
            for stream, text in (("stdout", ran.stdout), ("stderr", ran.stderr))
            if text.strip()
        ]
        return "\n".join([*shown, *ran.notes, f"exit code {ran.exit_code}"])

    async def _run(self, args: list[str], *, repository: bool = False) -> CommandResult:
        who = await self._identity() if args[0] in ("commit", "stash") else []
        return await self._workspace.in_sandbox([*self._prefix(who), *args], repository=repository)

    def _prefix(self, variables: Sequence[str] = ()) -> list[str]:
        folder = self._workspace.folder
        places = (f"GIT_DIR={folder / '.git'}", f"GIT_WORK_TREE={folder}")
        command = git_command(variables=(*places, *variables))
        return ["timeout", "-k", "1", str(_LONGEST_S), *command]

    async def _look(self) -> _Look:
        """Return what is left out of commands, or refuse a repository with settings that are not on
        the list."""
        looked = await self._workspace.in_sandbox(["sh", "-c", _LOOK, "sh", *self._prefix()])
        if looked.exit_code:
            raise ToolFailed(f"git: {looked.stderr.strip()[:300]}; look at it at a terminal")
        entries = iter(looked.stdout.split("\0"))
        settings, filtered, links, names = (list(iter(entries.__next__, "")) for _ in range(4))
        if refused := find_refused_setting(settings):
            raise ToolFailed(
                f"this repository has the setting {sanitise(refused[:80])}, because of which git "
                "could run a program or reach outside of the workspace, so this tool does not run "
                "git; look with git in the shell tool, where .git is read-only, and leave commits "
                "to the person"
            )
        if filtered:
            raise ToolFailed(
                f"{sanitise(filtered[0])} goes through a filter of git, such as that of large "
                "files, which this tool does not run; leave commits to the person"
            )
        protected = [name for name in names if is_protected(name)]
        return _Look(protected, [link.partition("\t")[2] for link in links])

    async def _tracked(self, names: list[str]) -> str:
        listed = await self._run(["ls-files", "-z"]) if names else None
        return next((n for n in (listed.stdout if listed else "").split("\0") if n in names), "")

    async def _identity(self) -> list[str]:
        """Return who commits, by the user's own settings; those of the repository win."""
        found: dict[str, str] = {}
        files = (self._home / ".config/git/config", self._home / ".gitconfig")
        for content in (*(file.read_bytes() for file in files if file.is_file()), b""):
            place = ("--file", "-") if content else ("--local",)
            for key in ("name", "email"):
                command = [*self._prefix(), "config", *place, "--get", f"user.{key}"]
                said = (await self._workspace.in_sandbox(command, content)).stdout.strip()
                found |= {key: said} if said else {}
        if len(found) < len(("name", "email")):
            raise ToolFailed(
                "git does not know who commits; let the person type: git config --global user.name "
                "'…' and git config --global user.email '…'"
            )
        return [
            f"GIT_{who}_{key.upper()}={value}"
            for who in ("AUTHOR", "COMMITTER")
            for key, value in found.items()
        ]


def _checked(args: list[str]) -> _Command:
    known = ", ".join(_COMMANDS)
    if not args or args[0] not in _COMMANDS:
        raise ToolArgumentsError(
            f"git {args[0][:40] if args else ''} is not run here; args begin with one of: {known}"
        )
    command = _COMMANDS[args[0]]
    if any("\0" in word for word in args):
        raise ToolArgumentsError("an argument of git holds a zero byte; leave it out")
    if command.only:
        _check_only(args[0], args[1:], command.only.split())
        return command
    for word in args[1:]:
        if word == "--":
            break
        if any(_is_option(word, one) for one in f"{_REFUSED} {command.refused}".split()):
            raise ToolArgumentsError(
                f"git {args[0]} {word[:60]} is not run here: it could run a program, reach outside "
                "of the workspace or wait for keys; leave the option out"
            )
    return command


def _check_only(name: str, words: list[str], known: list[str]) -> None:
    """Refuse what is none of these options; the word after one that takes a value is its value."""
    is_value = False
    for word in words:
        option, equals, _ = word.partition("=")
        is_known = option in known or (word.startswith("-m") and not word.startswith("--"))
        if not is_value and not is_known:
            raise ToolArgumentsError(
                f"git {name} {word[:60]} is not run here; it takes: {' '.join(known)}. Choose the "
                "paths by git add before it"
            )
        is_value = not is_value and not equals and word in _WITH_VALUE


def _is_option(word: str, refused: str) -> bool:
    """Whether a word is this option, also cut short, with a value or among other letters."""
    if refused.startswith("--"):
        name = word.partition("=")[0]
        return len(name) > len("--x") and refused.startswith(name)  # git takes `--ext`, too
    return word.startswith("-") and not word.startswith("--") and word[1:2] == refused[1]


def _with_excludes(args: list[str], left_out: list[str]) -> list[str]:
    if not left_out:
        return args
    # Not after a `--` of ours: what stands before it would be taken for a revision.
    return [*args, *(f":(exclude,top,literal){name}" for name in left_out)]


_TOLD_GIT = (
    f"Use the repository of the workspace: {', '.join(_COMMANDS)}. No hooks, no network, no "
    "settings. Commit by add with paths, then commit -m."
)
_GIT: dict[str, Any] = {"args": {"type": "array", "items": TEXT}}
