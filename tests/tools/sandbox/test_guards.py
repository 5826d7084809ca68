"""Guards over a workspace: what they hold, and what they leave alone.

That a swap while they are set up leads nowhere is shown in `test_swaps.py`.
"""

import asyncio
import fcntl
import os
from pathlib import Path

import pytest

from tests.runtime.children.processes import comes_true
from tests.tools.sandbox.stage import boxed, tree_of
from vegakit.errors import CapabilityDenied, UserError
from vegakit.policy import Grant
from vegakit.tools import Files, remove_left_stubs
from vegakit.tools.sandbox.quarantine import remove_stubs
from vegakit.tools.sandbox.workspace import scan_workspace_sync

CANARY = "canary-4f1d9c"


def mounts() -> str:
    return Path("/proc/self/mountinfo").read_text()


async def test_no_descriptor_leads_out(tmp_path: Path) -> None:
    """That of the workspace, by which it is mounted, is closed before the command starts."""
    async with boxed(tmp_path) as box:
        ran = await box.sh("ls /proc/self/fd | wc -l; cat /proc/self/fdinfo/10; ls /dev/fd/10/..")
        assert ran.stdout == "4\n"


async def test_no_descriptor_of_a_guard_is_kept(tmp_path: Path) -> None:
    """They are closed by another thread, because a disk may be waited for."""

    def count() -> int:
        return len([*Path("/proc/self/fd").iterdir()])

    async with boxed(tmp_path) as box:
        await box.run("true")
        before = count()
        for _ in range(5):
            await box.run("true")
            assert [*box.workspace.iterdir()] == []
        assert await asyncio.to_thread(comes_true, lambda: count() <= before, 30)


def test_removing_guards_frees_no_disk(tmp_path: Path) -> None:
    """That is left to whoever closes them: the folders are there until then, without a name."""
    stubs: dict[str, tuple[int, int]] = {}
    scan_workspace_sync(tmp_path, stubs=stubs)
    inodes = {inode for _, inode in stubs.values()}
    removed = remove_stubs(tmp_path, stubs)
    assert [*tmp_path.iterdir()] == []
    assert {os.fstat(descriptor).st_ino for descriptor in removed} == inodes
    for descriptor in removed:
        os.close(descriptor)


async def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    """With the next command, and only what is surely its own: marked, empty, and held by nobody."""
    async with boxed(tmp_path) as box:
        scan_workspace_sync(box.workspace, stubs={})
        (box.workspace / ".idea" / "mine").touch()
        (box.workspace / "vega.toml").unlink()
        (box.workspace / "vega.toml").touch()
        held = os.open(box.workspace, os.O_RDONLY)
        fcntl.flock(held, fcntl.LOCK_SH)
        remove_left_stubs(box.workspace)
        assert (box.workspace / ".vscode").exists(), "another process may have commands here"
        os.close(held)
        await box.run("true")
        assert {path.name for path in box.workspace.iterdir()} == {".idea", "vega.toml"}


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
        scan_workspace_sync(tmp_path)


async def test_a_workspace_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    """Nor one above it."""
    async with boxed(tmp_path) as box:
        (box.outside / "x").write_text(CANARY)
        box.workspace.rename(tmp_path / "elsewhere")
        box.workspace.symlink_to(box.outside)
        with pytest.raises(UserError, match="cannot be opened"):
            await box.run("cat", "x")
        assert tree_of(box.outside) == {"x": CANARY.encode()}


PACKAGES = ".venv/lib/python3/site-packages"


@pytest.mark.parametrize("env", [".venv", "myenv"])
async def test_code_that_tools_of_the_person_run_stays_as_it_is(tmp_path: Path, env: str) -> None:
    """Programs of an environment, whatever its name, and what its Python runs when it starts;
    packages may come."""
    packages = f"{env}/lib/python3/site-packages"
    async with boxed(tmp_path) as box:
        for name in (f"{env}/bin/python", f"{packages}/a.pth", f"{env}/pyvenv.cfg"):
            (box.workspace / name).parent.mkdir(parents=True, exist_ok=True)
            (box.workspace / name).write_text("the person's")
        before = tree_of(box.workspace)
        ran = await box.sh(
            f"for f in {env}/bin/python {env}/bin/pip {packages}/a.pth {env}/pyvenv.cfg; do "
            f"rm -f $f; echo evil > $f; done; mv {env}/bin {env}/b; mv {env} v; cd {packages} && "
            "echo evil | tee evil.pth sitecustomize.py; echo fine > package.py"
        )
        left = tree_of(box.workspace)
        aside = {name for name in left if ".set-aside-" in name}
        assert {name.split(".set-aside-")[0] for name in aside} == {
            f"{packages}/evil.pth",
            f"{packages}/sitecustomize.py",
        }
        assert len(ran.about_files) == 2
        kept = {name: text for name, text in left.items() if name not in aside}
        assert kept == {**before, f"{packages}/package.py": b"fine\n"}


async def test_an_environment_that_a_command_makes_is_left_to_it(tmp_path: Path) -> None:
    """Nobody was set up to use it; the next command finds it as it is."""
    async with boxed(tmp_path) as box:
        made = f".venv/bin/python {PACKAGES}/a.pth"
        ran = await box.sh(f"mkdir -p .venv/bin {PACKAGES}; touch {made}")
        assert ran.about_files == ()
        assert {*made.split()} == {*tree_of(box.workspace)}
        assert (await box.sh(f"ls {made}")).stdout.split() == sorted(made.split())


async def test_what_would_run_on_the_machine_of_the_person_is_set_aside(tmp_path: Path) -> None:
    """At any depth; what only looks alike is left."""
    planted = (
        "a.code-workspace lefthook.yml .pre-commit-config.yaml .yarn/releases/y.cjs .bazelrc "
        ".kilocode/mcp.json .trae/mcp.json .bsp/x.json jupyter_config.py crush.json hie.yaml"
    ).split()
    harmless = [".yarn/cache/y.zip", "code-workspace", "lefthook.md"]
    async with boxed(tmp_path) as box:
        await box.sh("; ".join(f"install -D /dev/null sub/{name}" for name in planted + harmless))
        left = {name for name in tree_of(box.workspace) if ".set-aside-" not in name}
        assert left == {f"sub/{name}" for name in harmless}


async def test_a_file_with_a_name_outside_is_read_and_not_written(tmp_path: Path) -> None:
    """Who made that name made it a part of the workspace; what it is outside stays as it is."""
    async with boxed(tmp_path) as box:
        (box.outside / "theirs").write_text("theirs")
        os.link(box.outside / "theirs", box.workspace / "linked")
        script = (
            "cat linked; echo x >> linked; chmod 777 linked; mv linked m; rm -f linked; ls linked m"
        )
        ran = await box.sh(script)
        assert ran.stdout == "theirslinked\n"
        assert tree_of(box.outside) == {"theirs": b"theirs"}
        assert os.stat(box.outside / "theirs").st_mode & 0o777 != 0o777  # noqa: PTH116
        files = Files(box.workspace, Grant(("fs",), paths=("linked",)))
        for refused in (files.read("linked"), files.write("linked", b"x")):
            with pytest.raises(CapabilityDenied, match="one of 2 names"):
                await refused
        assert tree_of(box.outside) == {"theirs": b"theirs"}
