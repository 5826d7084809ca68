"""Undo and redo restore a workspace exactly, keep what others changed, and name what they left."""

import mmap
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from campaigns.undo import Play, copy, differences, kill_after, make_repository, shell

from tests.sage.scene import pass_slack
from vegakit.errors import StoreError, UserError
from vegakit.sage import Restored, TurnChanges, UndoLimits, UndoStore, open_undo
from vegakit.sage.undo.restoring import OnConflict
from vegakit.sage.undo.windows import SILENCE_NS, Reach, window_beside, windows_beside
from vegakit.tools.sandbox.quarantine import remove_stubs
from vegakit.tools.sandbox.workspace import scan_workspace_sync

MIB = 1 << 20
Deed = str | Callable[[], object]


class Work:
    """A workspace, its store, and what tests do with them."""

    def __init__(self, place: Path, *, hints: bool) -> None:
        self.place, self.root, self.state, self.hints = place, place / "w", place / "s", hints
        self.root.mkdir()
        self.limits = UndoLimits()
        self.store: UndoStore | None = None

    def start(self) -> UndoStore:
        if self.store is not None:
            self.store.close()
        self.store = open_undo(self.root, self.state, self.limits, hints=self.hints)
        self.store.record()
        return self.store

    @property
    def undo(self) -> UndoStore:
        assert self.store is not None
        return self.store

    def put(self, path: str | bytes, content: str | bytes) -> None:
        full = self.root / os.fsdecode(path)
        full.write_bytes(content if isinstance(content, bytes) else content.encode())

    def get(self, path: str) -> str:
        return (self.root / path).read_text()

    def sh(self, command: str) -> None:
        shell(command, self.root)

    def out(self, command: str) -> str:
        ran = subprocess.run(
            ["bash", "-c", command], cwd=self.root, check=True, capture_output=True
        )
        return ran.stdout.decode()

    def do(self, deed: Deed) -> None:
        self.sh(deed) if isinstance(deed, str) else deed()

    def turn(self, deed: Deed) -> TurnChanges:
        number = self.undo.begin("a turn")
        self.do(deed)
        return self.undo.end(number)

    def round_trip(self, deed: Deed) -> None:
        """Undo gives the tree before, redo the one after, and undo again the one before."""
        before = copy(self.root, self.place / "before")
        self.turn(deed)
        after = copy(self.root, self.place / "after")
        assert differences(before, after)
        for step, goal in (
            (self.undo.undo, before),
            (self.undo.redo, after),
            (self.undo.undo, before),
        ):
            done = step()
            assert done.restored
            assert not done.kept
            assert not done.not_restored
            assert differences(self.root, goal) == []

    def let_stamps_move(self) -> None:
        """Until a file that is written now has a later stamp than one that was written before."""
        probe = self.place / "probe"
        probe.touch()
        first = probe.stat().st_ctime_ns
        while probe.stat().st_ctime_ns < first + 40_000_000:
            os.utime(probe)


@pytest.fixture(params=[True, False], ids=["hints", "no hints"])
def work(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Work]:
    made = Work(tmp_path, hints=request.param)
    yield made
    if made.store is not None:
        made.store.close()
    shutil.rmtree(tmp_path / "w", ignore_errors=True)


def names(done: Restored) -> tuple[set[str], set[str]]:
    return {each.path for each in done.kept}, {each.path for each in done.not_restored}


ROUND_TRIPS = {
    "renames, deletes, swaps": (
        (
            "mkdir -p d/e f; echo 1 > d/e/1; echo 2 > d/2; echo 3 > f/3; ln -s d ld; ln -s "
            "nowhere dang;echo x > x; mkdir empty"
        ),
        (
            "mv d g; rm -r f; echo f > f; rm ld; mkdir ld; echo q > ld/q; rm x; ln -s "
            "/etc/passwd x;rmdir empty; mkdir -p n/m/o; ln -sfn other dang"
        ),
    ),
    "file to folder and back": (
        "echo 1 > a; mkdir b; echo 2 > b/c; ln -s a l",
        "rm a; mkdir a; echo 3 > a/z; rm -r b; echo 4 > b; rm l; mkdir l",
    ),
    "hard links": (
        "echo one > a; ln a b; ln a c; echo solo > s",
        "echo two > a; rm c; echo three > c; ln s t",
    ),
    "a name leaves its file": (
        "echo one > a; ln a b; ln a c",
        "rm c; echo one > c; chmod 600 a",
    ),
    "hard links are moved": (
        "mkdir d; echo 1 > d/a; ln d/a d/b",
        "mv d e; echo 2 > e/a",
    ),
    "modes": (
        (
            "echo 1 > a; chmod 755 a; mkdir ro; echo 2 > ro/x; chmod 444 ro/x; chmod 555 ro; "
            "echo 3 > g;chmod 2640 g"
        ),
        "chmod 600 a; chmod 755 ro; rm -f ro/x; echo 9 > ro/y; chmod 700 ro; chmod 777 g",
    ),
    "binary, large": (
        "head -c 5000000 /dev/urandom > b; head -c 300 /dev/zero > z",
        "head -c 3000000 /dev/urandom > b; head -c 2304 /dev/urandom > z; echo >> b",
    ),
    "folders replace each other": (
        "mkdir -p a/x b/x; echo 1 > a/x/f; echo 2 > b/x/f; echo 3 > b/g",
        "mv a t; mv b a; mv t b",
    ),
    "a repository is made": (
        "echo 1 > a",
        "git init -q; git add -A",
    ),
}


@pytest.mark.parametrize("case", ROUND_TRIPS)
def test_a_turn_is_taken_back_and_given_again(work: Work, case: str) -> None:
    """Whatever a command does to files, links, folders and modes."""
    before, deed = ROUND_TRIPS[case]
    work.sh(before)
    work.start()
    work.round_trip(deed)


GIT = {
    "commit": "git commit -qam two",
    "checkout .": "git checkout -q .",
    "reset --hard, clean": "git reset -q --hard; git clean -qfdx",
    "stash": "git stash -qu",
    "new branch": "git checkout -qb x; git commit -qam x; git branch -qD side",
    "gc --prune": "git commit -qam two; git tag v; git reset -q --hard HEAD~1;"
    "git reflog expire --expire=now --all; git gc -q --prune=now",
    "rm -rf .git": "rm -rf .git; git init -q; git add -A",
    "hooks and config": "git config core.fsmonitor /tmp/x; echo evil > .git/hooks/pre-commit;"
    "git config core.fsmonitor false",
    "merge": "git commit -qam w; git checkout -q side; git merge -q main -m m",
    "ignored files": "echo more >> a.log; echo n > new.log; mkdir deps; echo 1 > deps/a",
}


@pytest.mark.parametrize("case", GIT)
def test_git_is_taken_back(tmp_path: Path, case: str) -> None:
    """Its files go back with the tree: branches, index, stash; no object is missing."""
    work = Work(tmp_path, hints=True)
    make_repository(work.root)
    work.sh(
        "echo dirty >> src/1.py; echo staged >> src/3.py; git add src/3.py; echo u > u.txt;"
        "git branch side"
    )
    status = work.out("git status --porcelain")
    with work.start():
        work.round_trip(GIT[case])
        work.sh("git fsck --no-dangling --no-progress")
        assert work.out("git status --porcelain") == status


def test_a_repository_in_the_repository(work: Work) -> None:
    """A nested `.git` is files, too."""
    make_repository(work.root)
    make_repository(work.root / "sub")
    work.sh("cd sub; echo 2 > src/1.py")
    work.start()
    work.round_trip("cd sub; git commit -qam t; echo 3 > f; git gc -q --prune=now")
    work.sh("cd sub; git fsck")


def test_objects_that_git_has_once_more_are_nobodys_change(work: Work) -> None:
    """Made by one turn, dropped by the next, and there again after undo and redo: both turns are
    undone whole, with the times of all files."""
    make_repository(work.root)
    work.start()
    before = copy(work.root, work.place / "before")
    work.turn("echo 2 > src/1.py; git commit -qam two")
    work.turn(
        "git reset -q --hard HEAD~1; git reflog expire --expire=now --all; git prune --expire=now"
    )
    work.undo.undo()
    work.undo.redo()
    done = work.undo.undo(2)
    assert names(done) == (set(), set())
    assert differences(work.root, before) == []


def test_same_size_and_time(work: Work) -> None:
    """A write that leaves size and time as they were is seen."""
    work.put("a", "aaaa")
    work.start()
    seen = (work.root / "a").stat()

    def deed() -> None:
        work.put("a", "AAAA")
        os.utime(work.root / "a", ns=(seen.st_atime_ns, seen.st_mtime_ns))

    before = copy(work.root, work.place / "before")
    work.turn(deed)
    assert work.undo.undo().restored == ("a",)
    assert differences(work.root, before) == []


def test_writes_within_one_stamp(work: Work) -> None:
    """A file that is written again right after it was recorded is looked at again."""
    work.put("a", "0000")
    work.start()
    for number in range(40):
        work.turn(lambda number=number: work.put("a", f"{number:04}"))
        work.turn(lambda number=number: work.put("a", f"{number + 1000:04}"))
        work.undo.undo()
        assert work.get("a") == f"{number:04}"


def test_a_file_added_within_one_stamp(work: Work) -> None:
    """A folder that is filled right after it was recorded is listed again."""
    (work.root / "d").mkdir()
    work.start()
    for number in range(20):
        work.turn(lambda number=number: work.put(f"d/{number}", "1"))
        work.undo.undo()
        assert not [*(work.root / "d").iterdir()]


def test_names_outside_heal(work: Work) -> None:
    """A file with a name outside of the workspace is restored in place."""
    (work.place / "out").write_text("outside")
    (work.root / "in").hardlink_to(work.place / "out")
    work.start()
    work.turn("echo hacked > in")
    work.undo.undo()
    assert (work.place / "out").read_text() == "outside"
    assert (work.place / "out").stat().st_nlink == 2


def test_a_write_through_a_name_outside_is_seen(work: Work) -> None:
    """inotify does not tell of it."""
    (work.place / "out").write_text("outside")
    (work.root / "in").hardlink_to(work.place / "out")
    work.start()
    changes = work.turn("echo hacked > ../out")
    assert changes.changed == ("in",)


def test_a_sparse_file(work: Work) -> None:
    """Holes stay holes: a gigabyte of them costs nothing."""
    with (work.root / "sp").open("wb") as file:
        file.truncate(1 << 30)
        file.seek(1 << 29)
        file.write(b"mid")
    work.start()

    def deed() -> None:
        with (work.root / "sp").open("r+b") as file:
            file.seek(1 << 29)
            file.write(b"MID")

    work.turn(deed)
    work.undo.undo()
    with (work.root / "sp").open("rb") as file:
        file.seek(1 << 29)
        assert file.read(3) == b"mid"
    assert (work.root / "sp").stat().st_blocks * 512 < 4 * MIB


def test_names_of_all_kinds(work: Work) -> None:
    """Names are bytes: two spellings of é, no UTF-8, line ends, dashes."""
    composed, split = (unicodedata.normalize(form, "é.txt") for form in ("NFC", "NFD"))
    for name in (
        composed,
        split,
        b"\xff\xfe.bin",
        "a\nb",
        "-rf",
        " sp ",
        "Case",
        "case",
        "*",
        "'q'",
    ):
        work.put(name, "1")
    work.start()

    def deed() -> None:
        for name in (composed, b"\xff\xfe.bin", "a\nb", "-rf", "Case", "*"):
            work.put(name, "22")
        (work.root / split).rename(work.root / "moved")

    work.round_trip(deed)


def test_a_writer_during_a_scan(work: Work) -> None:
    """No torn content is recorded for good: after the writer ended, all is as it is."""
    for number in range(10):
        work.put(f"f{number}", b"A" * 200_000)
    work.start()
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            work.put(f"f{number % 10}", bytes([65 + number % 26]) * 200_000)

    writer = threading.Thread(target=write)
    number = work.undo.begin("while somebody writes")
    writer.start()
    for _ in range(3):
        with work.undo.window():
            pass
    changes = work.undo.end(number)
    stop.set()
    writer.join()
    assert changes.turn == number
    work.undo.record()
    goal = copy(work.root, work.place / "goal")
    work.turn("rm f*")
    work.undo.undo()
    assert differences(work.root, goal) == []


def test_a_mapped_write_is_seen_once_it_is_synced(work: Work) -> None:
    """A mapping moves the stamps of its file when it is synced or ends."""
    work.put("m", b"a" * 8192)
    work.start()
    number = work.undo.begin("mapped")
    with (work.root / "m").open("r+b") as file, mmap.mmap(file.fileno(), 8192) as mapped:
        mapped[0] = 66
        mapped.flush()
    assert work.undo.end(number).changed == ("m",)
    work.undo.undo()
    assert work.get("m") == "a" * 8192


# What is left, and named.


def test_what_is_too_large_is_named(work: Work) -> None:
    """A file over the limit is left, with the reason; the others are restored."""
    work.limits = UndoLimits(file_bytes=MIB)
    work.put("big", os.urandom(2 * MIB))
    work.put("s", "1")
    work.start()
    changes = work.turn("echo x >> big; echo 2 > s; head -c 3000000 /dev/urandom > new")
    assert {each.path for each in changes.unrecorded} == {"big", "new"}
    done = work.undo.undo()
    assert names(done) == (set(), {"big", "new"})
    assert "larger than 1 MiB" in done.not_restored[0].reason
    assert done.restored == ("s",)
    assert (work.root / "new").stat().st_size == 3_000_000


def test_a_full_store_leaves_the_largest_out(work: Work) -> None:
    """The smallest files are recorded first."""
    work.limits = UndoLimits(store_bytes=MIB)
    for number in range(8):
        work.put(f"a{number}", os.urandom(300_000))
    work.put("z", "small")
    work.start()
    changes = work.turn("echo 2 > z; rm a*")
    assert 4 <= len(changes.unrecorded) <= 8
    done = work.undo.undo()
    assert work.get("z") == "small"
    assert len(done.not_restored) == len(changes.unrecorded)
    assert "full" in done.not_restored[0].reason


def test_a_disk_that_is_nearly_full_is_told(work: Work) -> None:
    """Nothing is kept then, and the reason is the disk; a pipe that was made is no loss."""
    work.limits = UndoLimits(free_bytes=1 << 60)
    work.put("a", "1")
    work.start()
    changes = work.turn("echo 2 > a; mkfifo pipe")
    assert [each.path for each in changes.unrecorded] == ["a"]
    done = work.undo.undo()
    assert (done.restored, names(done)) == (("pipe",), (set(), {"a"}))
    assert "would be left free on the disk" in done.not_restored[0].reason


def test_old_turns_are_forgotten_before_the_store_is_too_large(work: Work) -> None:
    """What it holds stays under its limit, and the last turns can be undone."""
    work.limits = UndoLimits(store_bytes=4 * MIB)
    work.put("a", os.urandom(500_000))
    work.start()
    for _ in range(30):
        work.turn(lambda: work.put("a", os.urandom(500_000)))
    sizes = sum(path.stat().st_size for path in work.state.rglob("*") if path.is_file())
    assert sizes < 12 * MIB  # the database and its log
    assert 2 <= len(work.undo.turns()) < 12
    before = copy(work.root, work.place / "before")
    work.turn("rm a")
    work.undo.undo()
    assert differences(work.root, before) == []


def test_many_turns_are_forgotten(work: Work) -> None:
    """Their number is bounded, too."""
    work.limits = UndoLimits(turns=10)
    work.start()
    for number in range(25):
        work.turn(lambda number=number: work.put("a", str(number)))
    assert 5 <= len(work.undo.turns()) <= 11
    work.undo.undo(3)
    assert work.get("a") == "21"


def test_a_workspace_of_too_many_files_is_refused(work: Work) -> None:
    """It says so, instead of recording for hours."""
    work.limits = UndoLimits(paths=5)
    work.sh("for i in 1 2 3 4 5 6; do echo > $i; done")
    with pytest.raises(UserError, match="more than 5 files"):
        work.start()


def test_a_large_workspace_is_not_held_in_memory(work: Work) -> None:
    """Above a number of paths folders are read from the store, with the same results."""
    work.limits = UndoLimits(held_paths=20)
    work.sh(
        "mkdir 1 2 3 4 5 6 7 8 9; for d in *; do for i in 1 2 3 4 5; do echo $i > $d/$i; done; done"
    )
    work.start()
    work.round_trip("rm -r 3; echo 5 > 4/1; mv 5 6/; mkdir 7/n; ln 8/1 8/l")
    assert sum(len(each) for each in work.undo._scanner._held.values()) <= 20


# A person beside the agent.


def test_an_edit_after_the_turn_is_kept(work: Work) -> None:
    """It is named, and a folder that holds a file of the person stays."""
    work.put("a", "1")
    work.put("b", "1")
    work.start()
    work.turn("echo 2 > a; echo 2 > b; mkdir n; echo 1 > n/x")
    work.put("a", "person")
    work.put("n/mine", "m")
    done = work.undo.undo()
    assert names(done) == ({"a"}, {"n"})
    assert (work.get("a"), work.get("b"), work.get("n/mine")) == ("person", "1", "m")
    assert not (work.root / "n/x").exists()


def test_an_edit_after_the_turn_is_restored_if_asked(work: Work) -> None:
    """Redo brings it back."""
    work.put("a", "1")
    work.start()
    work.turn("echo 2 > a")
    work.put("a", "person")
    assert work.undo.undo(on_conflict="restore").restored == ("a",)
    assert work.get("a") == "1"
    work.undo.redo()
    assert work.get("a") == "person"


def test_an_edit_during_the_turn_is_kept(work: Work) -> None:
    """By its time: outside of the windows of tools."""
    for name in "abcd":
        work.put(name, "1")
    work.start()
    number = work.undo.begin("a turn", whole=False)
    work.put("b", "person")
    work.put("newp", "p")
    work.let_stamps_move()
    with work.undo.window():
        work.sh("echo 2 > a")
    work.let_stamps_move()
    with work.undo.window():
        work.put("d", "edited")
        work.put("c", "edited")
    work.let_stamps_move()
    work.put("c", "edited, then by the person")
    changes = work.undo.end(number)
    assert changes.by_others == ("b", "c", "newp")
    done = work.undo.undo()
    assert (done.restored, names(done)[0]) == (("a", "d"), {"c"})
    assert [work.get(name) for name in ("a", "b", "c", "d", "newp")] == [
        "1",
        "person",
        "edited, then by the person",
        "1",
        "p",
    ]


def test_what_came_and_went_is_no_change(work: Work) -> None:
    """As the guards of a sandbox beside, seen when a window of another tool closes."""
    work.put("a", "1")
    work.start()
    number = work.undo.begin("a turn", whole=False)
    work.put(".envrc", "")
    work.let_stamps_move()
    with work.undo.window(["b"]):
        pass
    with work.undo.window(reach=Reach.FILES):
        work.sh("rm .envrc; echo 2 > a")
    changes = work.undo.end(number)
    assert (changes.changed, changes.deleted, changes.by_others) == (("a",), (), ())
    assert work.undo.undo().restored == ("a",)
    assert not (work.root / ".envrc").exists()


def test_an_edit_between_turns_bars_the_way(work: Work) -> None:
    """Later turns are undone down to it, and no further."""
    for count in (2, 1):
        work.put("a", "1")
        work.put("b", "1")
        work.start()
        work.turn("echo 2 > a; echo 2 > b")
        work.put("a", "person")
        work.turn("echo 3 > b; echo more >> a")
        kept = [each.path for _ in range(3 - count) for each in work.undo.undo(count).kept]
        assert kept == ["a"]
        assert (work.get("a"), work.get("b")) == ("person", "1")


def test_git_status_is_no_edit(work: Work) -> None:
    """It rewrites the index, whose entries stay the same."""
    make_repository(work.root)
    work.sh("git clean -qfdx; git reset -q --hard")
    work.start()
    work.turn("echo x >> src/1.py; git commit -qam two")
    work.let_stamps_move()
    os.utime(work.root / "src/3.py")
    work.out("git status")
    assert not work.undo.undo().kept
    assert work.out("git log --oneline").count("\n") == 1
    assert work.out("git status --porcelain") == ""


def test_a_commit_of_the_person_is_kept(work: Work) -> None:
    """Its branch and index stay."""
    make_repository(work.root)
    work.start()
    work.turn("echo x >> src/1.py; git commit -qam two")
    work.sh("echo y > src/mine.py; git add -A; git commit -qm mine")
    kept, _ = names(work.undo.undo())
    assert {".git/refs/heads/main", ".git/index"} <= kept
    assert "mine" in work.out("git log --oneline")
    work.sh("git fsck --no-dangling")


def test_git_at_work_is_not_disturbed(work: Work) -> None:
    """While a lock of git is there, nothing is undone."""
    make_repository(work.root)
    work.start()
    work.turn("echo x >> src/1.py; git commit -qam two")
    work.put(".git/index.lock", "")
    with pytest.raises(UserError, match="git is at work"):
        work.undo.undo()
    (work.root / ".git/index.lock").unlink()
    assert work.undo.undo().restored


# Turns.


def test_several_turns_at_once(work: Work) -> None:
    """A rewind is one undo, and one redo brings it back."""
    work.put("a", "0")
    work.start()
    for number in "123":
        work.turn(f"printf {number} > a; printf {number} > f{number}")
    done = work.undo.undo(2)
    assert done.labels == ("a turn", "a turn")
    assert work.get("a") == "1"
    assert [turn.state for turn in work.undo.turns()] == ["undone", "undone", "done"]
    work.undo.redo()
    assert work.get("a") == "3"
    assert sorted(path.name for path in work.root.iterdir()) == ["a", "f1", "f2", "f3"]


def test_undo_goes_on_after_an_undo(work: Work) -> None:
    """Each one takes back the last turn that stands; a new turn ends the redo."""
    work.put("a", "0")
    work.start()
    for number in "123":
        work.turn(f"printf {number} > a")
    work.undo.undo()
    work.undo.undo()
    assert work.get("a") == "1"
    work.turn("printf 9 > a")
    with pytest.raises(UserError, match="nothing to redo"):
        work.undo.redo()
    work.undo.undo()
    assert work.get("a") == "1"
    work.undo.undo()
    assert work.get("a") == "0"
    with pytest.raises(UserError, match="no turn to undo"):
        work.undo.undo()


def test_hard_links_stay_one_file_through_many_undos(work: Work) -> None:
    """Restored files have other inodes; which names are one file is known by our own numbers."""
    work.sh("echo one > a; ln a b; ln a c")
    work.start()
    before = copy(work.root, work.place / "before")
    work.turn("rm c")
    work.turn("rm a b; echo 2 > a; echo 2 > b")
    work.undo.undo()
    work.undo.undo()
    assert differences(work.root, before) == []


def test_a_turn_that_was_cut_off_can_be_undone(work: Work) -> None:
    """The next who opens the store ends it."""
    work.put("a", "1")
    work.start().begin("cut off")
    work.sh("echo 2 > a; echo 2 > b")
    work.start()
    assert [turn.state for turn in work.undo.turns()] == ["done"]
    assert work.undo.undo().restored == ("a", "b")


def test_what_a_command_removed_before_a_kill_comes_back(work: Work) -> None:
    """Also where a person wrote into the same folder since, whose stamp dates the deletion."""
    work.sh("mkdir new; echo b > new/b.txt; echo a > a.txt")
    work.start().close()
    child = os.fork()
    if not child:
        store = open_undo(work.root, work.state, work.limits, hints=work.hints)
        store.begin("cut off")
        with store.window(reach=Reach.FILES):
            work.sh("rm -rf new")
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    (alive,) = work.state.rglob("alive")
    os.utime(alive, ns=(0, time.time_ns() - SILENCE_NS))  # as if it was killed long ago
    pass_slack()
    work.put("person.txt", "mine")
    done = work.start().undo()
    assert work.get("new/b.txt") == "b\n"
    assert work.get("person.txt") == "mine"
    assert set(done.restored) == {"new", "new/b.txt"}


def test_an_undo_is_finished_after_a_kill(work: Work) -> None:
    """Wherever it is killed, opening the store again ends as if it had not been."""
    work.sh(
        "for i in 1 2 3 4 5; do echo $i > f$i; done; mkdir old; echo 1 > old/1; echo l > l; ln l m"
    )
    work.start()
    before = copy(work.root, work.place / "before")
    work.turn(
        "for i in 1 2 3; do echo new > f$i; done; mkdir d; echo 1 > d/1; rm -r old; echo > old; "
        "echo 2 >> l; chmod 700 f4; ln -sf f1 f5"
    )
    work.undo.close()
    kills, steps, killed = 0, 0, 1
    while killed:
        copy(work.root, work.place / "w2")
        copy(work.state, work.place / "kept")

        def undo() -> None:
            open_undo(work.root, work.state, hints=work.hints).undo()

        killed = kill_after(undo, steps)
        kills, steps = kills + killed, steps + 3
        if killed:
            with open_undo(work.root, work.state, hints=work.hints) as store:
                store.record()
                if store.turns()[0].state == "done":  # killed before the plan was written
                    store.undo()
            assert differences(work.root, before) == []
        # Within the same folder: turns of one that is gone are not undone in its copy.
        work.sh("find . -mindepth 1 -delete; cp -a ../w2/. .; rm -r ../w2")
        shutil.rmtree(work.state)
        (work.place / "kept").rename(work.state)
    assert kills >= 5


@pytest.mark.parametrize("steps", range(1, 7))
def test_hard_links_are_one_file_after_a_kill(tmp_path: Path, steps: int) -> None:
    """Who finishes an undo knows the names that stayed."""
    work = Work(tmp_path, hints=True)
    work.sh("echo t > t; ln t u; echo v > v")
    before = copy(work.root, work.place / "before")
    with work.start():
        work.turn("mv t v")
    kill_after(lambda: open_undo(work.root, work.state).undo(), steps)
    with open_undo(work.root, work.state) as store:
        store.record()
        if store.turns()[0].state == "done":
            store.undo()
    assert differences(work.root, before) == []


def test_an_edit_after_a_kill_is_kept(work: Work) -> None:
    """What the rest of the plan would overwrite is looked at again."""
    work.sh("for i in 1 2 3 4 5 6; do echo $i > f$i; done")
    work.start()
    work.turn("for i in 1 2 3 4 5 6; do echo new > f$i; done")
    work.undo.close()
    assert kill_after(lambda: open_undo(work.root, work.state).undo(), 5)
    changed = [path.name for path in work.root.iterdir() if path.read_text() == "new\n"]
    assert changed
    work.put(changed[0], "person")
    with open_undo(work.root, work.state) as store:
        done = store.record()
        assert done is not None
        assert {each.path for each in done.kept} == {changed[0]}
    assert work.get(changed[0]) == "person"
    assert all(work.get(f"f{i}") == f"{i}\n" for i in range(1, 7) if f"f{i}" != changed[0])


def test_a_link_in_the_way_leads_nowhere(work: Work) -> None:
    """A folder that became a link to the outside is not written through."""
    outside = work.place / "outside"
    outside.mkdir()
    (outside / "f").write_text("theirs")
    work.sh("mkdir d; echo 1 > d/f")
    work.start()
    work.round_trip(f"rm -r d; ln -s {outside} d")
    work.turn("echo 2 > d/f")
    work.sh(f"rm -r d; ln -s {outside} d")
    work.undo.undo()
    assert (outside / "f").read_text() == "theirs"


# The store.


def test_the_store_is_the_users_own(work: Work) -> None:
    """Nobody else can read what was in the files."""
    folder = work.start().folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "undo.db").stat().st_mode) == 0o600


def test_the_store_lies_outside(work: Work) -> None:
    """A workspace that holds it, such as the home folder, is refused."""
    with pytest.raises(UserError, match="inside of the workspace"):
        open_undo(work.place, work.state)


def test_one_process_at_a_time(work: Work) -> None:
    """A second one is told that a turn works."""
    work.start()
    with pytest.raises(UserError, match="a turn of another session works"):
        open_undo(work.root, work.state)


def test_a_damaged_store_is_told(work: Work) -> None:
    """It says what to do."""
    file = work.start().folder / "undo.db"
    work.undo.close()
    work.store = None
    file.write_bytes(b"nonsense" * 1000)
    for more in file.parent.glob("undo.db-*"):
        more.unlink()
    with pytest.raises(StoreError, match="damaged"):
        open_undo(work.root, work.state)


@pytest.mark.parametrize("hints", [True, False])
def test_random_turns(tmp_path: Path, *, hints: bool) -> None:
    """Random commands in a repository, undone, redone and killed, beside copies by `cp -a`."""
    play = Play(tmp_path, seed=int(os.environ.get("VEGA_SEED", "7")) + hints, hints=hints)
    while play.turns < 30 and not play.faults:
        play.step()
    play.close()
    assert play.faults == []
    assert play.undos > 5


@pytest.mark.parametrize("kind", ["linked worktree", "repository above"])
def test_git_outside_of_the_workspace_is_named(tmp_path: Path, kind: str) -> None:
    """What a turn commits there stays; its files are restored, and nobody is told that all is."""
    make_repository(tmp_path / "repository")
    if kind == "linked worktree":
        shell("git worktree add -q ../w -b side", tmp_path / "repository")
        root = tmp_path / "w"
    else:
        root = tmp_path / "repository" / "src"
    with open_undo(root, tmp_path / "s") as undo:
        undo.record()
        for deed, is_named in (
            ("echo 2 > new.txt; git status", False),
            ("echo 3 > new.txt; git add -A .; git commit -qm three", True),
        ):
            before = copy(root, tmp_path / f"before{is_named}")
            number = undo.begin("a turn")
            shell(deed, root)
            undo.end(number)
            done = undo.undo()
            assert [each.path.endswith((".git", "worktrees/w")) for each in done.not_restored] == (
                [True] if is_named else []
            )
            assert [one for one in differences(root, before) if "new.txt" in one] == []


# Two sessions at once: one has the store, the other leaves word of what its tools change.


def test_what_a_tool_of_a_session_beside_writes_is_kept(work: Work) -> None:
    """While a command of the turn runs, which may change anything, too."""
    for name in ("a", "b", "both", "gone"):
        work.put(name, "1")
    work.start()
    number = work.undo.begin("a turn", whole=False)
    with work.undo.window():
        work.put("a", "ours")
        with window_beside(work.undo.folder, ["b", "d/./new", "both", "gone"]):
            (work.root / "d").mkdir()
            work.put("d/new", "theirs")
            work.put("b", "theirs")
            work.put("both", "theirs")
            (work.root / "gone").unlink()
        work.let_stamps_move()
        work.put("both", "theirs, ours")
    changes = work.undo.end(number)
    assert changes.changed == ("a",)
    assert changes.by_others == ("b", "both", "d", "d/new", "gone")
    done = work.undo.undo()
    assert (done.restored, names(done)[0]) == (("a",), {"both"})
    assert [work.get(name) for name in ("a", "b", "d/new")] == ["1", "theirs", "theirs"]
    assert not (work.root / "gone").exists()


def test_what_two_commands_at_once_may_have_written_is_kept_and_named(work: Work) -> None:
    """`--overwrite` takes it back; what a tool of the turn named is its own."""
    for name in "abc":
        work.put(name, "1")
    work.start()
    number = work.undo.begin("a turn", whole=False)
    with work.undo.window():
        work.put("a", "before the other")
        work.let_stamps_move()
        with window_beside(work.undo.folder, []):
            work.put("b", "whose?")
            with work.undo.window(["c"]):
                work.put("c", "ours")
    work.undo.end(number)
    done = work.undo.undo()
    assert (done.restored, names(done)[0]) == (("a", "c"), {"b"})
    assert work.get("b") == "whose?"
    work.undo.redo()
    assert work.undo.undo(on_conflict="restore").restored == ("a", "b", "c")
    assert work.get("b") == "1"


def test_words_of_sessions_beside_are_read_once(work: Work) -> None:
    """A window that has ended is of no use after the next look."""
    work.put("a", "1")
    work.start()
    with window_beside(work.undo.folder, ["a"]):
        pass
    number = work.undo.begin("a turn", whole=False)
    work.let_stamps_move()
    with work.undo.window():
        work.put("a", "ours")
    assert work.undo.end(number).changed == ("a",)
    assert not windows_beside(work.undo.folder)


def test_an_edit_before_the_tool_writes_the_same_file_is_kept(work: Work) -> None:
    """Undo goes back to what somebody else made of it since the turn began."""
    work.put("a", "1")
    work.start()
    number = work.undo.begin("a turn", whole=False)
    work.put("a", "1, person")
    work.let_stamps_move()
    with work.undo.window(["a"]):
        work.put("a", "1, person, tool")
    work.undo.end(number)
    work.undo.undo()
    assert work.get("a") == "1, person"


def test_a_turn_of_another_session_in_between_is_kept(work: Work) -> None:
    """A turn that was cut off goes on after one of another session, and is undone as one."""
    work.put("a", "1")
    work.put("b", "1")
    work.start()
    for key, name in (("one", "a"), ("two", "a"), ("one", "b")):
        number = work.undo.begin("a turn", key=key)
        work.put(name, key)
        work.undo.end(number)
    done = work.undo.undo()
    assert (done.restored, names(done)[0]) == (("b",), {"a"})
    assert (work.get("a"), work.get("b")) == ("two", "1")


def test_what_the_sandbox_guards_is_not_of_the_command(work: Work) -> None:
    """A person commits and saves a secret while a command runs: undo leaves both."""
    make_repository(work.root)
    work.put(".env", "old")
    work.start()
    number = work.undo.begin("a turn", whole=False)
    with work.undo.window(reach=Reach.FILES):
        work.put("made", "by the command")
        work.sh("echo mine > src/mine.py; git switch -qc topic; git add -A; git commit -qm mine")
        work.put(".new", "person")
        (work.root / ".new").rename(work.root / ".env")
    changes = work.undo.end(number)
    assert changes.created == ("made", "src/mine.py")
    assert {".env", ".git/HEAD", ".git/refs/heads/topic"} <= {*changes.by_others}
    assert work.undo.undo().by_commands == ("made", "src/mine.py")
    assert work.get(".env") == "person"
    assert work.out("git log --oneline topic").count("\n") == 2
    work.sh("git fsck --no-dangling; git diff --quiet HEAD -- src/1.py")


def test_git_of_the_agent_is_taken_back(work: Work) -> None:
    """Its tool may write to the repository, and to files."""
    make_repository(work.root)
    work.start()
    before = copy(work.root, work.place / "before")
    number = work.undo.begin("a turn", whole=False)
    with work.undo.window(reach=Reach.REPOSITORY):
        work.sh("echo x >> src/1.py; git commit -qam two")
    work.undo.end(number)
    work.undo.undo()
    assert differences(work.root, before) == []


def test_what_a_command_makes_is_its_own_whatever_its_name(work: Work) -> None:
    """A name that would be guarded is not, where it was not there when the command began."""
    (work.root / "d").mkdir()
    work.put("d/.env", "old")
    work.start()
    number = work.undo.begin("a turn", whole=False)
    with work.undo.window(reach=Reach.FILES):
        work.sh("echo key > key.pem; mv d e")
    work.undo.end(number)
    work.undo.undo()
    assert not (work.root / "key.pem").exists()
    assert not (work.root / "e").exists()
    assert work.get("d/.env") == "old"


def test_what_a_command_goes_on_to_make_is_its_own(work: Work) -> None:
    """Though a tool beside it looked meanwhile; a later command finds it guarded."""
    work.put("a", "1")
    work.start()
    before = copy(work.root, work.place / "before")
    number = work.undo.begin("a turn", whole=False)
    with work.undo.window(reach=Reach.FILES):
        work.sh("mkdir -p .venv/bin; echo 1 > key.pem")
        with work.undo.window(["a"]):
            work.put("a", "2")
        work.let_stamps_move()
        work.sh("echo 1 > .venv/bin/x; echo 2 > key.pem")
    work.let_stamps_move()
    with work.undo.window(reach=Reach.FILES):
        work.put("key.pem", "person")
    assert work.undo.end(number).by_others == ("key.pem",)
    assert names(work.undo.undo()) == ({"key.pem"}, set())
    assert work.get("key.pem") == "person"
    (work.root / "key.pem").unlink()
    assert [one for one in differences(work.root, before) if "'a'" not in one] == []


def test_a_tool_that_names_its_paths_changes_no_others(work: Work) -> None:
    """What somebody saves elsewhere at that moment is theirs."""
    work.put("b", "1")
    work.start()
    number = work.undo.begin("a turn", whole=False)
    with work.undo.window(["d/a"]):
        (work.root / "d").mkdir()
        work.put("d/a", "tool")
        work.put("b", "person")
    assert work.undo.end(number).by_others == ("b",)
    assert work.undo.undo().restored == ("d", "d/a")
    assert work.get("b") == "person"


TAKEN_AWAY = {
    "a file is made, and deleted": ("", "rm a"),
    "a file is changed, and put back": ("1", "echo -n 1 > a; touch -d @1000000000 a"),
    "a file is changed, and deleted": ("1", "rm a"),
    "a file becomes a link": ("1", "ln -sfn nowhere a"),
}


@pytest.mark.parametrize("case", TAKEN_AWAY)
def test_what_a_person_saved_comes_back_whatever_took_it(work: Work, case: str) -> None:
    """Also if all is then as it was before them."""
    before, command = TAKEN_AWAY[case]
    if before:
        work.put("a", before)
        os.utime(work.root / "a", (1_000_000_000, 1_000_000_000))
    work.start()
    number = work.undo.begin("a turn", whole=False)
    work.put("a", "person")
    work.let_stamps_move()
    with work.undo.window(reach=Reach.FILES):
        work.sh(command)
    work.undo.end(number)
    assert work.undo.undo().restored == ("a",)
    assert work.get("a") == "person"


def test_an_edit_between_two_tools_of_a_turn_is_restored_and_named(work: Work) -> None:
    """Undo goes back to it and no further; `--overwrite` goes on to what was before the turn."""
    cases: list[tuple[OnConflict, str, set[str]]] = [
        ("keep", "person", {"a"}),
        ("restore", "1", set()),
    ]
    for on_conflict, wanted, kept in cases:
        work.put("a", "1")
        work.start()
        number = work.undo.begin("a turn", whole=False)
        for text in ("tool", "person", "tool again"):
            work.let_stamps_move()
            if text == "person":
                work.put("a", text)
            else:
                with work.undo.window(["a"]):
                    work.put("a", text)
        work.undo.end(number)
        done = work.undo.undo(on_conflict=on_conflict)
        assert (done.restored, names(done)[0]) == (("a",), kept)
        assert work.get("a") == wanted
        work.undo.redo()
        assert work.get("a") == "tool again"


def test_turns_of_the_first_format_are_read(work: Work) -> None:
    """In it a path had one change a turn."""
    work.put("a", "1")
    work.start()
    work.turn("echo 2 > a")
    work.undo.close()
    with closing(sqlite3.connect(work.undo.folder / "undo.db")) as db:
        db.executescript(
            "create table old(turn int, path blob, before blob, after blob, by text,"
            " primary key(turn, path)) without rowid;"
            "insert into old select turn, path, before, after, by from change; drop table change;"
            "alter table old rename to change; pragma user_version=1;"
        )
    work.store = None
    assert work.start().undo().restored == ("a",)
    assert work.get("a") == "1"


# A command in the background, beside which a person works on.


def test_what_a_person_saves_beside_a_job_is_kept_and_named(work: Work) -> None:
    """Made or changed while only the job ran; what it removed comes back. `--overwrite` takes all
    back."""
    for name in "abcd":
        work.put(name, "1")
    work.start()
    before = copy(work.root, work.place / "before")
    number = work.undo.begin("a turn", whole=False)
    with work.undo.window(reach=Reach.JOB):
        work.put("a", "person")
        work.put("new", "person, or the job")
        (work.root / "b").unlink()
        work.let_stamps_move()
        with work.undo.window(reach=Reach.FILES):
            work.put("c", "a command")
        work.let_stamps_move()
        with work.undo.window(["d"]):
            work.put("d", "an edit")
    changes = work.undo.end(number)
    assert (changes.changed, changes.deleted) == (("c", "d"), ("b",))
    assert changes.by_jobs == changes.by_others == ("a", "new")
    done = work.undo.undo()
    assert (done.restored, done.by_commands) == (("b", "c", "d"), ("b", "c"))
    assert {each.path for each in done.kept if "background" in each.reason} == {"a", "new"}
    assert [work.get(name) for name in ("a", "b", "c", "d", "new")] == [
        *("person", "1", "1", "1", "person, or the job")
    ]
    work.undo.redo()
    assert not work.undo.undo(on_conflict="restore").kept
    assert differences(work.root, before) == []


def test_the_guards_of_a_sandbox_are_nobodys_change(work: Work) -> None:
    """However often they come and go while others look; what is saved in one is the person's."""
    work.put("a", "1")
    work.start()
    before = copy(work.root, work.place / "before")
    number = work.undo.begin("a turn", whole=False)
    stubs: dict[str, tuple[int, int]] = {}
    with work.undo.window(reach=Reach.JOB):
        for _ in range(3):
            scan_workspace_sync(work.root, stubs=stubs)
            with work.undo.window(["a"]):
                work.put("a", "2")
            for descriptor in remove_stubs(work.root, stubs):
                os.close(descriptor)
            with work.undo.window(["a"]):
                work.put("a", "3")
        scan_workspace_sync(work.root, stubs=stubs)
    changes = work.undo.end(number)
    assert (changes.changed, changes.created, changes.by_others) == (("a",), (), ())
    for name in (".vscode/settings.json", ".envrc"):
        work.put(name, "person")
    for descriptor in remove_stubs(work.root, stubs):
        os.close(descriptor)
    done = work.undo.undo()
    assert (done.restored, done.kept) == (("a",), ())
    assert (work.get(".envrc"), work.get(".vscode/settings.json")) == ("person", "person")
    work.sh("rm -r .envrc .vscode")
    assert differences(work.root, before) == []


@pytest.mark.parametrize("reach", [Reach.FILES, None])
def test_what_a_tool_makes_of_a_save_beside_a_job_is_taken_back_to_it(
    work: Work, reach: Reach | None
) -> None:
    """An edit of the same file, or a command, while the job still runs."""
    work.put("a", "1")
    work.start()
    number = work.undo.begin("a turn", whole=False)
    with work.undo.window(reach=Reach.JOB):
        work.put("a", "person")
        work.let_stamps_move()
        with work.undo.window(reach=reach) if reach else work.undo.window(["a"]):
            work.put("a", "person, then the tool")
    work.undo.end(number)
    work.undo.undo()
    assert work.get("a") == "person"


# Another folder in the place of the one that the turns ran in.


def replace_root(work: Work) -> None:
    """Delete the workspace and make another at its path, as a new clone would be."""
    shutil.rmtree(work.root)
    work.root.mkdir()
    work.put("readme", "of the new folder")


def test_turns_of_a_folder_that_is_gone_are_refused(work: Work) -> None:
    """Undo puts nothing of it into the folder that has its place now, unless it is told to."""
    work.put("draft", "old")
    work.start()
    work.turn("rm draft; echo 1 > readme")
    replace_root(work)
    work.start()
    before = copy(work.root, work.place / "before")
    with pytest.raises(UserError, match=r"not the folder that these turns ran in.*add: --replaced"):
        work.undo.undo()
    assert differences(work.root, before) == []
    work.turn("echo 2 > new")
    assert work.undo.undo().restored == ("new",)
    assert differences(work.root, before) == []
    assert work.undo.undo(replaced=True).restored == ("draft",)
    assert (work.get("draft"), work.get("readme")) == ("old", "of the new folder")
    work.undo.redo()
    assert not (work.root / "draft").exists()


def test_what_was_cut_off_in_a_folder_that_is_gone_stays_so(work: Work) -> None:
    """Neither an undo nor a turn goes on in another folder."""
    work.sh("for i in 1 2 3 4 5 6; do echo $i > f$i; done")
    work.start()
    work.turn("rm f*; echo x > g")
    work.undo.close()
    assert kill_after(lambda: open_undo(work.root, work.state).undo(), 5)
    replace_root(work)
    work.start()
    assert [turn.state for turn in work.undo.turns()] == ["done"]
    work.undo.close()
    child = os.fork()
    if not child:
        store = open_undo(work.root, work.state, hints=work.hints)
        store.begin("cut off", whole=False)
        with store.window(reach=Reach.FILES):
            work.put("made", "1")
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert work.get("made") == "1"
    replace_root(work)
    work.start()
    assert sorted(path.name for path in work.root.iterdir()) == ["readme"]
    assert next((turn.state, turn.paths) for turn in work.undo.turns()) == ("done", 0)
