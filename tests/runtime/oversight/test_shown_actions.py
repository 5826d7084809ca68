"""What a person is shown is what runs: 500 hostile actions, byte for byte, on each screen.

Each action is asked about by a real runtime, looked at in `vega interrupts`, over MCP and at the
terminal of the program, approved there, and compared with what its tool was then called with.
"""

import asyncio
import fcntl
import json
import os
import pty
import struct
import sys
import termios
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tests.runtime.oversight import actions
from tests.runtime.oversight.actions import SECRETS, call_in, taken_back, unescaped
from tests.typist import type_when_asked
from vegakit.cli import interrupts
from vegakit.cli.programs.people import PeopleHere
from vegakit.conversation import ModelRequest, ToolMessage, ToolSpec
from vegakit.money import dollars
from vegakit.policy import InterruptKind
from vegakit.program import AskPerson, Heard, Later, Respond, Told
from vegakit.records import canonical
from vegakit.runtime import Agent, Question, Reducer, Runtime
from vegakit.runtime.viewing import ViewServer
from vegakit.serving import Charter, Desk
from vegakit.serving.server import server_of
from vegakit.testing import ScriptedModel

COUNT = 500
WIDTHS = (40, 80, 133)
NAME = 'buyer: pay {"amount":1} does {"type":"Use"}: nothing'
"""Of an agent that looks like a whole question."""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pty")


class Takes:
    """A tool that takes anything, and remembers its bytes."""

    repeatable, timeout_ms = False, 60_000
    spec = ToolSpec("deploy", "Deploys.", {"type": "object"})

    def __init__(self) -> None:
        self.taken: list[bytes] = []

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        self.taken.append(canonical(arguments))
        return "deployed"


def asks(state: Any, message: Any) -> tuple[Any, list[Any]]:
    """Asks leave in the words that it is told, and answers with what it was allowed."""
    if isinstance(message, Heard):
        allowed = isinstance(message.outcome, Told) and message.outcome.value is True
        return state, [Respond(state if allowed else None, to="leave")]
    return message, [Later("leave"), AskPerson(message, "leave", InterruptKind.CONFIRMATION)]


def calls(request: ModelRequest) -> Any:
    last: Any = request.messages[-1]
    if isinstance(last, ToolMessage):
        return "done"
    return {"calls": [{"name": "deploy", "arguments": WANTED[int(last.parts[0].text)]}]}


WANTED: dict[int, dict[str, Any]] = {}


@dataclass
class Screens:
    """Where one question is looked at."""

    runtime: Runtime
    tool: Takes
    sockets: Path
    client: Client
    terminal: int
    asked: "asyncio.Queue[Question]" = field(default_factory=asyncio.Queue[Question])

    async def approve(self, width: int) -> dict[str, str]:
        """What each screen showed of the only question, before it was approved at the terminal."""
        question = await self.asked.get()
        shown = {"listener": question.text}
        [shown["interrupts"]] = taken_back((await self._vega()).removesuffix("\n"))
        narrow = interrupts.render_questions([question], 0, width=width, ascii_only=True)
        assert narrow.isascii()
        [shown["without Unicode"]] = taken_back(narrow, width)
        told = await self.client.call_tool("interrupts", {})
        [part] = told.content
        [shown["mcp"]] = taken_back(part.text)
        assert told.structured_content is not None
        [row] = told.structured_content["questions"]
        shown["mcp page"] = row["text"]
        shown["json"] = json.loads(await self._vega("--json"))[0]["text"]
        size = struct.pack("HHHH", 24, width, 0, 0)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, size)
        PeopleHere(self.runtime).ask(question)
        screen = await asyncio.to_thread(type_when_asked, self.terminal, "y")
        [shown["terminal"]] = taken_back(screen, width)
        return shown

    async def _vega(self, *words: str) -> str:
        with redirect_stdout(StringIO()) as out:
            await asyncio.to_thread(interrupts.run, ["--at", str(self.sockets), *words])
        return out.getvalue()


@asynccontextmanager
async def screens(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Screens]:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    ours, theirs = pty.openpty()
    view = ViewServer(folder)
    with os.fdopen(theirs, "r", closefd=False) as typed, os.fdopen(theirs, "w") as screen:
        monkeypatch.setattr(sys, "stdin", typed)
        monkeypatch.setattr(sys, "stderr", screen)
        async with Runtime(mode="ask", view=view) as rt:
            desk = Desk(rt, Charter(folder, dollars("$1")))
            gone = await desk.runs.open()
            async with Client(server_of(desk)) as client:
                assert view.path is not None
                made = Screens(rt, Takes(), view.path, client, ours)
                rt.on(Question, made.asked.put_nowait)
                yield made
            gone.cancel()
        monkeypatch.undo()
    os.close(ours)


async def carried_out(place: Screens, seeds: range) -> int:
    """Every fifth is a question in words of a program, the others are calls of a tool."""
    model = ScriptedModel(calls)
    agent = place.runtime.spawn(Agent(NAME, model=model, tools=[place.tool]), name="agent")
    clerk = place.runtime.spawn(Reducer("clerk", asks, ""))
    for seed in seeds:
        width = WIDTHS[seed % len(WIDTHS)]
        if seed % 5 == 4:
            words = actions.words(seed)
            waiting = clerk.send(words)
            shown = await place.approve(width)
            assert await waiting == words
            for screen, text in shown.items():
                assert unescaped(text) == words, f"{seed} {screen}"
            continue
        WANTED[seed] = actions.arguments(seed)
        waiting = agent.send(str(seed))
        shown = await place.approve(width)
        await waiting
        for screen, text in shown.items():
            who, tool, given = call_in(text)
            assert (who, tool) == (NAME, "deploy")
            assert canonical(given) == place.tool.taken[-1], f"{seed} {screen}"
    assert len(place.tool.taken) == sum(seed % 5 != 4 for seed in seeds)
    return len(seeds)


async def test_what_is_shown_is_what_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On every screen, whole, and nothing on it can be taken for another question."""
    async with screens(tmp_path, monkeypatch) as place:
        assert await carried_out(place, range(COUNT)) == COUNT
