"""Who is found, and who may call."""

import asyncio
import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from vegakit import control as viewing
from vegakit.config import load
from vegakit.control import ControlClient
from vegakit.control.sockets import find, open_socket, running_runtimes
from vegakit.errors import SettingsError, UserError
from vegakit.sdk import control_server as server
from vegakit.sdk.control_server import ControlServer
from vegakit.sdk.runtime import Runtime

STRANGER = """
import os, socket, sys
os.setuid(65534)
calling = socket.socket(socket.AF_UNIX)
calling.connect(sys.argv[1])
try:
    calling.sendall(b'{"v":1,"verb":"ps"}' + bytes([10]))
    print(calling.makefile("rb").read())
except ConnectionError:
    print(b"")
"""
NOTHING_RUNS = "{}\n".format(b'{"v":1,"end":true}\n')


@pytest.fixture
def ajar() -> Iterator[Path]:
    """A directory that anybody may enter, whatever becomes of the directories of other tests."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o711)
        yield Path(made) / "sockets"


async def call_as_a_stranger(directory: Path) -> str:
    """By another user, whom the modes would let in."""
    async with Runtime(view=ControlServer(directory)) as _:
        path = find(None, directory)
        path.chmod(0o777)
        path.parent.chmod(0o711)
        command = [sys.executable, "-c", STRANGER, str(path)]
        ran = await asyncio.to_thread(
            subprocess.run, command, cwd="/", capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can call as somebody else")
async def test_another_user_is_not_answered(ajar: Path) -> None:
    """Even if somebody has opened the directory."""
    assert await call_as_a_stranger(ajar) == "b''\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can call as somebody else")
async def test_the_stranger_could_be_answered(ajar: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted fault: without the question who calls, the test above would fail."""
    monkeypatch.setattr(server, "is_mine", lambda _: True)
    assert await call_as_a_stranger(ajar) == NOTHING_RUNS


async def test_only_its_user_may_enter(tmp_path: Path) -> None:
    """The directory and the socket are closed to others, also one that was open before."""
    (tmp_path / "s").mkdir(mode=0o777)
    async with Runtime(view=ControlServer(tmp_path / "s")) as _:
        (path,) = (tmp_path / "s").iterdir()
        modes = [stat.S_IMODE(one.stat().st_mode) for one in (tmp_path / "s", path)]
    assert modes == [0o700, 0o600]


async def test_runtimes_are_told_apart(tmp_path: Path) -> None:
    """By name, by OS pid or by socket; the only one needs no word."""
    async with Runtime(name="one", view=ControlServer(tmp_path)) as _:
        assert find(None, tmp_path).name == f"{os.getpid()}-one.sock"
        async with Runtime(name="two", view=ControlServer(tmp_path)) as _:
            both = f"2 runtimes are open: {os.getpid()} (one), {os.getpid()} (two); say which"
            with pytest.raises(UserError) as several:
                find(None, tmp_path)
            assert str(several.value) == f"{both}: --at two"
            path = find("one", tmp_path)
            assert (await ControlClient(path).info()).name == "one"
            assert find(str(path), None) == path
        assert find(str(os.getpid()), tmp_path) == path
        with pytest.raises(UserError, match=r"no runtime is called two; there are \d+ \(one\)"):
            find("two", tmp_path)


async def test_two_of_one_name_both_have_a_socket(tmp_path: Path) -> None:
    """In one OS process."""
    async with Runtime(view=ControlServer(tmp_path)), Runtime(view=ControlServer(tmp_path)):
        assert [one.name for one in running_runtimes(tmp_path)] == ["default", "default~2"]
    assert running_runtimes(tmp_path) == []


def test_what_the_dead_left_is_removed(tmp_path: Path) -> None:
    """And nothing else."""
    listening, path = open_socket(tmp_path, "a/b c")
    (tmp_path / "notes.txt").write_text("mine")
    assert path.name == f"{os.getpid()}-a_b_c.sock"
    assert [one.path for one in running_runtimes(tmp_path)] == [path]
    listening.close()
    with pytest.raises(UserError, match=r"no runtime can be looked into: .* Runtime\(view=True\)"):
        find(None, tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["notes.txt"]


async def test_a_runtime_without_a_socket_runs_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It says so, and what to set."""
    (tmp_path / "file").write_text("")
    async with Runtime(view=ControlServer(tmp_path / "file")) as rt:
        assert rt.ps() == []
    assert "set view.sockets to another directory" in caplog.text


def test_the_settings_open_it_and_close_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime from settings can be looked into unless view.sockets is empty."""
    for variable in ("HOME", "XDG_RUNTIME_DIR", "XDG_DATA_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.chdir(tmp_path)

    async def found(**flags: object) -> list[str]:
        async with Runtime.from_config(load(flags)) as _:
            return [one.name for one in running_runtimes(tmp_path / "vega")]

    assert load().sockets_path == tmp_path / "vega"
    assert asyncio.run(found()) == ["default"]
    assert asyncio.run(found(**{"view.sockets": ""})) == []
    (tmp_path / "vega.toml").write_text('[view]\nsockets = "/somewhere"')
    with pytest.raises(SettingsError, match=r"sets view\.sockets"):
        viewing.connect()


async def test_a_caller_who_says_nothing_holds_up_nobody(tmp_path: Path) -> None:
    """The runtime ends, and others are answered meanwhile."""
    async with Runtime(view=ControlServer(tmp_path)) as _:
        with socket.socket(socket.AF_UNIX) as silent:
            silent.connect(str(find(None, tmp_path)))
            assert await ControlClient(find(None, tmp_path)).ps() == []
