"""What an editor may send to the door for editors, right and wrong; over pipes, in this process."""

import asyncio
import base64
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE_S
from tests.sage.scene import Scene, calls, scene
from vegakit.sage import SessionState, list_sessions
from vegakit.server.acp import AcpAgent
from vegakit.server.json_rpc import RpcPeer
from vegakit.testing import ProviderReply, ProviderRequest

PIXEL = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
        "0000000d49444154789c6360000002000001e221bc330000000049454e44ae426082"
    )
).decode()
COMMAND = ("shell", {"command": "echo x >> effects.txt"})


def says(request: ProviderRequest) -> ProviderReply:
    """By words of the prompt and how much of it was done."""
    if request.tool_results == 0 and "run" in request.text:
        return calls(COMMAND)
    if request.tool_results == 0 and "ask" in request.text:
        return calls(("ask", {"question": "Which one?"}))
    if "slow" in request.text:
        return ProviderReply("At last.", delay_ms=60_000)
    return ProviderReply("Done.")


class Wire:
    """The other end of the pipes: what is written, and what was answered."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading, self._writing = reading, writing
        self.told: list[dict[str, Any]] = []
        self._number = 0
        self._changed = asyncio.Event()
        self.pick = "allow_once"
        self.asked: list[dict[str, Any]] = []

    async def listen(self) -> None:
        reader = asyncio.StreamReader(limit=64 << 20)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(self._reading, "rb", 0)
        )
        async for line in reader:
            self.told.append(json.loads(line))
            self._react(self.told[-1])
            self._changed.set()

    def _react(self, message: dict[str, Any]) -> None:
        if message.get("method") == "session/request_permission":
            self.asked.append(message["params"])
            if self.pick:
                outcome = {"outcome": "selected", "optionId": self.pick}
                self.send({"id": message["id"], "result": {"outcome": outcome}})
        if message.get("method") == "elicitation/create":
            self.asked.append(message["params"])
            content = {"action": "accept", "content": {"answer": "the red one"}}
            self.send({"id": message["id"], "result": content})

    def write(self, line: bytes) -> None:
        os.write(self._writing, line + b"\n")

    def send(self, message: dict[str, Any]) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def ask(self, method: str, params: Any) -> int:
        self._number += 1
        self.send({"id": self._number, "method": method, "params": params})
        return self._number

    async def answer(self, key: int | None) -> dict[str, Any]:
        """Wait for what is answered to a request."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for message in self.told:
                    if message.get("id", -1) == key and "method" not in message:
                        self.told.remove(message)
                        return message
                self._changed.clear()
                await self._changed.wait()

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        return await self.answer(self.ask(method, params))

    async def result(self, method: str, **params: Any) -> Any:
        answer = await self.call(method, **params)
        assert "result" in answer, answer
        return answer["result"]

    def prompt(self, session: str, *blocks: Any) -> int:
        made = [{"type": "text", "text": one} if isinstance(one, str) else one for one in blocks]
        return self.ask("session/prompt", {"sessionId": session, "prompt": made})

    async def said(self, session: str, *blocks: Any) -> Any:
        answer = await self.answer(self.prompt(session, *blocks))
        assert "result" in answer, answer
        return answer["result"]

    async def until(self, kind: str) -> dict[str, Any]:
        """Wait for an update of a kind."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for update in self.updates:
                    if update["sessionUpdate"] == kind:
                        return update
                self._changed.clear()
                await self._changed.wait()

    @property
    def updates(self) -> list[dict[str, Any]]:
        return [
            one["params"]["update"] for one in self.told if one.get("method") == "session/update"
        ]

    def hang_up(self) -> None:
        os.close(self._writing)


@asynccontextmanager
async def wired(made: Scene, **options: Any) -> AsyncGenerator[tuple[Wire, "asyncio.Task[None]"]]:
    """A door with an editor at it, as the user of the scene."""
    (theirs, mine), (back, out) = os.pipe(), os.pipe()
    wire = Wire(back, mine)
    with made.inside():
        serving = asyncio.create_task(AcpAgent(**options).serve(theirs, out))
        listening = asyncio.create_task(wire.listen())
        able = {"elicitation": {"form": {}}}
        await wire.result("initialize", protocolVersion=1, clientCapabilities=able)
        try:
            yield wire, serving
        finally:
            with suppress(OSError):
                wire.hang_up()
            await asyncio.wait_for(serving, PATIENCE_S)
            listening.cancel()


@pytest.fixture
def made(tmp_path: Path) -> Any:
    with scene(tmp_path, says) as here:
        yield here


async def begin(wire: Wire, made: Scene) -> str:
    opened = await wire.result("session/new", cwd=str(made.folder), mcpServers=[])
    return opened["sessionId"]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"garbage", -32700),
        (b'{"jsonrpc":"2.0","id":', -32700),
        (b"\xff\xfe", -32700),
        pytest.param(b"[" * 20_000, -32700, id="deep"),
        (b"[]", -32600),
        (b"7", -32600),
        (b'{"jsonrpc":"2.0"}', -32600),
        (b'{"jsonrpc":"2.0","id":[1],"method":"initialize"}', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"no/such"}', -32601),
        (b'{"jsonrpc":"2.0","id":null,"method":"initialize","params":[1]}', -32602),
        (b'{"jsonrpc":"2.0","id":null,"method":"session/new","params":{"cwd":"here"}}', -32602),
        (b'{"jsonrpc":"2.0","id":null,"method":"session/prompt","params":{}}', -32602),
    ],
)
async def test_what_is_wrong_is_answered_and_the_next_line_is_read(
    made: Scene, line: bytes, code: int
) -> None:
    async with wired(made) as (wire, _):
        wire.write(line)
        assert (await wire.answer(None))["error"]["code"] == code
        # Nobody waits for an answer to these.
        wire.write(b'{"jsonrpc":"2.0","method":"no/such"}')
        wire.write(b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"none"}}')
        wire.write(b'{"jsonrpc":"2.0","id":77,"result":{}}')
        assert (await wire.result("session/list", cwd=str(made.folder)))["sessions"] == []


async def test_a_line_that_is_too_long_is_passed_over() -> None:
    (theirs, mine), (back, out) = os.pipe(), os.pipe()

    async def echo(params: dict[str, Any]) -> Any:
        return params

    wire = Wire(back, mine)
    serving = asyncio.create_task(RpcPeer({"echo": echo}, {}, most_bytes=1000).serve(theirs, out))
    listening = asyncio.create_task(wire.listen())
    for _ in range(3):
        await asyncio.to_thread(wire.write, b"x" * 200_000)
        assert "200000 bytes" in (await wire.answer(None))["error"]["message"]
        assert await wire.result("echo", a=1) == {"a": 1}
    wire.hang_up()
    await asyncio.wait_for(serving, PATIENCE_S)
    listening.cancel()


async def test_an_editor_that_goes_away_leaves_a_session_that_goes_on(made: Scene) -> None:
    async with wired(made, mode="ask") as (wire, serving):
        session = await begin(wire, made)
        wire.pick = ""  # nobody answers
        wire.prompt(session, "Please run it.")
        await wire.until("tool_call")
        wire.hang_up()
        await asyncio.wait_for(serving, PATIENCE_S)
    with made.inside():
        (one,) = await list_sessions(made.folder)
    assert (one.run, one.state) == (session, SessionState.CUT_OFF)
    async with wired(made) as (wire, _):
        await wire.result("session/load", sessionId=session, cwd=str(made.folder), mcpServers=[])
        kinds = [update["sessionUpdate"] for update in wire.updates]
        assert kinds[0] == "user_message_chunk"
        assert (await wire.said(session, "/continue"))["stopReason"] == "end_turn"
    assert len(made.provider.requests) == 2
    assert (made.folder / "effects.txt").read_text() == "x\n"


async def test_a_command_is_allowed_once_or_exactly_for_the_session(made: Scene) -> None:
    async with wired(made, mode="ask") as (wire, _):
        session = await begin(wire, made)
        wire.pick = "reject_once"
        await wire.said(session, "Please run it.")
        assert not (made.folder / "effects.txt").exists()
        (asked,) = wire.asked
        assert "echo x >> effects.txt" in asked["toolCall"]["content"][0]["content"]["text"]
        assert asked["toolCall"]["rawInput"] == COMMAND[1]
        assert [one["kind"] for one in asked["options"]] == [
            "allow_once",
            "allow_always",
            "reject_once",
        ]
        wire.pick = "an option that there is not"
        await wire.said(session, "Please run it.")
        wire.pick = "allow_once"
        await wire.said(session, "Please run it.")
        wire.pick = "allow_always"
        await wire.said(session, "Please run it.")
        wire.pick = "reject_once"
        await wire.said(session, "Please run it.")
        assert len(wire.asked) == 4, "the very same command was allowed for the session"
        assert (made.folder / "effects.txt").read_text() == "x\n" * 3
        other = await begin(wire, made)
        await wire.said(other, "Please run it.")
        assert len(wire.asked) == 5, "another session asks again"


async def test_words_are_asked_by_elicitation(made: Scene) -> None:
    async with wired(made) as (wire, _):
        await wire.said(await begin(wire, made), "Please ask me.")
        assert [one["message"] for one in wire.asked] == ["Which one?"]
    (result,) = made.results(made.bodies[-1])
    assert "the red one" in str(result)


async def test_images_and_files_go_with_a_prompt(made: Scene) -> None:
    async with wired(made) as (wire, _):
        session = await begin(wire, made)
        image = {"type": "image", "mimeType": "image/png", "data": PIXEL}
        link = {"type": "resource_link", "name": "a.py", "uri": "file:///a.py"}
        inside = {"type": "resource", "resource": {"uri": "file:///b.py", "text": "b = 1"}}
        await wire.said(session, "Look.", image, link, inside)
        for wrong in ({"type": "audio"}, {"type": "image", "mimeType": "image/png", "data": "%"}):
            answer = await wire.answer(wire.prompt(session, "Look.", wrong))
            assert answer["error"]["code"] == -32602
        kind = {"type": "image", "mimeType": "text/html", "data": PIXEL}
        answer = await wire.answer(wire.prompt(session, "Look.", kind))
        assert "text/html" in answer["error"]["message"]
    sent = json.dumps(made.bodies[0])
    assert PIXEL in sent
    assert "file:///a.py" in sent
    assert "b = 1" in sent
    assert len(made.bodies) == 1


@pytest.mark.parametrize("how", ["session/cancel", "$/cancel_request"])
async def test_a_prompt_is_cancelled(made: Scene, how: str) -> None:
    async with wired(made) as (wire, _):
        session = await begin(wire, made)
        key = wire.prompt(session, "Be slow.")
        await wire.until("usage_update")
        second = await wire.answer(wire.prompt(session, "Another."))
        assert "at work" in second["error"]["message"]
        params = {"sessionId": session} if how == "session/cancel" else {"requestId": key}
        wire.send({"method": how, "params": params})
        answer = await wire.answer(key)
        assert answer["result"]["stopReason"] == "cancelled"
        assert (await wire.said(session, "Hello."))["stopReason"] == "end_turn"
    # What was cancelled is not gone on with, and the agent knows that it was.
    last = made.bodies[-1]["messages"]
    assert "stopped: interrupted" in json.dumps(last)


async def test_modes_and_models_are_chosen_for_the_next_turn(made: Scene) -> None:
    async with wired(made) as (wire, _):
        session = await begin(wire, made)
        assert await wire.result("session/set_mode", sessionId=session, modeId="plan") == {}
        assert wire.updates[-1] == {
            "sessionUpdate": "current_mode_update",
            "currentModeId": "plan",
        }
        await wire.said(session, "Please run it.")
        assert not (made.folder / "effects.txt").exists()
        wrong = await wire.call(
            "session/set_config_option", sessionId=session, configId="model", value="no:such"
        )
        assert "a model is one of" in wrong["error"]["message"]
        options = await wire.result(
            "session/set_config_option", sessionId=session, configId="mode", value="auto"
        )
        assert options["configOptions"][0]["currentValue"] == "auto"
        await wire.said(session, "Please run it.")
        assert (made.folder / "effects.txt").exists()
        assert (await wire.said(session, "/undo"))["stopReason"] == "end_turn"
        assert not (made.folder / "effects.txt").exists()


async def test_a_budget_that_is_spent_is_told_and_raised(made: Scene) -> None:
    async with wired(made, budget="$0.000001") as (wire, _):
        session = await begin(wire, made)
        assert (await wire.said(session, "Hello."))["stopReason"] == "max_turn_requests"
        (told,) = [one for one in wire.updates if one["sessionUpdate"] == "agent_message_chunk"]
        assert "/budget $1" in told["content"]["text"]
        assert made.bodies == []
        await wire.said(session, "/budget $1")
        assert (await wire.said(session, "/continue"))["stopReason"] == "end_turn"
        assert len(made.bodies) == 1


async def test_a_session_is_listed_and_deleted(made: Scene) -> None:
    async with wired(made) as (wire, _):
        session = await begin(wire, made)
        await wire.said(session, "Hello.")
        await begin(wire, made)  # nothing was said in it
        (one,) = (await wire.result("session/list", cwd=str(made.folder)))["sessions"]
        assert (one["sessionId"], one["title"]) == (session, "Hello.")
        assert await wire.result("session/close", sessionId=session) == {}
        assert (await wire.call("session/close", sessionId=session))["error"]["code"] == -32602
        await wire.result("session/resume", sessionId=session, cwd=str(made.folder))
        assert await wire.result("session/delete", sessionId=session) == {}
        assert (await wire.result("session/list", cwd=str(made.folder)))["sessions"] == []
        again = await wire.call("session/load", sessionId=session, cwd=str(made.folder))
        assert "there is no session" in again["error"]["message"]
