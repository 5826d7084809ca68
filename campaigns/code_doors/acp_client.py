"""The official client of the Agent Client Protocol as an editor, and its schema as the judge of
every message that we send.
"""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import acp
from acp import schema
from acp.connection import StreamDirection, StreamEvent
from pydantic import BaseModel, TypeAdapter, ValidationError

__all__ = ["Editor", "editor", "schema_faults"]

_REQUESTS: Mapping[str, type[BaseModel]] = {
    "session/request_permission": schema.RequestPermissionRequest,
    "session/update": schema.SessionNotification,
    "elicitation/create": schema.CreateFormSessionElicitationRequest,
    "$/cancel_request": schema.CancelRequestNotification,
}
_RESULTS: Mapping[str, type[BaseModel]] = {
    "initialize": schema.InitializeResponse,
    "session/new": schema.NewSessionResponse,
    "session/load": schema.LoadSessionResponse,
    "session/resume": schema.ResumeSessionResponse,
    "session/list": schema.ListSessionsResponse,
    "session/set_mode": schema.SetSessionModeResponse,
    "session/set_config_option": schema.SetSessionConfigOptionResponse,
    "session/prompt": schema.PromptResponse,
    "session/close": schema.CloseSessionResponse,
    "session/delete": schema.DeleteSessionResponse,
}


class Editor:
    """Keeps what it is told. `choose` says which option of a question is taken; None is none."""

    def __init__(self, choose: Callable[[dict[str, Any]], str | None]) -> None:
        self.choose = choose
        self.messages: list[dict[str, Any]] = []
        """All that we sent, as it came."""
        self.asked: list[dict[str, Any]] = []
        self.methods: dict[Any, str] = {}
        self.words = "an answer"
        self.on_update: Callable[[dict[str, Any]], None] = lambda _: None
        self.process: Any = None
        self.agent: Any = None

    def observe(self, event: StreamEvent) -> None:
        message = event.message
        if event.direction is StreamDirection.INCOMING:
            self.messages.append(message)
            if message.get("method") == "session/update":
                self.on_update(message["params"]["update"])
        elif "method" in message and "id" in message:
            self.methods[message["id"]] = message["method"]

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        del session_id, update, kwargs

    async def request_permission(
        self, session_id: str, tool_call: Any, options: Any, **kwargs: Any
    ) -> schema.RequestPermissionResponse:
        del session_id, kwargs
        asked = {
            "call": tool_call.model_dump(by_alias=True, exclude_none=True),
            "options": [one.option_id for one in options],
        }
        self.asked.append(asked)
        chosen = self.choose(asked)
        if chosen is None:
            await asyncio.get_running_loop().create_future()
        outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen or "")
        return schema.RequestPermissionResponse(outcome=outcome)

    async def create_elicitation(self, message: str, mode: Any, **kwargs: Any) -> Any:
        del mode, kwargs
        self.asked.append({"message": message})
        return schema.AcceptElicitationResponse(action="accept", content={"answer": self.words})

    # What it says.

    async def call(self, method: str, params: dict[str, Any]) -> Any:
        """Send a request of any kind, and return its result."""
        return await self.agent._conn.send_request(method, params)  # noqa: SLF001

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        await self.agent._conn.send_notification(method, params)  # noqa: SLF001

    async def begin(self) -> dict[str, Any]:
        able: dict[str, Any] = {"elicitation": {"form": {}}}
        return await self.call("initialize", {"protocolVersion": 1, "clientCapabilities": able})

    async def new(self, folder: Path) -> str:
        made = await self.call("session/new", {"cwd": str(folder), "mcpServers": []})
        return made["sessionId"]

    async def prompt(self, session: str, text: str) -> dict[str, Any]:
        block = {"type": "text", "text": text}
        return await self.call("session/prompt", {"sessionId": session, "prompt": [block]})

    @property
    def updates(self) -> list[dict[str, Any]]:
        return [
            message["params"]["update"]
            for message in self.messages
            if message.get("method") == "session/update"
        ]

    def kinds(self, kind: str) -> list[dict[str, Any]]:
        return [update for update in self.updates if update["sessionUpdate"] == kind]


@asynccontextmanager
async def editor(
    folder: Path,
    environment: Mapping[str, str],
    *options: str,
    choose: Callable[[dict[str, Any]], str | None] = lambda _: "allow_once",
) -> AsyncGenerator[Editor]:
    """An editor that has started `vega code --acp` in a folder."""
    client = Editor(choose)
    words = ("-m", "vegakit", "code", "--acp", *options)
    # It asks for nothing of the editor's files and terminals, so the editor has none.
    async with acp.spawn_agent_process(
        cast("acp.Client", client),
        sys.executable,
        *words,
        cwd=folder,
        env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        transport_kwargs={"limit": 64 << 20, "stderr": None},
        observers=[client.observe],
    ) as (agent, process):
        client.agent, client.process = agent, process
        yield client


def schema_faults(client: Editor) -> list[str]:
    """Return what the schema of the official package refuses, or does not know, of what we sent."""
    return [fault for message in client.messages if (fault := _fault(message, client.methods))]


def _fault(message: dict[str, Any], methods: Mapping[Any, str]) -> str:
    if message.get("jsonrpc") != "2.0":
        return f"no JSON-RPC: {message}"
    if "method" in message:
        return _against(_REQUESTS.get(message["method"]), message["params"], message["method"])
    method = methods.get(message.get("id"), "")
    if "error" in message:
        return _against(schema.Error, message["error"], f"error of {method}")
    return _against(_RESULTS.get(method), message["result"], method)


def _against(kind: type[BaseModel] | None, value: Any, name: str) -> str:
    if kind is None:
        return f"{name} is not known"
    try:
        read = TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        return f"{name}: {error}"
    # What the schema does not know would be dropped here.
    written = read.model_dump(by_alias=True, exclude_unset=True, mode="json")
    return "" if written == value else f"{name}: {value} is read as {written}"
