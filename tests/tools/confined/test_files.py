"""Files below a root: what works, what is refused, and what stays as it was."""

import asyncio
import gc
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from vegakit.errors import CapabilityDenied, LimitReached, ToolFailed
from vegakit.policy import Grant
from vegakit.tools import Files, best_opener, open_by_walk
from vegakit.tools.files import Entry, Listing
from vegakit.tools.openat import FileKind, OpenFolder, open_with_openat2

EVERYWHERE = Grant(("fs",), paths=("**",))
SECRET = b"the secret"
WAYS = [open_with_openat2, open_by_walk]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_bytes(SECRET)
    (tmp_path / "root/src").mkdir(parents=True)
    (tmp_path / "root/src/a.py").write_bytes(b"print()")
    return tmp_path / "root"


def names_in(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_this_kernel_opens_beneath_by_itself() -> None:
    """So that both ways are tested here."""
    assert best_opener() is open_with_openat2


@pytest.mark.parametrize("way", WAYS)
async def test_a_file_is_written_read_listed_and_removed(root: Path, way: OpenFolder) -> None:
    """Folders that are missing are made; nothing else is left behind."""
    files = Files(root, EVERYWHERE, open_folder=way)
    await files.write("new/deep/b.txt", b"one")
    await files.write("./new//deep/b.txt", b"two")
    assert await files.read("new/deep/b.txt") == b"two"
    assert await files.list("new/deep") == Listing((Entry("b.txt", FileKind.FILE),), 0)
    assert (await files.stat("new/deep/b.txt")).size == 3
    await files.remove("new/deep/b.txt")
    await files.remove("new/deep")
    assert await files.list("new") == Listing((), 0)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "path", ["link/secret", "out", "src/up", "src/up/outside/secret", "self/a.py", "dangling"]
)
async def test_no_link_is_followed(root: Path, way: OpenFolder, path: str) -> None:
    """Not even one that stays inside: it may lead elsewhere a moment later."""
    (root / "link").symlink_to("../outside")
    (root / "out").symlink_to("../outside/secret")
    (root / "src/up").symlink_to("../..")
    (root / "self").symlink_to("src")
    (root / "dangling").symlink_to("../outside/new")
    files = Files(root, EVERYWHERE, open_folder=way)
    for call in (files.read(path), files.write(path, b"x"), files.list(path)):
        with pytest.raises(CapabilityDenied, match="link"):
            await call
    assert names_in(root.parent / "outside") == ["secret"]
    assert (root.parent / "outside/secret").read_bytes() == SECRET


async def test_removing_a_link_leaves_what_it_leads_to(root: Path) -> None:
    """Its name is all there is to remove."""
    (root / "link").symlink_to("../outside")
    files = Files(root, EVERYWHERE)
    assert (await files.stat("link")).kind is FileKind.LINK
    await files.remove("link")
    assert (root.parent / "outside/secret").exists()


async def test_a_second_name_of_a_file_outside_is_refused(root: Path) -> None:
    """Neither read, measured nor written; what is outside stays as it was."""
    (root / "hard").hardlink_to(root.parent / "outside/secret")
    files = Files(root, EVERYWHERE)
    for call in (files.read("hard"), files.write("hard", b"x"), files.stat("hard")):
        with pytest.raises(CapabilityDenied, match="one of 2 names"):
            await call
    assert (root.parent / "outside/secret").read_bytes() == SECRET


async def test_a_write_puts_a_new_file_in_place_of_the_old(root: Path) -> None:
    """Who has the old one open, or another name of it, keeps the old content; the mode stays."""
    before = (root / "src/a.py").open("rb")
    (root / "src/a.py").chmod(0o750)
    await Files(root, EVERYWHERE).write("src/a.py", b"new")
    with before:
        assert before.read() == b"print()"
    assert (root / "src/a.py").stat().st_mode & 0o7777 == 0o750


async def test_a_read_only_file_is_not_replaced(root: Path) -> None:
    """Though its folder would allow it."""
    (root / "src/a.py").chmod(0o444)
    with pytest.raises(ToolFailed, match="read-only"):
        await Files(root, EVERYWHERE).write("src/a.py", b"new")
    assert (root / "src/a.py").read_bytes() == b"print()"


@pytest.mark.parametrize("tool", ["read", "list", "stat"])
async def test_a_pipe_does_not_make_a_tool_wait(root: Path, tool: str) -> None:
    """It is looked at, not opened."""
    os.mkfifo(root / "pipe")
    files = Files(root, EVERYWHERE)
    if tool == "stat":
        assert (await files.stat("pipe")).kind is FileKind.OTHER
        return
    with pytest.raises(CapabilityDenied):
        await getattr(files, tool)("pipe")


async def test_what_may_not_be_read_is_not_listed(root: Path) -> None:
    """Hidden names, and names that would fool a reader, are counted only."""
    for name in (".env", "a\nb", "x\u202ey", "ok"):
        (root / name).touch()
    listing = await Files(root, EVERYWHERE).list()
    assert [entry.name for entry in listing.entries] == ["ok", "src"]
    assert listing.left_out == 3


async def test_too_much_is_refused_and_a_part_is_read(root: Path) -> None:
    """On both sides of the cap."""
    files = Files(root, EVERYWHERE, max_bytes=10, max_names=2)
    await files.write("ten", b"0123456789")
    assert await files.read("ten") == b"0123456789"
    (root / "eleven").write_bytes(b"0123456789X")
    with pytest.raises(LimitReached, match="more than 10 bytes; read a part"):
        await files.read("eleven")
    assert await files.read("eleven", start=8, size=10) == b"89X"
    for call in (files.write("w", b"0" * 11), files.read("ten", size=11), files.list()):
        with pytest.raises(LimitReached):
            await call
    assert not (root / "w").exists()


async def test_a_grant_for_reading_does_not_write(root: Path) -> None:
    """And paths are those of its rules."""
    files = Files(root, Grant(("fs::read",), paths=("src/**",)))
    assert await files.read("src/a.py") == b"print()"
    for call in (files.write("src/b.py", b""), files.remove("src/a.py"), files.list(".")):
        with pytest.raises(CapabilityDenied, match="add "):
            await call
    assert names_in(root / "src") == ["a.py"]


async def test_what_is_missing_is_told(root: Path) -> None:
    """With what to do."""
    with pytest.raises(ToolFailed, match=r"there is no 'src/no'.*list the folder"):
        await Files(root, EVERYWHERE).read("src/no")


def test_a_root_that_was_replaced_is_refused(root: Path) -> None:
    """By a link to elsewhere, or by another folder."""
    files = Files(root, EVERYWHERE)
    root.rename(root.with_name("moved"))
    root.symlink_to("outside")
    with pytest.raises(CapabilityDenied):
        asyncio.run(files.read("secret"))
    root.unlink()
    root.mkdir()
    with pytest.raises(CapabilityDenied, match="took the place"):
        asyncio.run(files.list())


@pytest.mark.parametrize("way", WAYS)
async def test_a_file_is_moved_with_its_mode_to_a_free_name(root: Path, way: OpenFolder) -> None:
    """Over no other file, and neither from nor to what may not be written."""
    files = Files(root, EVERYWHERE, open_folder=way)
    (root / "tool").write_bytes(b"one")
    (root / "tool").chmod(0o755)
    (root / "taken").write_bytes(b"two")
    (root / "link").symlink_to("taken")
    for path, target in (("tool", "taken"), ("tool", "link"), ("gone", "new")):
        with pytest.raises(ToolFailed):
            await files.move(path, target)
    for path, target in (("tool", "../out"), ("tool", ".git/hooks/x"), ("link", "new")):
        with pytest.raises(CapabilityDenied):
            await files.move(path, target)
    await files.move("tool", "deep/new")
    assert (root / "deep/new").read_bytes() == b"one"
    assert (root / "deep/new").stat().st_mode & 0o777 == 0o755
    assert (root / "taken").read_bytes() == b"two"
    assert not (root / "tool").exists()


async def test_the_root_itself_is_neither_written_nor_removed(root: Path) -> None:
    """Even when it is empty."""
    files = Files(root, EVERYWHERE)
    with pytest.raises(CapabilityDenied):
        await files.write(".", b"x")
    with pytest.raises(ToolFailed):
        await files.remove(".")


async def test_the_loop_goes_on_and_a_cancelled_call_waits_for_its_thread(root: Path) -> None:
    """Nothing happens after a call that was cancelled has ended."""
    may_go, arrived = threading.Event(), threading.Event()

    def slow(at: int, names: Any) -> int:
        arrived.set()
        assert may_go.wait(10)
        return open_by_walk(at, names)

    call = asyncio.ensure_future(Files(root, EVERYWHERE, open_folder=slow).write("late", b"x"))
    assert await asyncio.to_thread(arrived.wait, 10)
    call.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not call.done()
    may_go.set()
    await asyncio.wait([call])
    assert call.cancelled()
    assert (root / "late").exists()


async def test_no_descriptor_is_left_open(root: Path) -> None:
    """By what passes nor by what is refused."""
    (root / "link").symlink_to("../outside")
    (root / "hard").hardlink_to(root.parent / "outside/secret")
    gc.collect()  # what other tests have dropped
    before = len(names_in(Path("/proc/self/fd")))
    for way in WAYS:
        files = Files(root, EVERYWHERE, open_folder=way)
        await files.write("a/b", b"x")
        for path in ("a/b", "a", "link/x", "hard", "no/x", "a/b/c", "."):
            for call in (files.read(path), files.write(path, b""), files.list(path)):
                await asyncio.gather(call, files.stat(path), return_exceptions=True)
    assert len(names_in(Path("/proc/self/fd"))) == before
