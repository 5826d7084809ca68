"""Random turns in real git repositories, undone and redone, beside copies that `cp -a` made.

    python -m campaigns.undo [TURNS] [SEED]

A turn is some shell commands: writes, deletes, renames, links, modes, binary files, files over
2 MB, empty folders, ignored files, and git itself. Then some turns are undone and redone, the store
is opened anew, or a process that undoes is killed and another one finishes. After each step the
tree is compared with the copy of the state that it must have: bytes, modes, times of files, links,
and which names are one file. Objects of git may be more than in the copy, never fewer.
"""

import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from vegakit.sage import UndoStore, open_undo

__all__ = ["Play", "copy", "differences", "kill_after", "main", "make_repository", "shell"]

SETUP = """
git init -q -b main; git config user.email a@b; git config user.name a; git config gc.auto 0
git config core.fsync none
mkdir src empty; for i in 1 2 3 4 5; do echo $i > src/$i.py; done
printf '*.log\\nbuild/\\n' > .gitignore; git add -A; git commit -qm one
mkdir build; echo ignored > build/out; echo log > a.log; ln -s src/1.py link; ln src/2.py src/twin
"""


def shell(command: str, folder: Path) -> None:

    subprocess.run(["bash", "-c", command], cwd=folder, check=True, capture_output=True)


def make_repository(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shell(SETUP, folder)


def copy(folder: Path, to: Path) -> Path:
    subprocess.run(["cp", "-a", folder, to], check=True)
    return to


def differences(one: Path, other: Path) -> list[str]:
    """What differs in `one` from its copy `other`."""
    found: list[str] = []
    trees = [dict(_paths(os.fsencode(folder))) for folder in (one, other)]
    for path in sorted(trees[0].keys() | trees[1].keys()):
        here, there = trees[0].get(path), trees[1].get(path)
        is_object = b".git/" in path and b"objects/" in path
        if is_object and (there is None or here is not None):
            continue
        if here != there:
            found.append(f"{os.fsdecode(path)!r}: {_short(here)} instead of {_short(there)}")
    groups = [sorted(_groups(os.fsencode(folder))) for folder in (one, other)]
    if groups[0] != groups[1]:
        found.append(f"one file: {groups[0]} instead of {groups[1]}")
    return found


def _short(what: tuple[object, ...] | None) -> str:
    return str(what)[:120]


def _paths(root: bytes) -> Iterator[tuple[bytes, tuple[object, ...]]]:
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(folder, name)
            seen = os.lstat(path)
            facts: tuple[object, ...] = (oct(seen.st_mode),)
            if stat.S_ISLNK(seen.st_mode):
                facts += (os.readlink(path),)
            elif stat.S_ISREG(seen.st_mode):
                with open(path, "rb") as file:
                    facts += (seen.st_mtime_ns, seen.st_size, file.read())
            yield os.path.relpath(path, root), facts


def _groups(root: bytes) -> Iterator[tuple[bytes, ...]]:
    names: dict[int, list[bytes]] = {}
    for folder, _, files in os.walk(root):
        for name in files:
            path = os.path.join(folder, name)
            seen = os.lstat(path)
            if stat.S_ISREG(seen.st_mode) and b"objects/" not in path:
                names.setdefault(seen.st_ino, []).append(os.path.relpath(path, root))
    return (tuple(sorted(paths)) for paths in names.values() if len(paths) > 1)


def commands(chance: random.Random, number: int) -> list[str]:
    """The commands of one turn."""

    def one() -> str:
        a, b = (f"src/{chance.randrange(9)}.py" for _ in range(2))
        folder = f"d{number % 5}"
        return chance.choice(
            [
                f"echo {number} >> {a}",
                f"sed -i s/1/{number}/ {a}",
                f"rm -rf {a}",
                f"mv -T {a} {b}",
                f"ln -sfn {a} {b}",
                f"[ -f {a} ] && ln -f {a} src/h{number % 4}",
                f"chmod {chance.choice(['600', '755', '644', '4711'])} {a}",
                f"mkdir -p {folder}/x; head -c {chance.randrange(9000)} /dev/urandom > {folder}/b",
                f"rm -rf {folder}",
                f"mv {folder} e{number % 3}",
                f"mkdir -p build/{folder} empty{number % 3}/deep",
                f"rm -rf build; mkdir build; echo {number} > build/out{number % 4}",
                f"rmdir empty{number % 3}/deep; chmod 750 empty{number % 3}",
                f"echo {number} >> a.log; rm -f {number % 3}.log; echo {number} > {number % 5}.log",
                f"head -c {2_200_000 + number} /dev/urandom > big{number % 2}.bin",
                f"truncate -s 3M {a}",
                f"touch -d '2001-01-01' {a}",
                f"rm -rf {a}; mkdir {a}; echo {number} > {a}/inner",
                "git add -A && git commit -qm c",
                "git stash -q -u",
                "git checkout -q .",
                "git clean -qfdx",
                f"git checkout -q -B side{number % 3}",
                "git reset -q --hard HEAD~1",
                "git reflog expire --expire=now --all; git gc -q --prune=now",
            ]
        )

    return [one() for _ in range(chance.randrange(1, 8))]


class Play:
    """One repository with its store, and the copies of all states that can be returned to."""

    def __init__(self, place: Path, seed: int, *, hints: bool = True) -> None:
        self.chance = random.Random(seed)
        self.root, self.state, self.hints = place / "work", place / "state", hints
        self._copies = place / "copies"
        self._copies.mkdir(parents=True)
        make_repository(self.root)
        self.undo = self._opened()
        self.undo.record()
        self.stack = [self._copy()]
        self.undone: list[list[Path]] = []
        self.faults: list[str] = []
        self.turns = self.undos = self.kills = 0
        self.did = ""
        self._states: list[str] = []

    def _opened(self) -> UndoStore:
        return open_undo(self.root, self.state, hints=self.hints)

    def _copy(self) -> Path:
        return copy(self.root, self._copies / str(time.monotonic_ns()))

    def turn(self) -> None:
        self.did = "; ".join(f"{each} || true" for each in commands(self.chance, self.turns))
        number = self.undo.begin(f"turn {self.turns}")
        shell(self.did, self.root)
        self.undo.end(number)
        self.turns += 1
        for states in self.undone:
            for state in states:
                shutil.rmtree(state)
        self.undone = []
        self.stack.append(self._copy())
        if len(self.stack) > 8:
            shutil.rmtree(self.stack.pop(0))

    def back(self, *, killed: bool = False) -> None:
        if len(self.stack) < 2:
            return
        count = min(self.chance.choice([1, 1, 1, 2, 3]), len(self.stack) - 1)
        self.did = f"undo {count}{' with kills' if killed else ''}; before: {self.did}"
        self._do(lambda undo: undo.undo(count), killed=killed)
        self.undone.append(self.stack[-count:])
        del self.stack[-count:]
        self.undos += 1
        self.check()

    def forth(self, *, killed: bool = False) -> None:
        if not self.undone:
            return
        self.did = f"redo{' with kills' if killed else ''}; before: {self.did}"
        self._do(lambda undo: undo.redo(), killed=killed)
        self.stack += self.undone.pop()
        self.check()

    def _do(self, what: Callable[[UndoStore], object], *, killed: bool) -> None:
        if not killed:
            what(self.undo)
            return
        self.undo.close()
        self.kills += kill_after(lambda: what(self._opened()), self.chance.randrange(30))
        self.undo = self._opened()
        if not self._finished():
            what(self.undo)

    def _finished(self) -> bool:
        """Whether the plan was written before the kill: then opening finishes it."""
        self.undo.record()
        return self._states != [turn.state for turn in self.undo.turns()]

    def step(self) -> None:
        self._states = [turn.state for turn in self.undo.turns()]
        kind = self.chance.random()
        killed = self.chance.random() < 0.3
        if kind < 0.5:
            self.turn()
        elif kind < 0.75:
            self.back(killed=killed)
        elif kind < 0.92:
            self.forth(killed=killed)
        else:
            self.undo.close()
            self.undo = self._opened()

    def check(self) -> None:
        self.faults += [
            f"{each} after {self.did}" for each in differences(self.root, self.stack[-1])
        ]
        with suppress(FileNotFoundError):
            (self.root / ".git/index.lock").unlink()

    def close(self) -> None:
        self.undo.close()


_STEPS = ("rename", "unlink", "link", "symlink", "mkdir", "rmdir", "fchmod", "write", "pwrite")


def kill_after(what: Callable[[], object], after: int) -> int:
    """Does it in a child that is killed after so many steps on files; returns whether it was."""
    child = os.fork()
    if not child:
        left = iter(range(after))
        for name in _STEPS:
            setattr(os, name, _counted(getattr(os, name), left))
        with suppress(BaseException):
            what()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return int(os.WIFSIGNALED(status))


def _counted(step: Callable[..., object], left: Iterator[int]) -> Callable[..., object]:
    def counted(*given: object, **named: object) -> object:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return step(*given, **named)

    return counted


def main() -> int:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    faults, played, undos, kills = list[str](), 0, 0, 0
    while played < turns and not faults:
        with tempfile.TemporaryDirectory() as folder:
            play = Play(Path(folder), seed, hints=bool(seed % 2))
            while play.turns < min(50, turns - played) and not play.faults:
                play.step()
            play.close()
        faults += [f"seed {seed}, turn {play.turns}: {each}" for each in play.faults]
        played, undos, kills = played + play.turns, undos + play.undos, kills + play.kills
        seed += 1
    print(*faults[:20], sep="\n")
    print(f"{played} turns, {undos} undos, {kills} killed in the middle, {len(faults)} wrong")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
