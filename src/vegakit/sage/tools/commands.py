"""Run commands in the sandbox: glob and grep by `find` and `grep`, and the shell; and the list of
steps, which reaches nothing. The workspace is writable there, and there is no network.
"""

import asyncio
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from vegakit.errors import ToolFailed
from vegakit.policy import Grant, RunCommand, mark_untrusted, sanitise
from vegakit.ports import CommandResult
from vegakit.sage.git_settings import git_command
from vegakit.sage.tools.files import reads
from vegakit.sage.tools.globs import compile_glob
from vegakit.sage.tools.jobs import Jobs
from vegakit.sage.tools.workspace import (
    COUNT,
    EXEC,
    LONGEST_COMMAND_S,
    TEXT,
    SageTool,
    Workspace,
    spec_of,
)
from vegakit.sage.undo.windows import Reach
from vegakit.tools import ToolRights, is_protected

_MOST_PATHS, _MOST_MATCHES, _LONGEST_MATCH = 500, 200, 300
_USUAL_S, _SEARCH_S = 120, 30
_OVERTIME, _KILLED = 124, 137
"""The exit codes of `timeout`: when it has ended its command, and when it had to kill it."""
_GRACE_S = 1
"""Between the signal that asks a command to end and the one that ends it."""
_TOLD_LATE = {
    _OVERTIME: "ended after {limit} s, its time limit: what it did until then stays done, the rest "
    "was not done; give it more with timeout_s, or run it in the background",
    _KILLED: "killed after {limit} s, its time limit: it did not end within {grace} s of being "
    "asked to, so its outcome is unknown, and what it wrote may be partial; look before you go on",
}


_STOPPED = (
    "stopped by the person before its end; what it did until then stays done. Do not start it "
    "again unless you are asked to."
)


class GlobArguments(Struct, forbid_unknown_fields=True):
    """The arguments of `glob`."""

    pattern: str
    path: str = "."


class GrepArguments(Struct, forbid_unknown_fields=True):
    """The arguments of `grep`."""

    pattern: str
    path: str = "."
    files: str = ""
    ignore_case: bool = False


class ShellArguments(Struct, forbid_unknown_fields=True):
    """The arguments of `shell`."""

    command: str
    timeout_s: int = _USUAL_S
    background: bool = False


class TodoItem(Struct, forbid_unknown_fields=True):
    """A step of the plan of an agent."""

    text: str
    done: bool = False


class TodoArguments(Struct, forbid_unknown_fields=True):
    """The arguments of `todo`."""

    items: list[TodoItem]


class CommandTools:
    """The tools of a workspace that run commands."""

    def __init__(self, workspace: Workspace, jobs: Jobs) -> None:
        self._workspace, self._jobs = workspace, jobs
        self._shell = "bash" if Path("/bin/bash").exists() else "sh"

    def tools(self) -> tuple[SageTool, ...]:
        """Return them, always in the same order."""
        return (
            SageTool(
                spec_of("glob", _TOLD_GLOB, _GLOB, "pattern"),
                GlobArguments,
                self._glob,
                lambda given: reads(self._workspace, given.path),
                idempotent=True,
                untrusted=True,
            ),
            SageTool(
                spec_of("grep", _TOLD_GREP, _GREP, "pattern"),
                GrepArguments,
                self._grep,
                lambda given: reads(self._workspace, given.path),
                idempotent=True,
                untrusted=True,
            ),
            SageTool(
                spec_of("shell", _TOLD_SHELL, _SHELL, "command"),
                ShellArguments,
                self._run_shell,
                self._executes,
                idempotent=False,
                timeout_ms=1000 * (LONGEST_COMMAND_S + 30),
            ),
            self._jobs.tool(),
            SageTool(
                spec_of("todo", _TOLD_TODO, _TODO, "items"),
                TodoArguments,
                _todo,
                lambda _: ToolRights(()),
                idempotent=True,
            ),
        )

    def _executes(self, given: ShellArguments) -> ToolRights:
        wanted = RunCommand((self._shell, "-c", given.command))
        grant = Grant((EXEC,), commands=(f"{self._shell} ***",))
        return ToolRights((wanted,), grant, sandboxed=True)

    # Searches.

    async def _glob(self, given: GlobArguments) -> str:
        fits = compile_glob(given.pattern)
        path = self._workspace.relative(given.path)
        base = "" if path == "." else f"{path}/"
        names = await list_files(self._workspace, path)
        found = await asyncio.to_thread(
            lambda: [name for name in names if fits(name.removeprefix(base))]
        )
        if not found:
            left_out = await _left_out(self._workspace, path)
            return f"no file fits {given.pattern} in {path}{left_out}"
        more = len(found) - _MOST_PATHS
        cut = [f"[{more:,} more; narrow the pattern]"] if more > 0 else []
        return "\n".join([*found[:_MOST_PATHS], *cut])

    async def _grep(self, given: GrepArguments) -> str:
        path = self._workspace.relative(given.path)
        # Not Python's own: a pattern that goes back and forth would hold the whole process.
        words = _grep_words(given.pattern, ignore_case=given.ignore_case)
        named = ["-name", given.files] if given.files else []
        ran = await _listed(self._workspace, _grep_script(words), path, named)
        if ran is None:
            options = [f"--exclude-dir={name}" for name in _passed_over(path)]
            options += [f"--include={given.files}"] if given.files else []
            ran = await _search(
                self._workspace,
                ["grep", "-r", *words, *options, "--", "." if path == "." else f"./{path}"],
            )
        if not ran.stdout and ran.exit_code > 1 and ran.stderr.strip():
            raise ToolFailed(f"grep: {ran.stderr.strip()[:_LONGEST_MATCH]}; correct the pattern")
        found = sorted(
            (line.removeprefix("./")[:_LONGEST_MATCH] for line in ran.stdout.splitlines()),
            key=_place_of,
        )
        if not found:
            left_out = await _left_out(self._workspace, path)
            return f"nothing in {path} fits {given.pattern}{left_out}"
        more = len(found) - _MOST_MATCHES
        cut = [f"[{more:,} more; narrow the pattern, the path or files]"] if more > 0 else []
        return "\n".join([*found[:_MOST_MATCHES], *cut])

    # Commands.

    async def _run_shell(self, given: ShellArguments) -> str:
        if given.background:
            return self._jobs.start([self._shell, "-c", given.command])
        limit = min(max(given.timeout_s, 1), LONGEST_COMMAND_S)
        timed = ["timeout", "-k", str(_GRACE_S), str(limit)]
        argv, live = [*timed, self._shell, "-c", given.command], self._workspace.live_output()
        try:
            async with self._workspace.changing(reach=Reach.FILES):
                heard = None if live is None else live.hear
                work = self._workspace.in_sandbox(argv, on_output=heard)
                ran = await self._workspace.stoppable(work)
        finally:
            if live is not None:
                live.end()
        if ran is None:
            return _STOPPED
        return await shown_command(self._workspace, ran, _late(ran, limit))


async def shown_command(workspace: Workspace, ran: CommandResult, more: Sequence[str] = ()) -> str:
    """Return what a command said for a model, without the time it took: an equal result of an equal
    command must be equal text, or nobody could tell that an agent goes round in a circle."""
    shown = [
        f"{name}:\n{mark_untrusted(sanitise(await workspace.capped(name, text)))}"
        for name, text in (("stdout", ran.stdout), ("stderr", ran.stderr))
        if text.strip()
    ]
    return "\n".join([*shown, *ran.notes, *more, f"exit code {ran.exit_code}"])


def _late(ran: CommandResult, limit: int) -> list[str]:
    """Return what to tell of a command that was ended at its time limit. One that exits with the
    same code by itself does so earlier."""
    told = _TOLD_LATE.get(ran.exit_code)
    if told is None or ran.duration_ms < 1000 * limit:
        return []
    return [told.format(limit=limit, grace=_GRACE_S)]


async def list_files(workspace: Workspace, path: str) -> list[str]:
    """Return the names of all files below a path, but of those that are ignored, in order."""
    ran = await _listed(workspace, _LIST, path)
    if ran is None:
        ran = await _search(workspace, [*_plain_listing(path), "-o", "-type", "f", "-print0"])
    return await asyncio.to_thread(_real, workspace.folder, ran.stdout)


async def _listed(
    workspace: Workspace, script: str, path: str, more: Sequence[str] = ()
) -> CommandResult | None:
    """Run a script over what git lists; None where git has no say: it lists nothing, or the path
    names a folder that is passed over elsewhere."""
    if set(Path(path).parts) & {*_PASSED_OVER}:
        return None
    ran = await _search(workspace, ["sh", "-c", script, "sh", path, *more])
    return None if ran.exit_code == _NO_LISTING else ran


async def _left_out(workspace: Workspace, path: str) -> str:
    """Return what a search that found nothing has not looked at, and how it is searched."""
    ran = await _listed(workspace, _LIST_IGNORED, path)
    if ran is None:
        ran = await _search(workspace, [*_plain_listing(path), "-print0"])
    names = await asyncio.to_thread(_real, workspace.folder, ran.stdout)
    # What is out of reach is not found by naming it either.
    names = [name for name in names if name != "." and not is_protected(name)]
    if not names:
        return ""
    more = len(names) - _MOST_LEFT_OUT
    shown = [*names[:_MOST_LEFT_OUT], *([f"{more:,} more"] if more > 0 else [])]
    return f"; not searched, as ignored: {', '.join(shown)} (name one in path to search it)"


def _real(folder: Path, listed: str) -> list[str]:
    """Return the names in order, without the empty files that a sandbox puts in the place of those
    that must not be made, such as `.envrc`."""
    names = sorted(str(Path(name)) for name in listed.split("\0") if name)
    return [name for name in names if "/" in name or not _is_stub(folder, name)]


def _is_stub(folder: Path, name: str) -> bool:
    if not is_protected(name):
        return False
    try:
        return not (folder / name).lstat().st_size
    except OSError:
        return True


async def _search(workspace: Workspace, argv: list[str]) -> CommandResult:
    ran = await workspace.in_sandbox(["timeout", "-k", "1", str(_SEARCH_S), *argv])
    if ran.exit_code == _OVERTIME:
        raise ToolFailed(f"the search took longer than {_SEARCH_S} s; name a folder in path")
    return ran


# List the files that searches look at: those that git would see, in a repository or not.
#
# `.gitignore` decides, at every depth, and `.git/info/exclude`. Files that are tracked are listed
# even if ignored. Where git or the right `find` is missing, or fails, a fixed list of folders is
# passed over instead. A folder that is ignored or passed over is searched if the call names it, and
# so are those of the same name in it: packages hold some of their own.
#
# The settings of the repository are never read: they may name programs that git would run
# (`core.fsmonitor`, a remote helper, a filter). So git is given an empty folder as its own, made
# anew in the private `/tmp` of the sandbox, and of the repository's only the index and the list of
# excluded names. There is no setting, hook, remote or filter that anybody could have planted.


_PASSED_OVER = (
    ".git .hg .svn node_modules .venv venv __pycache__ .mypy_cache .pytest_cache .ruff_cache .tox"
).split()
_MOST_LEFT_OUT = 10
_NO_LISTING = 97
"""The exit code that says: there is no list by git here, or it is empty."""
_OWN_GIT = r"""
path=$1; shift
own=$(mktemp -d) && mkdir "$own/objects" "$own/refs" || exit 97
echo 'ref: refs/heads/none' > "$own/HEAD"
export GIT_DIR="$own" GIT_WORK_TREE="$PWD"
[ -f .git/index ] && export GIT_INDEX_FILE="$PWD/.git/index"
[ -f .git/info/exclude ] && mkdir "$own/info" && cp .git/info/exclude "$own/info"
[ -L "$path" ] && exit 97
"""
_BY_GIT = r"""
@GIT@ check-ignore -q --no-index -- "$path" 2> /dev/null && exit 97
@GIT@ --literal-pathspecs ls-files -z --deduplicate --cached --others \
    --exclude-standard @EXCLUDED@ -- "$path" > "$own/list" 2> /dev/null || exit 97
[ -s "$own/list" ] || exit 97
printf '.\0' | find -files0-from - -maxdepth 0 > /dev/null 2>&1 || exit 97
find -files0-from "$own/list" @PRUNED@ -o -type f "$@" -print0 > "$own/files" 2> /dev/null
"""
"""What is listed may be gone from the disk, and a folder with a repository of its own is listed as
a folder: `find` leaves out the one and looks into the other. Links are left out too."""


def _listing_script(then: str) -> str:
    """Return a script for `sh` that lists files and goes on with `then`, where "$own/files" holds
    their names, each ended by a zero byte. Its first argument is the path, the others are tests for
    `find`."""
    pruned = " -o ".join(f"-name {name}" for name in _PASSED_OVER)
    listed = _BY_GIT.replace("@PRUNED@", rf"\( {pruned} \) -prune")
    return _filled_in(f"{_OWN_GIT}{listed}{then}\n")


def _filled_in(script: str) -> str:
    return script.replace("@GIT@", shlex.join(git_command())).replace(
        "@EXCLUDED@", " ".join(f"-x {name}" for name in _PASSED_OVER)
    )


def _passed_over(path: str) -> list[str]:
    """Return the names of folders that a search of a path passes over."""
    named = Path(path).parts
    return [name for name in _PASSED_OVER if name not in named]


def _plain_listing(path: str) -> list[str]:
    """Return the beginning of the command that lists files without git: after it are only folders
    that are passed over, and after `-o` all the rest. A link is followed if it is named."""
    pruned = [word for name in _passed_over(path) for word in ("-o", "-name", name)][1:]
    return ["find", "-H", f"./{path}", "(", *pruned, ")", "-prune"]


def _grep_words(pattern: str, *, ignore_case: bool) -> Sequence[str]:
    """Return how grep is asked, by either way of listing."""
    return ("-HnIE", *(("-i",) if ignore_case else ()), "-e", pattern)


_LIST = _listing_script('cat "$own/files"')
_LIST_IGNORED = _filled_in(
    _OWN_GIT
    + """@GIT@ --literal-pathspecs ls-files -z --others --ignored --directory --exclude-standard \
    @EXCLUDED@ -- "$path" 2> /dev/null || exit 97
"""
)


def _grep_script(words: Sequence[str]) -> str:
    return _listing_script(f'xargs -0 -r grep -s {shlex.join(words)} -- < "$own/files"')


def _place_of(line: str) -> tuple[str, int]:
    path, _, rest = line.partition(":")
    number = rest.partition(":")[0]
    return path, int(number) if number.isdigit() else 0


async def _todo(given: TodoArguments) -> str:
    rows = [f"[{'x' if item.done else ' '}] {item.text}" for item in given.items]
    return "\n".join(rows) or "the list is empty"


_TOLD_GLOB = (
    "List files by a pattern such as **/*.py or src/**/*.{ts,js}. Ignored files (.gitignore) are "
    "left out unless path names their folder."
)
_GLOB: dict[str, Any] = {
    "pattern": TEXT,
    "path": {**TEXT, "description": "a folder; the workspace"},
}
_TOLD_GREP = (
    "Search file contents by an extended regular expression (grep -E). Ignored files are left out "
    "unless path names their folder."
)
_GREP: dict[str, Any] = {
    "pattern": TEXT,
    "path": {**TEXT, "description": "a file or folder; the workspace"},
    "files": {**TEXT, "description": "only names that fit, such as *.py"},
    "ignore_case": {"type": "boolean"},
}
_TOLD_SHELL = (
    "Run a command line in a sandbox: the workspace is writable, .git is read-only, there is "
    "no network. Long output is cut, and kept whole in a file."
)
_SHELL: dict[str, Any] = {
    "command": TEXT,
    "timeout_s": {
        **COUNT,
        "maximum": LONGEST_COMMAND_S,
        "description": f"{_USUAL_S} if not given",
    },
    "background": {"type": "boolean", "description": "return at once; see job"},
}
_TOLD_TODO = "Keep the list of steps of a longer task: send the whole list each time."
_TODO: dict[str, Any] = {
    "items": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"text": TEXT, "done": {"type": "boolean"}},
            "required": ["text"],
            "additionalProperties": False,
        },
    }
}
