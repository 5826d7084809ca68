"""Agents in a web application: FastAPI on uvicorn, over real sockets."""

import asyncio
import http.client
import importlib.util
import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from tests.patience import PATIENCE_S, until
from vegakit import Agent, Runtime
from vegakit.conversation import ModelChunk, ModelRequest
from vegakit.errors import ErrorClass, Phase, UserError, WorldError
from vegakit.money import dollars
from vegakit.server import RouterLimits, vega_router
from vegakit.testing import ScriptedModel

EXAMPLES = Path(__file__).parents[2] / "examples"


def user_of(scope: Any) -> str | None:
    return dict(scope["headers"]).get(b"x-user", b"").decode() or None


@asynccontextmanager
async def served(app: Any) -> AsyncGenerator[int]:
    """Yield the port of a server."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1)
        web = uvicorn.Server(config)
        serving = asyncio.ensure_future(web.serve([listening]))
        await until(lambda: web.started or serving.done())
        assert not serving.done(), serving
        try:
            yield listening.getsockname()[1]
        finally:
            web.should_exit = True
            await serving


def post(port: int, name: str, body: object, **headers: str) -> tuple[int, Any]:
    """Return the status, and JSON or the events."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    sent = {"Content-Type": "application/json"}
    sent |= {key.replace("_", "-"): value for key, value in headers.items()}
    try:
        connection.request("POST", name, json.dumps(body), sent)
        response = connection.getresponse()
        text = response.read()
    finally:
        connection.close()
    if response.getheader("Content-Type", "").startswith("text/event-stream"):
        lines = text.decode().splitlines()
        return response.status, [json.loads(line[6:]) for line in lines if line[:6] == "data: "]
    return response.status, json.loads(text)


def get(port: int, path: str, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    sent = {key.replace("_", "-"): value for key, value in headers.items()}
    try:
        connection.request("GET", path, headers=sent)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


async def asked(port: int, body: object, name: str = "/helper", **headers: str) -> tuple[int, Any]:
    return await asyncio.to_thread(post, port, name, body, **headers)


def router(model: ScriptedModel, rt: Runtime, **options: Any) -> Any:
    agents = {"helper": Agent("helper", model=model, max_tokens=100)}
    return vega_router(agents, rt, **options)


async def test_the_example_answers_streams_and_keeps_users_within_their_budgets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VEGA_MODELS_FAST", f"scripted:{EXAMPLES / 'fastapi_app.script.json'}")
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location("fastapi_app", EXAMPLES / "fastapi_app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    async with served(module.app) as port:
        path = "/agents/assistant"
        status, reply = await asked(port, {"prompt": "Where is order 17?"}, path, X_User="ann")
        assert (status, reply["text"]) == (200, "Two lamps were sent on Monday.")
        assert 0 < reply["cost_usd"] < 0.01
        prompt = {"prompt": "Where is order 17?"}
        stream = {"Accept": "text/event-stream", "X_User": "bob"}
        status, events = await asked(port, prompt, path, **stream)
        assert status == 200
        assert [event["type"] for event in events] == [
            "RUN_STARTED",
            "TOOL_CALL_START",
            "TOOL_CALL_ARGS",
            "TOOL_CALL_END",
            "TOOL_CALL_RESULT",
            "TEXT_MESSAGE_START",
            *["TEXT_MESSAGE_CONTENT"] * (len(events) - 8),
            "TEXT_MESSAGE_END",
            "RUN_FINISHED",
        ]
        assert events[1]["toolCallName"] == "look_up"
        assert json.loads(events[2]["delta"]) == {"order": "17"}
        assert events[4]["content"] == "two lamps, sent on Monday"
        said = "".join(event.get("delta", "") for event in events[6:])
        assert said == events[-1]["result"]["text"] == "Two lamps were sent on Monday."
        assert (await asked(port, prompt, path))[0] == 401
        status, text = await asyncio.to_thread(get, port, "/agents/health")
        assert (status, json.loads(text)["agents"]) == (200, ["assistant"])
        assert (await asyncio.to_thread(get, port, "/agents/metrics"))[0] == 401
        status, text = await asyncio.to_thread(get, port, "/agents/metrics", X_User="ann")
        assert status == 200
        assert "vega_" in text


REBOUND = {"Host": "evil.example", "Origin": "http://evil.example"}
FOREIGN = {"Origin": "http://evil.example"}
OURS = {"Host": "app.example.com", "Origin": "https://app.example.com"}


@pytest.mark.parametrize(
    ("options", "headers", "expected"),
    [
        ({}, {}, 200),
        ({}, {"Host": "[::1]:80"}, 200),
        ({}, REBOUND, 421),
        ({}, OURS, 421),
        ({}, FOREIGN, 403),
        ({"hosts": ["app.example.com"]}, OURS, 200),
        ({"hosts": ["app.example.com"]}, REBOUND, 421),
        ({"hosts": ["app.example.com"]}, {**OURS, **FOREIGN}, 403),
        ({"identify": user_of}, {**OURS, "X-User": "ann"}, 200),
        ({"identify": user_of}, {**FOREIGN, "X-User": "ann"}, 403),
        ({"identify": user_of}, OURS, 401),
    ],
)
async def test_a_page_of_another_site_calls_nothing(
    options: dict[str, Any], headers: dict[str, str], expected: int
) -> None:
    """Neither by its own name for this machine nor across origins; nothing is spent."""
    model = ScriptedModel("x")
    rt = Runtime("$1", observable=False)
    async with served(router(model, rt, **options)) as port:
        assert (await asked(port, {"prompt": "Hi"}, **headers))[0] == expected
        assert (await asyncio.to_thread(get, port, "/metrics", **headers))[0] == expected
        assert (await asyncio.to_thread(get, port, "/health", **headers))[0] == 200
        assert bool(await rt.spent()) == (expected == 200)


EXPENSIVE = {"text": "x", "usage": {"input_tokens": 10, "output_tokens": 100}}


async def test_a_user_over_budget_is_told_so_and_others_are_answered() -> None:
    model = ScriptedModel(lambda _: EXPENSIVE)
    rt = Runtime("$1", observable=False)
    app = router(model, rt, identify=user_of, user_budget="$0.001/day")
    async with served(app) as port:
        assert (await asked(port, {"prompt": "Hi"}, X_User="ann"))[0] == 200
        for stream in (False, True):
            body = {"prompt": "Hi", "stream": stream}
            status, reply = await asked(port, body, X_User="ann")
            assert (status, reply["error"]["code"]) == (402, "budget_exceeded")
            assert "your budget of $0.001/day" in reply["error"]["message"]
        assert (await asked(port, {"prompt": "Hi"}, X_User="bob"))[0] == 200


async def test_the_budget_of_the_server_is_nobodys_business() -> None:
    rt = Runtime("$0.0001", observable=False)
    async with served(router(ScriptedModel("x"), rt)) as port:
        status, reply = await asked(port, {"prompt": "Hi"})
        assert (status, reply["error"]["code"]) == (503, "unavailable")
        assert "$" not in reply["error"]["message"]


async def test_what_was_said_before_is_known() -> None:
    seen: list[ModelRequest] = []

    def answer(request: ModelRequest) -> str:
        seen.append(request)
        return "yes"

    rt = Runtime("$1", observable=False)
    async with served(router(ScriptedModel(answer), rt)) as port:
        messages = [
            {"id": "1", "role": "user", "content": "I am Ann."},
            {"id": "2", "role": "assistant", "content": "Hello, Ann."},
            {"id": "3", "role": "user", "content": "Who am I?"},
        ]
        body = {"threadId": "t", "runId": "r", "messages": messages, "tools": [], "state": {}}
        status, events = await asked(port, body, Accept="text/event-stream")
        assert status == 200
        assert events[0] == {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
    assert len(seen[0].messages) == 3


class Slow(ScriptedModel):
    """Says a little, and then nothing."""

    def __init__(self) -> None:
        super().__init__("one two three four")
        self.begun = self.ended = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        self.begun += 1
        try:
            async for chunk in super().stream(request):
                yield chunk
                await asyncio.Event().wait()
        finally:
            self.ended += 1

    async def ask(self, request: ModelRequest) -> Any:
        self.begun += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.ended += 1


@pytest.mark.parametrize("accepts", ["text/event-stream", "application/json"])
async def test_a_client_that_goes_cancels_its_run_which_is_charged(accepts: str) -> None:
    """Nobody knows what the provider bills for what was cut off: the whole of it is charged, and
    nothing stays reserved."""
    model, rt = Slow(), Runtime("$1", observable=False)
    async with served(router(model, rt, limits=RouterLimits(user_runs=1))) as port:
        body = json.dumps({"prompt": "Hi"})
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"POST /helper HTTP/1.1\r\nHost: localhost\r\nAccept: {accepts}\r\n"
        kind = "Content-Type: application/json\r\n"
        writer.write(f"{head}{kind}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        await writer.drain()
        await until(lambda: model.begun)
        status, reply = await asked(port, {"prompt": "Hi"})
        assert (status, reply["error"]["code"]) == (429, "exhausted")
        writer.close()
        await until(lambda: model.ended)

        async def is_settled() -> bool:
            return int(await rt.spent()) + int(await rt.remaining() or 0) == dollars("$1")

        await until(is_settled)
        assert 0 < int(await rt.spent()) <= dollars("$0.001")


async def test_wrong_requests_are_refused_with_what_to_write() -> None:
    rt = Runtime("$1", observable=False)
    async with served(router(ScriptedModel("x"), rt)) as port:
        for body, text in (
            ({}, "nothing to answer"),
            ({"prompt": 1}, "Expected `str`"),
            ({"prompt": "x", "tools": [{}]}, "give the agent its tools on the server"),
        ):
            status, reply = await asked(port, body)
            assert status == 400
            assert text in reply["error"]["message"]
        status, reply = await asked(port, {"prompt": "x"}, "/helpr")
        assert (status, reply["error"]["message"]) == (
            404,
            "there is no agent 'helpr'; did you mean helper?",
        )
    assert (await called_closed())[0] == 503
    with pytest.raises(UserError, match="cannot be served as 'health'"):
        vega_router({"health": Agent("health")}, rt)


async def called_closed() -> tuple[int, Any]:
    """Call a router that is mounted where nobody opened the runtime."""
    inner = router(ScriptedModel("x"), Runtime("$1", observable=False))

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await inner(scope, receive, send)

    async with served(app) as port:
        return await asked(port, {"prompt": "x"})


async def test_a_model_that_fails_is_told_without_its_own_words() -> None:
    broken = WorldError("key sk-123 is wrong", ErrorClass.AUTH, phase=Phase.NOTHING_SENT)
    rt = Runtime("$1", observable=False)
    async with served(router(ScriptedModel(broken), rt)) as port:
        status, reply = await asked(port, {"prompt": "x"})
        assert (status, reply["error"]["code"]) == (502, "model_failed")
        assert "sk-123" not in json.dumps(reply)
