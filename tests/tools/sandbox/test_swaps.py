"""What was checked is what is mounted and renamed: at every step in between, somebody swaps it.

The launcher is stopped before each of its steps, and the runtime before each name that it looks
up in the workspace, while names change places: from outside the sandbox, with the rights of the
person. Then it goes on. Whatever happens, the command reads neither what lies outside nor a
secret, and nothing outside is changed or renamed. Each test has a twin that takes one check away:
there the same swaps come through.
"""

import ctypes
import os
import shutil
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.tools.sandbox.stage import Box, boxed, tree_of
from vegakit.child_process import children as launching
from vegakit.errors import UserError
from vegakit.tools.sandbox import bubblewrap, workspace

CANARY = "canary-4f1d9c"
EXCHANGE, HERE = 2, -100
HOOKED = """
import sys; sys.path.append(sys.argv[1])
from launcher import guards, main
def step(name):
    with open({ask!r}, "w") as f: f.write(name)
    with open({answer!r}) as f: f.read()
guards.step = step
{fault}
main()
"""
UNCHECKED = "guards._must_be = lambda *_: None"
LOOKED_UP = "open stat scandir rename mkdir rmdir unlink readlink symlink".split()


def exchanged(one: str, other: str) -> Callable[[Path], None]:
    def swap(folder: Path) -> None:
        paths = [os.fsencode(folder / each) for each in (one, other)]
        ctypes.CDLL(None).renameat2(HERE, paths[0], HERE, paths[1], EXCHANGE)

    return swap


def moved(name: str, to: str) -> Callable[[Path], None]:
    def swap(folder: Path) -> None:
        if (folder / name).exists():
            (folder / name).rename(folder / to)

    return swap


def replaced(name: str, moved: str, target: str) -> Callable[[Path], None]:
    """By a link."""

    def swap(folder: Path) -> None:
        if (folder / name).exists():
            (folder / name).rename(folder / moved)
            (folder / name).symlink_to(target)

    return swap


class Attack(NamedTuple):
    """What is there, what changes places, and what the command then tries."""

    furnish: Callable[[Path], None]
    swap: Callable[[Path], None]
    probe: str


def _a_folder_and_a_link(folder: Path) -> None:
    """The folder is frozen as a whole: many of its files seem to have another name outside."""
    (folder / ".aws").mkdir()
    (folder / "sub").mkdir()
    for number in range(20):
        (folder / ".aws" / f"{number}").touch()
        os.link(folder / ".aws" / f"{number}", folder / "sub" / f"{number}")
    (folder / "link").symlink_to("..")


def _secrets(folder: Path) -> None:
    for name in ("config", "decoy"):
        (folder / name).mkdir()
    (folder / "config/.env").write_text(CANARY)
    (folder / "config/x.pem").write_text(CANARY)
    (folder / "link").symlink_to("../outside")
    (folder / "config/out").symlink_to("../../outside/x.pem")


def _a_trusted_folder(folder: Path) -> None:
    (folder / "nested/.git").mkdir(parents=True)
    (folder / "nested/.git/config").write_text("as it was")
    (folder / "link").symlink_to("../outside")


def _a_file_with_a_name_outside(folder: Path) -> None:
    os.link(folder.parent / "outside/linked", folder / "linked")
    (folder / "free").write_text("free")


READS = "cat config/.env decoy/.env config/x.pem config/y.pem moved/* moved/.env link/*"
WRITES = "for f in config/x.pem config/out link/x.pem; do echo x > $f; done"
PLANTS = (
    "mkdir -p p/.vscode; touch p/.vscode/tasks.json; ln -s ../outside/person out; "
    "mkdir -p q; touch q/.envrc; ln -s ../outside/person/.envrc q/out"
)
ATTACKS = {
    "exchange: a frozen folder": Attack(
        _a_folder_and_a_link, exchanged("sub", "link"), "cat ../outside/x.pem sub/* link/outside/*"
    ),
    "exchange: the folder of a secret": Attack(_secrets, exchanged("config", "decoy"), READS),
    "exchange: that and a link": Attack(_secrets, exchanged("config", "link"), f"{READS};{WRITES}"),
    "exchange: a trusted folder": Attack(
        _a_trusted_folder,
        exchanged("nested", "link"),
        "echo x > nested/.git/config; echo x > link/.git/config; cat link/x.pem",
    ),
    "exchange: a file": Attack(
        _a_file_with_a_name_outside, exchanged("linked", "free"), "for f in *; do echo x > $f; done"
    ),
    "folder for link": Attack(
        _secrets, replaced("config", "moved", "../outside"), f"{READS};{WRITES}"
    ),
    "folder moved away": Attack(_secrets, moved("config", "moved"), f"{READS};{WRITES}"),
    "file for link": Attack(
        _secrets, replaced("config/x.pem", "config/y.pem", "../../outside/x.pem"), READS + WRITES
    ),
}
AFTERWARDS = {
    "exchange: a planted folder": Attack(lambda _: None, exchanged("p", "out"), PLANTS),
    "planted folder for link": Attack(
        lambda _: None, replaced("p", "p2", "../outside/person"), PLANTS
    ),
    "planted file for link": Attack(lambda _: None, exchanged("q/.envrc", "q/out"), PLANTS),
}


@pytest.fixture(autouse=True)
def few_stubs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that are absent at the top take the same steps one after the other."""
    monkeypatch.setattr(workspace, "ABSENT_FOLDERS", (".git",))
    monkeypatch.setattr(workspace, "ABSENT_FILES", ("vega.toml",))


class Stopping:
    """Calls `do` before step number `at`."""

    def __init__(self) -> None:
        self.at, self.count = -1, 0
        self.do: Callable[[], None] = lambda: None

    def step(self, name: str) -> None:
        del name
        if self.count == self.at:
            self.do()
        self.count += 1


@contextmanager
def launcher_stopped(
    folder: Path, monkeypatch: pytest.MonkeyPatch, step: Callable[[str], None], fault: str = ""
) -> Generator[None]:
    """`step` is called with the name of each step before it is taken."""
    ask, answer = folder / "ask", folder / "answer"
    for pipe in (ask, answer):
        os.mkfifo(pipe)
    script = HOOKED.format(ask=str(ask), answer=str(answer), fault=fault)
    monkeypatch.setattr(launching, "_SCRIPT", script)

    def attend() -> None:
        while (name := ask.read_text()) != "over":
            step(name)
            answer.write_text("go on")

    attending = threading.Thread(target=attend, daemon=True)
    attending.start()
    try:
        yield
    finally:
        ask.write_text("over")
        attending.join()


@contextmanager
def runtime_stopped(
    monkeypatch: pytest.MonkeyPatch, step: Callable[[str], None], *, by_name: bool = False
) -> Generator[None]:
    """Before each name that is looked up by the descriptor of its folder. With `by_name` a rename
    is done by the path that the folder had before the stop."""

    def stopping(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def stopped(*args: Any, **named: Any) -> Any:
            fd = named.get("dir_fd", named.get("src_dir_fd"))
            if fd is None and not (name == "scandir" and args and isinstance(args[0], int)):
                return real(*args, **named)
            if name == "rename" and by_name:
                path = Path(f"/proc/self/fd/{fd}").readlink()
                args, named = tuple(f"{path}/{each}" for each in args), {}
            step(name)
            return real(*args, **named)

        return stopped

    with monkeypatch.context() as patched:
        for name in LOOKED_UP:
            patched.setattr(os, name, stopping(name, getattr(os, name)))
        yield


def furnished(folder: Path, attack: Attack) -> None:
    for each in ("workspace", "outside"):
        shutil.rmtree(folder / each, ignore_errors=True)
        (folder / each).mkdir()
    outside = folder / "outside"
    for name in ("x.pem", ".env", "linked", "person/.vscode/tasks.json", "person/.envrc"):
        (outside / name).parent.mkdir(parents=True, exist_ok=True)
        (outside / name).write_text(CANARY)
    attack.furnish(folder / "workspace")


async def said_by(box: Box, probe: str) -> str:
    """Nothing if it was refused."""
    try:
        return (await box.sh(f"{probe} 2>&1")).stdout
    except UserError:
        return ""


async def hits_of(attack: Attack, box: Box, stopping: Stopping) -> tuple[int, list[int]]:
    """How many steps there are, and those at which a swap comes through."""
    folder, hits = box.workspace.parent, list[int]()
    at = steps = 0
    while at <= steps:
        furnished(folder, attack)
        before = tree_of(box.outside)
        stopping.at, stopping.count = at, 0
        stopping.do = lambda: attack.swap(box.workspace)
        said = await said_by(box, attack.probe)
        steps = stopping.count
        stopping.at = -1
        if CANARY in said or tree_of(box.outside) != before:
            hits.append(at)
        at += 1
    return steps, hits


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ATTACKS)
async def test_a_swap_at_any_step_of_the_launcher_leads_nowhere(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it comes before a folder is opened, before its guard is mounted, or after."""
    stopping = Stopping()
    with launcher_stopped(tmp_path, monkeypatch, stopping.step):
        async with boxed(tmp_path) as box:
            steps, hits = await hits_of(ATTACKS[name], box, stopping)
    assert steps >= 8
    assert hits == []


async def test_it_would_without_a_look_at_what_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the tests above can fail."""
    stopping = Stopping()
    with launcher_stopped(tmp_path, monkeypatch, stopping.step, UNCHECKED):
        async with boxed(tmp_path) as box:
            _, hits = await hits_of(ATTACKS["exchange: a file"], box, stopping)
    assert hits


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [*ATTACKS, *AFTERWARDS])
async def test_a_swap_at_any_step_of_the_looks_leads_nowhere(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look before a command, what is made for it, the look after it and what is set aside."""
    stopping = Stopping()
    attack = {**ATTACKS, **AFTERWARDS}[name]
    async with boxed(tmp_path) as box:
        with runtime_stopped(monkeypatch, stopping.step):
            steps, hits = await hits_of(attack, box, stopping)
    assert steps >= 8
    assert hits == []


async def test_it_would_if_things_were_renamed_by_their_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the tests above can fail."""
    stopping = Stopping()
    async with boxed(tmp_path) as box:
        with runtime_stopped(monkeypatch, stopping.step, by_name=True):
            _, hits = await hits_of(AFTERWARDS["exchange: a planted folder"], box, stopping)
    assert hits


async def test_who_keeps_swapping_stops_the_command_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked over again, a bounded number of times; then the refusal says why."""
    monkeypatch.setattr(bubblewrap, "_LOOKS", 3)
    swap = exchanged("config", "decoy")

    def step(name: str) -> None:
        if name in {"open config", "open decoy"}:
            swap(tmp_path / "workspace")

    with launcher_stopped(tmp_path, monkeypatch, step):
        async with boxed(tmp_path) as box:
            furnished(tmp_path, ATTACKS["exchange: the folder of a secret"])
            with pytest.raises(UserError, match="keeps changing"):
                await box.run("true")
            assert not {".git", "vega.toml"} & {path.name for path in box.workspace.iterdir()}
