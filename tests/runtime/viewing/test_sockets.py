"""Who is found, and who may call."""

import asyncio
import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from vegakit import Agent, control as viewing
from vegakit.config import load, sockets_dir
from vegakit.control import ControlClient, open_socket
from vegakit.control.sockets import find, running_runtimes
from vegakit.errors import UserError
from vegakit.providers import ScriptedModel
from vegakit.sdk import ControlServer, Runtime, control_server as server

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
    async with Runtime(observable=ControlServer(directory)) as _:
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
    """The directory that a runtime makes and the socket are closed to others."""
    async with Runtime(observable=ControlServer(tmp_path / "s")) as _:
        (path,) = (tmp_path / "s").iterdir()
        modes = [stat.S_IMODE(one.stat().st_mode) for one in (tmp_path / "s", path)]
    assert modes == [0o700, 0o600]


async def test_runtimes_are_told_apart(tmp_path: Path) -> None:
    """By name, by OS pid or by socket; the only one needs no word."""
    async with Runtime(name="one", observable=ControlServer(tmp_path)) as _:
        assert find(None, tmp_path).name == f"{os.getpid()}-one.sock"
        async with Runtime(name="two", observable=ControlServer(tmp_path)) as _:
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
    async with (
        Runtime(observable=ControlServer(tmp_path)),
        Runtime(observable=ControlServer(tmp_path)),
    ):
        assert [one.name for one in running_runtimes(tmp_path)] == ["default", "default~2"]
    assert running_runtimes(tmp_path) == []


def test_what_the_dead_left_is_removed(tmp_path: Path) -> None:
    """And nothing else."""
    listening, path = open_socket(tmp_path, "a/b c")
    (tmp_path / "notes.txt").write_text("mine")
    assert path.name == f"{os.getpid()}-a_b_c.sock"
    assert [one.path for one in running_runtimes(tmp_path)] == [path]
    listening.close()
    with pytest.raises(UserError, match=r"no runtime can be looked into: .* observable=False"):
        find(None, tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["notes.txt"]


def test_runtimes_that_open_at_once_have_a_socket_each(tmp_path: Path) -> None:
    """In threads of one process, under one name."""
    with ThreadPoolExecutor(16) as pool:
        opened = [*pool.map(lambda _: open_socket(tmp_path, "same"), range(160))]
    try:
        assert len({path for _, path in opened}) == len(running_runtimes(tmp_path)) == 160
        assert len([*tmp_path.iterdir()]) == 160
    finally:
        for listening, _ in opened:
            listening.close()


async def test_a_runtime_without_a_socket_runs_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It says so, and what to set."""
    (tmp_path / "file").write_text("")
    async with Runtime(observable=ControlServer(tmp_path / "file")) as rt:
        assert rt.ps() == []
    assert "set observable.sockets to another directory" in caplog.text


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
async def test_a_directory_that_others_write_in_is_left_as_it_is(
    mode: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Root may name /tmp, and nobody else could use it any more if its mode were narrowed."""
    (shared := tmp_path / "shared").mkdir()
    shared.chmod(mode)
    async with Runtime(observable=ControlServer(shared)) as _:
        assert list(shared.iterdir()) == []
    assert shared.stat().st_mode & 0o7777 == mode
    assert "others may write in" in caplog.text


def test_the_settings_open_it_and_close_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime from settings can be looked into unless observable.sockets is empty."""
    for variable in ("HOME", "XDG_RUNTIME_DIR", "XDG_DATA_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.chdir(tmp_path)

    nowhere = {"observable.sockets": ""}

    async def names(flags: dict[str, str], **options: Any) -> list[str]:
        async with Runtime.from_config(load(flags), **options) as _:
            return [runtime.name for runtime in running_runtimes(tmp_path / "vega")]

    assert load().sockets_path == tmp_path / "vega"
    assert asyncio.run(names({})) == ["default"]
    assert asyncio.run(names(nowhere)) == []
    assert asyncio.run(names(nowhere, observable=True)) == ["default"]
    (tmp_path / "vega.toml").write_text('[observable]\nsockets = "/somewhere"')
    with pytest.raises(UserError, match="there is none in /somewhere"):
        viewing.connect()
    monkeypatch.delenv("VEGA_TRUSTED_FOLDERS")
    assert load().sockets_path == tmp_path / "vega"


def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HOME", "XDG_RUNTIME_DIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.chdir(tmp_path)


async def test_every_runtime_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that was made without settings, by `vega ps` in another process: the socket is the
    user's alone."""
    at_home(tmp_path, monkeypatch)
    async with Runtime(name="plain") as rt:
        rt.spawn(Agent("coder", model=ScriptedModel(["x"])))
        socket_file = find("plain", load().sockets_path)
        assert stat.S_IMODE(socket_file.stat().st_mode) == 0o600
        ran = await asyncio.to_thread(
            subprocess.run, [sys.executable, "-m", "vegakit", "ps"], capture_output=True, text=True
        )
        assert ran.returncode == 0, ran.stderr
        assert "coder" in ran.stdout
    async with Runtime(observable=False):
        assert running_runtimes(tmp_path / "vega") == []


@pytest.mark.parametrize("place", ["", "elsewhere", "~/own"])
def test_sockets_are_where_vega_ps_looks(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The quick answer that every runtime asks for is that of the settings."""
    at_home(tmp_path, monkeypatch)
    assert sockets_dir() == load().sockets_path == tmp_path / "vega"
    monkeypatch.setenv("VEGA_OBSERVABLE_SOCKETS", place)
    found, said = sockets_dir(), load().sockets_path
    assert (found and found.resolve()) == (said and said.resolve())
    monkeypatch.delenv("VEGA_OBSERVABLE_SOCKETS")
    (tmp_path / "vega" / "vega.toml").parent.mkdir()
    (tmp_path / "vega" / "vega.toml").write_text(f'[observable]\nsockets = "{place}"')
    assert sockets_dir() == load().sockets_path


@pytest.mark.parametrize("obstacle", ["file", "long", "settings", "loop"])
async def test_a_socket_that_cannot_be_made_fails_nobody(
    obstacle: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Nor does anybody hear of it who did not ask: nothing is printed."""
    at_home(tmp_path, monkeypatch)
    match obstacle:
        case "file":  # like a home that may not be written, which does not stop root
            (tmp_path / "vega").write_text("")
        case "long":
            monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / ("d" * 200)))
        case "settings":
            (tmp_path / "vega.toml").write_text("[observable\n")
            monkeypatch.setenv("HOME", str(tmp_path / "home"))
        case _:

            async def refuse(*_: object, **__: object) -> None:
                raise NotImplementedError

            monkeypatch.setattr(asyncio, "start_unix_server", refuse)
    async with Runtime() as rt:
        reply = await rt.ask(Agent("a", model=ScriptedModel(["yes"])), "?")
    assert reply.text == "yes"
    assert capfd.readouterr() == ("", "")


async def test_a_caller_who_says_nothing_holds_up_nobody(tmp_path: Path) -> None:
    """The runtime ends, and others are answered meanwhile."""
    async with Runtime(observable=ControlServer(tmp_path)) as _:
        with socket.socket(socket.AF_UNIX) as silent:
            silent.connect(str(find(None, tmp_path)))
            assert await ControlClient(find(None, tmp_path)).ps() == []
