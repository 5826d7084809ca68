"""What was checked is what is mounted: at every step in between, somebody swaps it.

The launcher is stopped before each of its steps while two names change places, from outside the
sandbox and with all rights; then it goes on. Whatever happens, the command reads neither what lies
outside nor a secret, and changes nothing outside.
"""

import ctypes
import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.tools.sandbox.stage import Box, boxed, tree_of
from vegakit.errors import UserError
from vegakit.ports import Ran
from vegakit.runtime.children import launching
from vegakit.tools.sandbox import bubblewrap
from vegakit.tools.sandbox.workspace import look

CANARY = "canary-4f1d9c"
EXCHANGE, HERE = 2, -100
HOOKED = """
import sys; sys.path.append(sys.argv[1])
from launcher import guards, main
def step(name):
    with open({ask!r}, "w") as f: f.write(name)
    with open({answer!r}) as f: f.read()
guards.step = step
main()
"""


def exchange(one: Path, other: Path) -> None:
    result = ctypes.CDLL(None, use_errno=True).renameat2(
        HERE, os.fsencode(one), HERE, os.fsencode(other), EXCHANGE
    )
    assert result == 0, os.strerror(ctypes.get_errno())


@contextmanager
def stopped_at_each_step(
    folder: Path, monkeypatch: pytest.MonkeyPatch, do: Callable[[int, str], None]
) -> Generator[list[str]]:
    """`do` is called with the number and the name of each step before it is taken."""
    ask, answer, steps = folder / "ask", folder / "answer", list[str]()
    for pipe in (ask, answer):
        os.mkfifo(pipe)
        pipe.chmod(0o666)
    script = HOOKED.format(ask=str(ask), answer=str(answer))
    monkeypatch.setattr(launching, "_SCRIPT", script)

    def attend() -> None:
        while (name := ask.read_text()) != "over":
            do(len(steps), name)
            steps.append(name)
            answer.write_text("go on")

    attending = threading.Thread(target=attend, daemon=True)
    attending.start()
    try:
        yield steps
    finally:
        ask.write_text("over")
        attending.join()
        ask.unlink()
        answer.unlink()


class Attack(NamedTuple):
    """Two names that change places, and what the command then tries."""

    furnish: Callable[[Path], None]
    names: tuple[str, str]
    probe: str


def _a_folder_and_a_link(workspace: Path) -> None:
    """The folder is frozen as a whole: many of its files seem to have another name outside."""
    (workspace / ".aws").mkdir()
    (workspace / "sub").mkdir()
    for number in range(20):
        (workspace / ".aws" / f"{number}").touch()
        os.link(workspace / ".aws" / f"{number}", workspace / "sub" / f"{number}")
    (workspace / "link").symlink_to("..")


def _a_secret_and_a_decoy(workspace: Path) -> None:
    (workspace / "config").mkdir()
    (workspace / "config/.env").write_text(CANARY)
    (workspace / "decoy").mkdir()


def _a_secret_and_a_link_to_it(workspace: Path) -> None:
    """By the link the file outside would be truncated, or read in the place of the secret."""
    (workspace / "config").mkdir()
    (workspace / "config/x.pem").write_text(CANARY)
    (workspace / "link").symlink_to("../outside")


def _a_trusted_folder(workspace: Path) -> None:
    (workspace / "nested/.git").mkdir(parents=True)
    (workspace / "nested/.git/config").write_text("as it was")
    (workspace / "link").symlink_to("../outside")


ATTACKS = {
    "folder": Attack(
        _a_folder_and_a_link, ("sub", "link"), "cat ../outside/x.pem sub/* link/outside/x.pem"
    ),
    "secret": Attack(_a_secret_and_a_decoy, ("config", "decoy"), "cat config/.env decoy/.env"),
    "file": Attack(
        _a_secret_and_a_link_to_it,
        ("config", "link"),
        "cat config/x.pem link/x.pem; echo x > config/x.pem; echo x > link/x.pem",
    ),
    "trusted": Attack(
        _a_trusted_folder,
        ("nested", "link"),
        "echo x > nested/.git/config; echo x > link/.git/config; cat link/x.pem",
    ),
}


async def tried(box: Box, probe: str) -> str:
    """What it said; nothing if it was refused."""
    try:
        ran: Ran = await box.sh(f"{probe} 2>&1")
    except UserError:
        return ""
    return ran.stdout


def mounts() -> str:
    return Path("/proc/self/mountinfo").read_text()


def furnished(box: Box, attack: Attack) -> dict[str, bytes]:
    (box.outside / "x.pem").write_text(CANARY)
    attack.furnish(box.workspace)
    return tree_of(box.outside)


async def steps_of(folder: Path, attack: Attack, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    with stopped_at_each_step(folder, monkeypatch, lambda *_: None) as steps:
        async with boxed(folder) as box:
            furnished(box, attack)
            await tried(box, "true")
    return steps


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ATTACKS)
async def test_a_swap_at_any_step_leads_nowhere(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it comes before a folder is opened, before its guard is mounted, or after."""
    attack = ATTACKS[name]
    (tmp_path / "dry").mkdir()
    steps = await steps_of(tmp_path / "dry", attack, monkeypatch)
    relevant = [at for at, step in enumerate(steps) if any(n in step for n in _words(attack))]
    assert relevant
    hits: list[str] = []
    for at in sorted({0, 1, *relevant, *(n + 1 for n in relevant if n + 1 < len(steps))}):
        folder = tmp_path / f"{at}"
        folder.mkdir()

        def swap(now: int, step: str, at: int = at, workspace: Path = folder / "workspace") -> None:
            del step
            if now == at:
                exchange(*(workspace / each for each in attack.names))

        with stopped_at_each_step(folder, monkeypatch, swap):
            async with boxed(folder) as box:
                outside = furnished(box, attack)
                inside = tree_of(box.workspace)
                said = await tried(box, attack.probe)
                exchanged = {*tree_of(box.workspace).values()} == {*inside.values()}
                if CANARY in said or tree_of(box.outside) != outside or not exchanged:
                    hits.append(f"step {at} {steps[at]}: {said}")
    assert hits == []


def _words(attack: Attack) -> list[str]:
    return [*attack.names, ".env", "x.pem", ".git", "root", "exec"]


async def test_who_keeps_swapping_stops_the_command_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked over again, a bounded number of times; then the refusal says why."""
    monkeypatch.setattr(bubblewrap, "_LOOKS", 3)
    attack = ATTACKS["secret"]

    def swap(_: int, step: str) -> None:
        if step in {"open config", "open decoy"}:
            exchange(*(tmp_path / "workspace" / each for each in attack.names))

    with stopped_at_each_step(tmp_path, monkeypatch, swap):
        async with boxed(tmp_path) as box:
            furnished(box, attack)
            with pytest.raises(UserError, match="keeps changing"):
                await box.run("true")
            assert not {".git", "vega.toml"} & {path.name for path in box.workspace.iterdir()}


async def test_no_descriptor_leads_out(tmp_path: Path) -> None:
    """That of the workspace, by which it is mounted, is closed before the command starts."""
    async with boxed(tmp_path) as box:
        ran = await box.sh("ls /proc/self/fd | wc -l; cat /proc/self/fdinfo/10; ls /dev/fd/10/..")
        assert ran.stdout == "4\n"


async def test_no_guard_is_seen_outside(tmp_path: Path) -> None:
    """Mounts of a command stay in its namespace, also where mounts are shared."""
    async with boxed(tmp_path) as box:
        (box.workspace / ".env").write_text(CANARY)
        ran = await box.sh("grep -c workspace /proc/self/mountinfo")
        assert int(ran.stdout) > 10
    assert str(tmp_path) not in mounts()


async def test_what_is_guarded_cannot_be_moved_with_its_folder(tmp_path: Path) -> None:
    """Else the look before another command would miss it."""
    async with boxed(tmp_path) as box:
        (box.workspace / "a/b").mkdir(parents=True)
        (box.workspace / "a/b/.env").write_text(CANARY)
        ran = await box.sh(
            "mv a x; mv a/b a/c; rm -rf a; rmdir a/b; ln a/b/.env y; find . -name .env"
        )
        assert ran.stdout == "./a/b/.env\n"
        assert (box.workspace / "a/b/.env").read_text() == CANARY
        assert (await box.sh("echo new > a/f; mv a/f a/b/g; cat a/b/g")).stdout == "new\n"


async def test_a_secret_behind_a_link_stays_one(tmp_path: Path) -> None:
    """Also when a command has led the link elsewhere."""
    async with boxed(tmp_path) as box:
        (box.workspace / "plain").write_text(CANARY)
        (box.workspace / ".env").symlink_to("plain")
        assert (await box.run("cat", "plain")).stdout == ""
        await box.sh("ln -sf nowhere .env")
        assert (await box.run("cat", "plain")).stdout == ""


async def test_a_link_that_others_act_on_is_put_back(tmp_path: Path) -> None:
    """A link cannot be guarded; what replaced it is set aside."""
    async with boxed(tmp_path) as box:
        (box.outside / "dotfiles").mkdir()
        (box.workspace / ".claude").symlink_to(box.outside / "dotfiles")
        ran = await box.sh("rm .claude; mkdir .claude; touch .claude/settings.json")
        assert (box.workspace / ".claude").readlink() == box.outside / "dotfiles"
        assert "was put back" in ran.notes[-1]
        names = sorted(path.name for path in box.workspace.iterdir())
        assert [name[:17] for name in names] == [".claude", ".claude.set-aside"]


async def test_many_secrets_do_not_stop_the_next_command(tmp_path: Path) -> None:
    """More than bubblewrap takes arguments for."""
    async with boxed(tmp_path) as box:
        for number in range(3_000):
            (box.workspace / f"{number}.pem").write_text(CANARY)
        ran = await box.sh("cat 7.pem 2999.pem; echo fine")
        assert ran.stdout == "fine\n"


def test_so_many_that_it_would_take_forever_are_refused(tmp_path: Path) -> None:
    """With what to do."""
    for number in range(5_001):
        (tmp_path / f"{number}.pem").touch()
    with pytest.raises(UserError, match="move them to a folder outside"):
        look(tmp_path)


async def test_a_workspace_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    """Nor one above it."""
    async with boxed(tmp_path) as box:
        (box.outside / "x").write_text(CANARY)
        box.workspace.rename(tmp_path / "elsewhere")
        box.workspace.symlink_to(box.outside)
        with pytest.raises(UserError, match="cannot be opened"):
            await box.run("cat", "x")
        assert tree_of(box.outside) == {"x": CANARY.encode()}
