"""Tasks as they are kept, and written out: start tree, solution and verifier; what a tree holds."""

import json
import os
import stat
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

__all__ = ["CALLS", "Call", "Task", "apply_calls", "load_tasks", "tree_of"]

KEPT = Path(__file__).parent / "tasks"
CALLS = ".calls"
"""The file in which a played command notes that it ran; no part of the tree that is compared."""
_PASSED_OVER = frozenset({".git", "__pycache__", CALLS})
"""Byte code holds the time of its source, and git that of its files."""
_VERIFY_S = 300
_FIRST_ARGUMENT = {
    "read": "path",
    "write": "path",
    "edit": "path",
    "glob": "pattern",
    "grep": "pattern",
    "shell": "command",
    "todo": "items",
}
_SUFFIX = {"python": "py", "javascript": "js", "shell": "sh"}
_RUNS = {"py": "python3 -B", "js": "node", "sh": "bash"}
_MUTANTS = '''\
"""Run the tests of the tree as it is, then with one mutant after the other."""

import shutil, subprocess, sys, tempfile
from pathlib import Path

RUNS = {runs!r}
MUTANTS = {changes}


def passes(path="", old="", new=""):
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "copy")
        shutil.copytree(".", copy, ignore=shutil.ignore_patterns("__pycache__", ".git"))
        if path:
            text = (copy / path).read_text()
            assert old in text, f"{{old!r}} is not in {{path}}"
            (copy / path).write_text(text.replace(old, new, 1))
        return subprocess.run(RUNS, shell=True, cwd=copy, capture_output=True).returncode == 0


if not passes():
    sys.exit("the tests fail, or there are none")
for mutant in MUTANTS:
    if passes(*mutant):
        sys.exit(f"the tests miss {{mutant}}")
'''


class Call(Struct, frozen=True):
    """A tool call of the model."""

    tool: str
    arguments: dict[str, Any]
    fails: bool = False
    done: str = ""

    @property
    def has_effects(self) -> bool:
        """Return whether it is never made again by itself."""
        return self.tool in {"write", "edit", "shell"}


class Mutants(Struct, frozen=True):
    """What tests must find: `changes` are path, old text and new text; `runs` is their command."""

    runs: str
    changes: list[tuple[str, str, str]]


class Task(Struct, frozen=True, forbid_unknown_fields=True):
    """One task. `steps` are the answers of the model before its last."""

    name: str
    kind: str
    language: str
    instruction: str
    files: dict[str, str]
    steps: list[list[dict[str, Any]]]
    solution: str
    verifier: str = ""
    mutants: Mutants | None = None
    answer: str = "Done."

    @property
    def rounds(self) -> list[list[Call]]:
        """Return the answers of the model as tool calls."""
        return [[_call(each) for each in step] for step in self.steps]

    def begin(self, folder: Path) -> Path:
        """Write the tree that the agent begins with, as a repository with one commit."""
        write_files(folder, self.files)
        made = "git init -q -b main && git add -A && git commit -q -m begin"
        who = {f"GIT_{role}_{what}": "a@b" for role in _ROLES for what in ("NAME", "EMAIL")}
        subprocess.run(["bash", "-c", made], cwd=folder, env=os.environ | who, check=True)
        return folder

    def export(self, to: Path) -> Path:
        """Write the folder of the task, as other harnesses read it."""
        place, name = to / self.name, f"verify.{self._suffix}"
        script = f'exec {_RUNS[self._suffix]} "$(dirname "$0")/{name}"\n'
        write_files(
            place,
            {
                "task.toml": self._about(),
                "instruction.md": self.instruction,
                "solution/solve.sh": 'git apply "$(dirname "$0")/fix.patch"\n',
                "solution/fix.patch": self.solution,
                "tests/test.sh": f"export PYTHONPATH=.\n{script}",
                f"tests/{name}": self._verifier(),
            },
        )
        write_files(place / "environment", self.files)
        return place

    def solve(self, folder: Path, exported: Path) -> None:
        """Apply the solution, as an agent that makes no mistake."""
        solve = exported.resolve() / "solution" / "solve.sh"
        subprocess.run(["bash", solve], cwd=folder, check=True)

    def verdict(self, folder: Path, exported: Path) -> str:
        """Return why the tree does not solve the task; nothing if it does."""
        test = exported.resolve() / "tests" / "test.sh"
        ran = subprocess.run(
            ["bash", test],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_VERIFY_S,
            check=False,
        )
        said = (ran.stderr or ran.stdout).strip().splitlines()[-1:]
        return "" if ran.returncode == 0 else "".join(said) or f"exit code {ran.returncode}"

    @property
    def _suffix(self) -> str:
        return "py" if self.mutants else _SUFFIX[self.language]

    def _verifier(self) -> str:
        if self.mutants is None:
            return self.verifier
        changes = json.dumps(self.mutants.changes, indent=4)
        return _MUTANTS.format(runs=self.mutants.runs, changes=changes)

    def _about(self) -> str:
        tags = json.dumps([self.kind, self.language])
        return (
            f'version = "1.0"\n\n[metadata]\nname = "{self.name}"\ntags = {tags}\n\n'
            f"[verifier]\ntimeout_sec = {_VERIFY_S}\n\n[agent]\ntimeout_sec = 600\n"
        )


_ROLES = ("AUTHOR", "COMMITTER")


@cache
def load_tasks() -> dict[str, Task]:
    """Return all tasks by name."""
    found = dict[str, Task]()
    for path in sorted(KEPT.glob("*.toml")):
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        found[path.stem] = msgspec.convert({"name": path.stem, **table}, Task)
    return found


def _call(table: dict[str, Any]) -> Call:
    given = dict(table)
    fails, done = given.pop("fails", False), given.pop("done", "")
    tool = next(iter(given))
    return Call(tool, {_FIRST_ARGUMENT[tool]: given.pop(tool), **given}, fails, done)


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write texts by their paths."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def tree_of(folder: Path) -> dict[str, str]:
    """Return what is in a tree: of each path its kind, whether it may be run, and its content."""
    return dict(_facts(folder, ""))


def _facts(folder: Path, under: str) -> Iterator[tuple[str, str]]:
    for entry in sorted(os.scandir(folder), key=lambda each: each.name):
        if entry.name in _PASSED_OVER:
            continue
        path = f"{under}{entry.name}"
        if entry.is_symlink():
            yield path, f"link {Path(entry.path).readlink()}"
        elif entry.is_dir():
            yield path, "folder"
            yield from _facts(Path(entry.path), f"{path}/")
        else:
            run = bool(entry.stat().st_mode & stat.S_IXUSR)
            text = Path(entry.path).read_bytes().decode("utf-8", "backslashreplace")
            yield path, f"file {run:d} {text}"


# The same calls without Vega and without a sandbox.


def apply_calls(task: Task, folder: Path) -> list[str]:
    """Make all calls of the model by hand, and return what did not go as the task says."""
    return [
        f"step {number}: {_shown(call)} {'succeeds' if call.fails else 'fails'}"
        for number, calls in enumerate(task.rounds)
        for call in calls
        if _apply(call, folder) is call.fails
    ]


def _apply(call: Call, folder: Path) -> bool:
    """Return whether the call succeeds."""
    given = call.arguments
    match call.tool:
        case "read":
            return (folder / given["path"]).is_file()
        case "write":
            write_files(folder, {given["path"]: given["content"]})
        case "edit":
            text = (folder / given["path"]).read_text(encoding="utf-8")
            if text.count(given["old"]) != 1:
                return False
            write_files(folder, {given["path"]: text.replace(given["old"], given["new"])})
        case "shell":
            line = ["bash", "-c", given["command"]]
            return not subprocess.run(line, cwd=folder, capture_output=True, check=False).returncode
        case _:
            return call.tool in {"glob", "grep", "todo"}
    return True


def _shown(call: Call) -> str:
    return f"{call.tool} {next(iter(call.arguments.values()))!r}"
