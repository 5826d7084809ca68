"""Starting: what a child gets, what it gives, and what is refused."""

import asyncio
import signal
import threading
from asyncio.subprocess import PIPE
from contextlib import aclosing
from pathlib import Path

import pytest

from tests.runtime.children.processes import environment_of, parent_of
from vegakit.child_process import ChildProcess, Children
from vegakit.concurrency import SteadyClock
from vegakit.errors import UserError

SHELL = {"PATH": "/usr/bin:/bin"}


async def started(*argv: str, cwd: str = "/", stdin: int = -3) -> tuple[int, bytes, bytes]:
    async with aclosing(Children(SteadyClock())) as children:
        child = await children.start(argv, cwd=cwd, env=SHELL, owner="a", stdin=stdin)
        return await child.wait(), await child.stdout.read(), await child.stderr.read()


def test_exit_code_and_both_outputs() -> None:
    """As a shell would see them."""
    seen = asyncio.run(started("sh", "-c", "echo out; echo err >&2; exit 7"))
    assert seen == (7, b"out\n", b"err\n")


def test_a_child_gets_its_directory_and_only_its_environment(tmp_path: Path) -> None:
    """Nothing of ours is inherited: no variable, no descriptor but three, no input."""
    script = "pwd; env | cut -d= -f1 | sort | tr '\\n' ' '; ls /proc/self/fd | wc -l; wc -c"
    _, out, _ = asyncio.run(started("sh", "-c", script, cwd=str(tmp_path)))
    three_and_the_one_ls_reads = "4"
    assert out.decode().split() == [str(tmp_path), "PATH", "PWD", three_and_the_one_ls_reads, "0"]


def test_a_file_is_opened_for_a_child(tmp_path: Path) -> None:
    """Anew for each, so that each reads it from its beginning; or it is not started."""
    (tmp_path / "file").write_text("content")

    async def read(children: Children, name: str) -> bytes:
        child = await children.start(
            ["cat", "/dev/fd/9"], cwd="/", env=SHELL, owner="a", opens={9: str(tmp_path / name)}
        )
        return await child.stdout.read()

    async def scenario() -> None:
        async with aclosing(Children(SteadyClock())) as children:
            assert [await read(children, "file") for _ in range(2)] == [b"content"] * 2
            with pytest.raises(UserError, match="No such file"):
                await read(children, "none")

    asyncio.run(scenario())


def test_launcher_and_warden_know_no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours hold keys, and whoever is the same user may read theirs."""
    monkeypatch.setenv("SOME_API_KEY", "canary")

    async def scenario() -> None:
        async with aclosing(Children(SteadyClock())) as children:
            child = await children.start(["cat"], cwd="/", env=SHELL, owner="a", stdin=PIPE)
            supervisor = parent_of(child.pid)
            for pid in (supervisor, parent_of(supervisor)):
                assert environment_of(pid) == b""

    asyncio.run(scenario())


def test_a_child_leads_a_session_and_cannot_gain_rights() -> None:
    """So that Ctrl-C at our terminal is ours, and nothing it runs is beyond our signals."""
    script = "echo $$; cut -d' ' -f6 /proc/$$/stat; grep NoNewPrivs /proc/self/status"
    _, out, _ = asyncio.run(started("sh", "-c", script))
    pid, session, _, no_new_rights = out.split()
    assert pid == session
    assert no_new_rights == b"1"


def test_signals_python_ignores_are_not_ignored() -> None:
    """`yes | head` ends."""
    script = "yes | head -1; grep SigIgn /proc/self/status"
    _, out, _ = asyncio.run(started("sh", "-c", script))
    line, _, ignored = out.split()
    assert line == b"y"
    bits = (1 << signal.SIGPIPE - 1) | (1 << signal.SIGXFSZ - 1)
    assert int(ignored, 16) & bits == 0


def test_what_is_written_to_stdin_arrives() -> None:
    """A megabyte there and back."""

    async def scenario() -> None:
        async with aclosing(Children(SteadyClock())) as children:
            child = await children.start(["cat"], cwd="/", env=SHELL, owner="a", stdin=PIPE)
            assert child.stdin is not None
            child.stdin.write(b"x" * 1_000_000)
            child.stdin.close()
            assert len(await child.stdout.read()) == 1_000_000
            assert await child.wait() == 0

    asyncio.run(scenario())


def test_a_large_request() -> None:
    """An environment of half a megabyte, more than a socket holds at once."""

    async def scenario() -> None:
        async with aclosing(Children(SteadyClock())) as children:
            env = {f"V{number}": "x" * 50_000 for number in range(10)} | SHELL
            child = await children.start(["env"], cwd="/", env=env, owner="a")
            assert len(await child.stdout.read()) > 500_000
            assert await child.wait() == 0

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("argv", "cwd", "message"),
    [
        (["no-such"], "/", "no-such was not started: exec: No such file .* PATH of env="),
        (["true"], "/no-such", "true was not started: cwd: No such file .* cwd= a directory"),
        (["/etc/passwd"], "/", "exec: Permission denied"),
        (["a\0b"], "/", "exec: Invalid argument"),
        ([], "/", "argv is empty"),
    ],
)
def test_what_cannot_start_says_why(argv: list[str], cwd: str, message: str) -> None:
    """And what to do about it."""
    with pytest.raises(UserError, match=message):
        asyncio.run(started(*argv, cwd=cwd))


def test_a_command_is_not_looked_for_in_its_directory(tmp_path: Path) -> None:
    """Only PATH and a path with a slash say where."""
    script = tmp_path / "planted"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    with pytest.raises(UserError, match="planted was not started"):
        asyncio.run(started("planted", cwd=str(tmp_path)))
    assert asyncio.run(started("./planted", cwd=str(tmp_path)))[0] == 0


def test_another_loop_is_refused() -> None:
    """A second thread is told how to ask the first."""

    async def scenario() -> None:
        async with aclosing(Children(SteadyClock())) as children:
            await (await children.start(["true"], cwd="/", env=SHELL, owner="a")).wait()
            refused: list[str] = []

            def elsewhere() -> None:
                try:
                    asyncio.run(children.start(["true"], cwd="/", env=SHELL, owner="a"))
                except UserError as error:
                    refused.append(str(error))

            thread = threading.Thread(target=elsewhere)
            thread.start()
            thread.join()
            assert "run_coroutine_threadsafe" in refused[0]

    asyncio.run(scenario())


def test_closed_children_start_nothing() -> None:
    """Rather than a launcher that nobody would end."""

    async def scenario() -> None:
        children = Children(SteadyClock())
        await children.aclose()
        with pytest.raises(UserError, match="make new Children"):
            await children.start(["true"], cwd="/", env=SHELL, owner="a")

    asyncio.run(scenario())


def test_a_warden_keeps_the_next_child_too() -> None:
    """Unless it was told to end one: a late word must not reach the next."""

    async def scenario() -> None:
        async with aclosing(Children(SteadyClock())) as children:

            async def cat() -> ChildProcess:
                return await children.start(["cat"], cwd="/", env=SHELL, owner="a", stdin=PIPE)

            first = await cat()
            supervisor = parent_of(first.pid)
            assert first.stdin is not None
            first.stdin.close()
            assert await first.wait() == 0
            second = await cat()
            assert parent_of(second.pid) == supervisor
            assert await first.end() == 0
            await second.end(grace_ms=0)
            assert parent_of((await cat()).pid) != supervisor

    asyncio.run(scenario())
