"""Every known attack by content is carried out: what is received is bounded, and never acted on.

Nothing here unpacks, parses or decodes. So an archive is as large as it is, a picture is its bytes,
and what an archive's entries are called matters when somebody writes them.
"""

import asyncio
import gzip
import io
import os
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.tools.confined.attacks import known
from tests.tools.confined.server import Server, reply
from vegakit.errors import CapabilityDenied, LimitReached
from vegakit.policy import Grant
from vegakit.tools import Files, Http

KNOWN = known("data")
CAP = 1_000_000
EVERYWHERE = Grant(("fs",), paths=("**",))
PACKAGES = "packages are installed by commands, which these tools do not run"
NOT_HERE = {f"data-{number:03}": PACKAGES for number in range(15, 20)}
Staged: TypeAlias = Callable[[Files, Path], Coroutine[Any, Any, None]]


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def comes_back_as_it_is(files: Files, root: Path, content: bytes) -> None:
    (root / "got").write_bytes(content)
    assert await files.read("got") == content
    async with Server(reply(content, Content_Encoding="gzip")) as server:
        answer = await Http(server.grant(), max_bytes=CAP).fetch("GET", server.url())
    assert answer.body == content
    assert names_in(root) == ["got"]


async def nested_zip(files: Files, root: Path) -> None:
    content = b"0" * 1_000_000
    for level in range(4):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"{level}.zip", content * 4)
        content = packed.getvalue()
    await comes_back_as_it_is(files, root, content)


async def gzip_bomb(files: Files, root: Path) -> None:
    await comes_back_as_it_is(files, root, gzip.compress(b"0" * 50_000_000))


async def every_entry_is_refused(files: Files, names: list[str]) -> None:
    for name in names:
        with pytest.raises(CapabilityDenied):
            await files.write(name, b"PWNED")


async def tar_names(files: Files, root: Path) -> None:
    await every_entry_is_refused(files, ["../../x", "../out/x", str(root.parent / "out/x")])


async def zip_names(files: Files, root: Path) -> None:
    await every_entry_is_refused(files, ["..\\..\\x", "a\\b", "C:x", "C:\\x", "\\\\host\\x"])


def unpacked(root: Path, kind: bytes, target: str) -> None:
    """By a program that knows no better."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        entry = tarfile.TarInfo("a")
        entry.type, entry.linkname = kind, target
        archive.addfile(entry)
    with tarfile.open(fileobj=io.BytesIO(packed.getvalue())) as archive:
        found = archive.next()
        assert found is not None
        make = os.symlink if found.issym() else os.link
        make(found.linkname, root / found.name)


async def through_a_link(files: Files, root: Path) -> None:
    unpacked(root, tarfile.SYMTYPE, "../out")
    await every_entry_is_refused(files, ["a", "a/x", "a/secret"])


async def through_a_name(files: Files, root: Path) -> None:
    unpacked(root, tarfile.LNKTYPE, str(root.parent / "out/secret"))
    await every_entry_is_refused(files, ["a"])


async def huge_picture(files: Files, root: Path) -> None:
    size = (65_535).to_bytes(4)
    await comes_back_as_it_is(files, root, b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + size + size)


async def pdf_loop(files: Files, root: Path) -> None:
    await comes_back_as_it_is(files, root, b"%PDF-1.7\nxref\n0 0\ntrailer<</Prev 9>>\nstartxref\n9")


async def outer_entity(files: Files, root: Path) -> None:
    entity = b'<!DOCTYPE svg [<!ENTITY x SYSTEM "../out/secret">]><svg>&x;</svg>'
    await comes_back_as_it_is(files, root, entity)


async def is_read_in_parts_only(files: Files, root: Path, size: int) -> None:
    (root / "huge").touch()
    os.truncate(root / "huge", size)
    with pytest.raises(LimitReached, match="read a part"):
        await files.read("huge")
    assert len(await files.read("huge", start=size - 10, size=CAP)) == 10


async def many_lines(files: Files, root: Path) -> None:
    await is_read_in_parts_only(files, root, 10_000_000)


async def one_line(files: Files, root: Path) -> None:
    await is_read_in_parts_only(files, root, 1_000_000_000)


async def encodings(files: Files, root: Path) -> None:
    for encoding in ("utf-7", "utf-16", "utf-32"):
        await comes_back_as_it_is(files, root, "import os # +AGE-".encode(encoding))


async def unseen_characters(files: Files, root: Path) -> None:
    """Content is bytes, for whoever shows it to judge; in a name they are refused."""
    for unseen in ("\u200b", "\U000e0041", "\u202e", "\u2066"):
        await every_entry_is_refused(files, [f"read{unseen}me"])
        await comes_back_as_it_is(files, root, f"read{unseen}me".encode())


async def path_file(files: Files, root: Path) -> None:
    await every_entry_is_refused(files, ["x.pth", "lib/site-packages/evil.PTH"])


STAGED: dict[str, Staged] = {
    "data-001": nested_zip,
    "data-002": gzip_bomb,
    "data-003": tar_names,
    "data-004": through_a_link,
    "data-005": through_a_name,
    "data-006": zip_names,
    "data-007": huge_picture,
    "data-008": pdf_loop,
    "data-009": outer_entity,
    "data-010": many_lines,
    "data-011": one_line,
    "data-012": encodings,
    "data-013": unseen_characters,
    "data-014": unseen_characters,
    "data-020": path_file,
}


@pytest.mark.parametrize("attack_id", STAGED)
def test_an_attack_by_content_is_bounded(attack_id: str, tmp_path: Path) -> None:
    """In memory too; and nothing outside is changed."""
    for place in ("root", "out"):
        (tmp_path / place).mkdir()
    (tmp_path / "out/secret").write_bytes(b"secret")
    files = Files(tmp_path / "root", EVERYWHERE, max_bytes=CAP)
    asyncio.run(STAGED[attack_id](files, tmp_path / "root"))
    assert names_in(tmp_path) == ["out", "root"]
    assert (tmp_path / "out/secret").read_bytes() == b"secret"
    assert names_in(tmp_path / "out") == ["secret"]


def test_every_known_attack_is_carried_out_or_said_to_be_elsewhere() -> None:
    """Never both."""
    assert sorted([*STAGED, *NOT_HERE]) == sorted(KNOWN)


def test_a_huge_file_takes_no_more_memory_than_the_cap(tmp_path: Path) -> None:
    """Twice, while the parts are put together."""
    files = Files(tmp_path, EVERYWHERE, max_bytes=CAP)
    tracemalloc.start()
    asyncio.run(one_line(files, tmp_path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * CAP
