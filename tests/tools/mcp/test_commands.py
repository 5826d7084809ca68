"""A server that is a command, in real bubblewrap: what it may do, and what becomes of it."""

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO

import pytest

from tests.patience import until
from tests.runtime.children.processes import comes_true, runs
from tests.tools.mcp.stage import COMMAND, PYTHON, Stage, furnished, staged
from vegakit.errors import CapabilityDenied, Timeout, ToolFailed, UserError, WorldError
from vegakit.host import Agent
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.testing import FakeClock
from vegakit.tools import McpServer
from vegakit.tools.mcp import transport as streams
from vegakit.tools.sandbox import bubblewrap

OFFICIAL = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("sums")


@server.tool()
def add(a: int, b: int) -> int:
    "Adds two numbers."
    return a + b


server.run()
"""


async def test_an_agent_uses_a_server_of_the_official_package(tmp_path: Path) -> None:
    """From its acceptance to the answer, with nothing left running."""
    (tmp_path / "sums.py").write_text(OFFICIAL)
    server = McpServer(
        name="sums",
        command=[sys.executable, "-I", "sums.py"],
        folder=tmp_path,
        readable=[sys.prefix, sys.base_prefix],
        capabilities=["fs::read"],
    )
    model = ScriptedModel(
        [{"calls": [{"name": "sums__add", "arguments": {"a": 20, "b": 22}}]}, "It is 42."]
    )
    async with Runtime(pins=tmp_path / "pins.json") as rt:
        tools = await rt.mcp.tools(server, accept=True)
        reply = await rt.ask(Agent("clerk", model=model, tools=tools), "20 + 22?")
        assert len(rt.children.all()) == 1
    assert reply.text == "It is 42."
    assert "42" in str(reply.messages.messages[2])
    assert rt.children.all() == []


async def test_an_accepted_server_is_started_by_its_first_call(tmp_path: Path) -> None:
    """What a model reads of its tools was kept."""
    async with staged(tmp_path) as stage:
        await stage.tools()
    async with staged(tmp_path) as stage:
        tools = await stage.tools(accept=False)
        assert tools["echo"].spec.description == "Does echo."
        assert stage.children.all() == []
        assert "['echo', {'word': 'hi'}]" in await tools["echo"].call({"word": "hi"}, None)
        assert len(stage.children.all()) == 1


async def test_it_has_no_variable_but_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither keys of ours nor what the shell set."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ours")
    async with staged(tmp_path, env={"NOTES_TOKEN": "its own"}) as stage:
        seen = await stage.call("environment")
        words = [word for child in stage.children.all() for word in child.argv]
    assert "sk-ours" not in seen
    assert "'NOTES_TOKEN': 'its own'" in seen
    assert "its own" not in " ".join(words)


async def test_it_has_no_network(tmp_path: Path) -> None:
    """Not even this machine."""
    listening = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    async with listening, staged(tmp_path) as stage:
        with pytest.raises(ToolFailed, match=r"refused|unreachable"):
            await stage.call("connect", host="127.0.0.1", port=port)


async def test_its_folder_is_written_when_that_is_declared(tmp_path: Path) -> None:
    """Else it is read-only."""
    async with staged(tmp_path, capabilities=["fs::write"]) as stage:
        await stage.call("save", path="made", text="x")
    assert (tmp_path / "home/made").read_text() == "x"
    async with staged(tmp_path, capabilities=["fs::read"]) as stage:
        with pytest.raises(ToolFailed, match="Read-only file system"):
            await stage.call("save", path="made", text="y")


async def test_it_reads_nothing_beside_its_folder(tmp_path: Path) -> None:
    """Secrets in the folder read as empty."""
    (tmp_path / "beside").write_text("secret")
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.env").write_text("TOKEN=secret")
    async with staged(tmp_path) as stage:
        with pytest.raises(ToolFailed, match="No such file"):
            await stage.call("read", path=str(tmp_path / "beside"))
        assert "secret" not in await stage.call("read", path=".env")


async def test_without_a_sandbox_nothing_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what to install."""
    monkeypatch.setattr(bubblewrap, "_PROGRAMS", str(tmp_path))
    async with staged(tmp_path) as stage:
        with pytest.raises(UserError, match="apt-get install bubblewrap"):
            await stage.tools()
        assert stage.children.all() == []


async def test_a_server_that_dies_fails_the_call_and_is_started_again(tmp_path: Path) -> None:
    """Its last words are told, harmless to read."""
    async with staged(tmp_path) as stage:
        with pytest.raises(WorldError, match=r"(?s)ended during the call.*goodbye \\x1b\[31mcruel"):
            await stage.call("die")
        assert "hi" in await stage.call("echo", word="hi")


async def test_a_server_that_keeps_dying_is_left_alone(tmp_path: Path) -> None:
    """For the rest of a minute after four starts."""
    clock = FakeClock()
    async with staged(tmp_path, clock) as stage:
        for _ in range(4):
            with pytest.raises(WorldError):
                await stage.call("die")
        with pytest.raises(ToolFailed, match="4 times within 60 s"):
            await stage.call("echo")
        clock.advance(60_000)
        assert "echo" in await stage.call("echo")


async def test_a_call_that_takes_too_long(tmp_path: Path) -> None:
    """The server lives on, and so does the next call of a server that does one at a time."""
    async with staged(tmp_path, timeout=0.2) as stage:
        with pytest.raises(Timeout, match=r"within 0\.2 s"):
            await stage.call("sleep")


async def asleep(stage: Stage, folder: Path) -> tuple["asyncio.Future[str]", IO[bytes]]:
    """A call whose server does nothing else until the pipe is closed."""
    pipe = folder / "home/pipe"
    os.mkfifo(pipe)
    calling = asyncio.ensure_future(stage.call("sleep", pipe=str(pipe)))

    def opened() -> IO[bytes] | None:
        with suppress(OSError):  # there is nobody who reads it yet
            return os.fdopen(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK), "wb")
        return None

    opened_pipe = await until(opened)
    assert opened_pipe
    return calling, opened_pipe


async def test_a_cancelled_call_leaves_the_server(tmp_path: Path) -> None:
    """And nothing of the call."""
    async with staged(tmp_path) as stage:
        await stage.tools()
        before = len(asyncio.all_tasks())
        calling, pipe = await asleep(stage, tmp_path)
        with pipe:
            calling.cancel()
            await asyncio.wait([calling])
        assert calling.cancelled()
        assert "['echo', {}]" in await stage.call("echo")
        await until(lambda: len(asyncio.all_tasks()) == before)


async def test_a_call_that_is_cancelled_while_the_server_starts(tmp_path: Path) -> None:
    """The next one waits for that start."""
    async with staged(tmp_path) as stage:
        await stage.tools()
        stage.owner = "another"
        calling = asyncio.ensure_future(stage.call("echo"))
        await until(lambda: len(stage.servers._open) == 2)
        await until(lambda: stage.servers._open["plain", "another"]._session is not None)
        calling.cancel()
        await asyncio.wait([calling])
        assert "['echo', {}]" in await stage.call("echo")
        assert len(stage.children.all()) == 2


async def test_a_server_that_does_not_read_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it is sent does not wait for ever."""
    monkeypatch.setattr(streams, "_WRITE_S", 1.0)
    async with staged(tmp_path) as stage:
        await stage.tools()
        sleeping, pipe = await asleep(stage, tmp_path)
        with pipe, pytest.raises(WorldError, match="does not read what it is sent"):
            await stage.call("echo", word="x" * 1_000_000)
        with pytest.raises(WorldError, match="does not read what it is sent"):
            await sleeping


async def test_each_owner_has_a_server_of_its_own(tmp_path: Path) -> None:
    """Which ends with its owner, and with no other."""
    async with staged(tmp_path) as stage:
        await stage.tools()
        for stage.owner in ("one", "two"):
            await stage.call("echo")
        pids = {child.owner: child.pid for child in stage.children.all()}
        stage.servers.end_of("one")
        assert await asyncio.to_thread(comes_true, lambda: not runs(pids["one"]))
        assert runs(pids["two"])


async def test_a_tool_that_nobody_vouched_for_is_not_called(tmp_path: Path) -> None:
    """Without capabilities, and with nobody to ask."""
    async with staged(tmp_path, capabilities=[]) as stage:
        tools = await stage.tools()
        with pytest.raises(CapabilityDenied, match="nobody said what plain does"):
            await tools["echo"].call({}, None)


async def test_what_was_not_accepted_is_not_started(tmp_path: Path) -> None:
    """It says what to type."""
    async with staged(tmp_path) as stage:
        with pytest.raises(UserError, match="type: vega mcp accept plain"):
            await stage.tools(accept=False)
        assert stage.children.all() == []


async def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    """Its words are told."""
    async with staged(tmp_path, command=[PYTHON, "-I", "absent.py"]) as stage:
        with pytest.raises(WorldError, match=r"(?s)did not start.*absent\.py"):
            await stage.tools()


async def test_what_it_planted_is_set_aside_however_it_ends(tmp_path: Path) -> None:
    """A name that programs outside act on, made further down."""
    async with staged(tmp_path, capabilities=["fs::write"]) as stage:
        (tmp_path / "home/deep/.git").parent.mkdir()
        await stage.call("save", path="deep/.envrc", text="touch PWNED")
        (connection,) = stage.servers._open.values()
        assert connection._session is not None
        connection._session._task.cancel()
        await asyncio.wait([connection._session._task])
    (aside,) = (tmp_path / "home/deep").iterdir()
    assert aside.name.startswith(".envrc.set-aside-")


async def test_who_may_be_asked_is_asked_about_a_tool_that_nobody_vouched_for(
    tmp_path: Path,
) -> None:
    """By the rules of the runtime; what was approved is called, once."""
    server = McpServer(name="plain", command=COMMAND, folder=furnished(tmp_path))
    call = {"calls": [{"name": "plain__echo", "arguments": {"word": "hi"}}]}
    async with Runtime(pins=tmp_path / "pins.json", mode="ask") as rt:
        tools = await rt.mcp.tools(server, accept=True)
        agent = Agent("clerk", model=ScriptedModel([call, "done"]), tools=tools)
        asking = asyncio.ensure_future(rt.ask(agent, "go"))
        await until(lambda: bool(rt.interrupts()))
        assert not asking.done()
        await rt.answer(rt.interrupts()[0].id, answer=True, by="a person")
        reply = await asking
    assert "['echo', {'word': 'hi'}]" in str(reply.messages.messages[2])
