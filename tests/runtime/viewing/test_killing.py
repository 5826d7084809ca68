"""What a kill answers when something is left."""

import asyncio
from pathlib import Path

import pytest

from vegakit.control import ControlClient, KillResult
from vegakit.control.sockets import find
from vegakit.errors import AgentFailed, UserError
from vegakit.host import Reducer
from vegakit.sdk import ControlServer, Runtime, control_server as answers


async def test_a_task_that_refuses_to_end_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is called clean that is not."""
    monkeypatch.setattr(answers, "_LOOKS", 3)
    leave = asyncio.Event()

    async def refusing(message: object) -> None:
        while not leave.is_set():
            try:
                await leave.wait()
            except asyncio.CancelledError:
                continue

    async with Runtime(observable=ControlServer(tmp_path)) as rt:
        rt.spawn(refusing).tell("go")
        await asyncio.sleep(0)
        try:
            killed = await ControlClient(find(None, tmp_path)).kill("refusing", tree=True)
        finally:
            leave.set()
    assert killed == KillResult(("refusing",), processes_left=1, tasks_left=1)
    assert not killed.is_clean


async def test_an_os_child_that_stays_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here one that nobody ends."""
    monkeypatch.setattr(answers, "_LOOKS", 3)

    async with Runtime(observable=ControlServer(tmp_path)) as rt:
        monkeypatch.setattr(rt.children, "of", lambda _: [])
        process = rt.spawn(Reducer("idle", lambda state, _: (state, [])))
        path = {"PATH": "/usr/bin:/bin"}
        await rt.children.start(["sleep", "1000"], cwd="/", env=path, owner=process.path)
        killed = await ControlClient(find(None, tmp_path)).kill("idle", tree=True)
    assert killed == KillResult(("idle",), os_children_left=1)
    assert not killed.is_clean


async def test_a_name_that_is_two_is_asked_about(tmp_path: Path) -> None:
    """The end of a path is enough if it is the end of one only; a pid always is."""

    async def kid() -> None:
        await asyncio.Event().wait()

    async with Runtime(observable=ControlServer(tmp_path)) as rt:

        async def parent() -> None:
            rt.spawn(kid)
            await asyncio.Event().wait()

        one, two = rt.spawn(parent, name="one"), rt.spawn(parent, name="two")
        for _ in range(10):
            await asyncio.sleep(0)
        there = ControlClient(find(None, tmp_path))
        with pytest.raises(UserError, match="'kid' is 2 processes; type one: one/kid, two/kid"):
            await there.kill("kid")
        assert (await there.kill(str(one.pid), tree=True)).ended == ("one", "one/kid")
        assert (await there.kill("kid", tree=True)).ended == ("two/kid",)
        assert two.alive


async def test_a_mistake_in_an_answer_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The caller is told where to look, and the runtime lives on."""
    async with Runtime(observable=ControlServer(tmp_path)) as rt:
        monkeypatch.setattr(rt, "ps", lambda: 1 / 0)
        with pytest.raises(UserError, match=r"hung up: it has ended, or its log says why not"):
            await ControlClient(find(None, tmp_path)).ps()
        assert (await ControlClient(find(None, tmp_path)).info()).processes == 0
    assert "ZeroDivisionError" in caplog.text


async def test_a_kill_that_ends_the_runtime_is_answered_first(tmp_path: Path) -> None:
    """The runtime waits for nothing but the process that is killed, and so closes at once."""

    async def clerk(message: object) -> None:
        await asyncio.Event().wait()

    spawned = asyncio.Event()

    async def live() -> None:
        async with Runtime(observable=ControlServer(tmp_path)) as rt:
            asked = rt.spawn(clerk).send("go")
            spawned.set()
            await asked

    living = asyncio.ensure_future(live())
    await spawned.wait()
    there = ControlClient(find(None, tmp_path))
    assert await there.kill("clerk", tree=True) == KillResult(("clerk",))
    with pytest.raises(AgentFailed, match="killed"):
        await living
