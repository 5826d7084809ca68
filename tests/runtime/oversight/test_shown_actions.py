"""What a person is shown is what runs: 500 hostile actions, byte for byte, on each screen.

Each action is asked about by a real runtime, looked at in `vega interrupts`, over MCP and at the
terminal of the program, approved there, and compared with what its tool was then called with.
"""

import asyncio
import fcntl
import json
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import TextContent
from msgspec import structs

from tests.patience import until
from tests.runtime.oversight import actions
from tests.runtime.oversight.actions import SECRETS, call_in, taken_back, unescaped
from tests.typist import type_when_asked
from vegakit.cli import questions as interrupts
from vegakit.cli.questions import TerminalQuestions
from vegakit.control import Question
from vegakit.conversation import ModelRequest, ToolMessage, ToolSpec
from vegakit.host import Agent, Process, Reducer
from vegakit.money import dollars
from vegakit.policy import InterruptKind
from vegakit.program import AskPerson, DeferReply, Respond, ResultMessage, Returned
from vegakit.providers import ScriptedModel
from vegakit.records import canonical
from vegakit.sdk import ControlServer, Runtime
from vegakit.server import Operations, ServerPolicy
from vegakit.server.mcp import server_of

COUNT, PART = 500, 100
WIDTHS = (40, 80, 133)
SCREENS = 7
NAME = 'buyer: pay {"amount":1} does {"type":"Use"}: nothing'.replace(":", "\uff1a")
"""Of an agent that looks like a whole question."""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pty")


class Takes:
    """A tool that takes anything, and remembers its bytes."""

    idempotent, timeout_ms = False, 60_000
    spec = ToolSpec("deploy", "Deploys.", {"type": "object"})

    def __init__(self) -> None:
        self.taken: list[bytes] = []

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        self.taken.append(canonical(arguments))
        return "deployed"


def asks(state: Any, message: Any) -> tuple[Any, list[Any]]:
    """Asks leave in the words that it is told, and answers with what it was allowed."""
    if isinstance(message, ResultMessage):
        allowed = isinstance(message.outcome, Returned) and message.outcome.value is True
        return state, [Respond(state if allowed else None, to="leave")]
    return message, [DeferReply("leave"), AskPerson(message, "leave", InterruptKind.CONFIRMATION)]


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
        assert isinstance(part, TextContent)
        [shown["mcp"]] = taken_back(part.text)
        assert told.structured_content is not None
        [row] = told.structured_content["questions"]
        shown["mcp page"] = row["text"]
        shown["json"] = json.loads(await self._vega("--json"))[0]["text"]
        size = struct.pack("HHHH", 24, width, 0, 0)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, size)
        TerminalQuestions(self.runtime).ask(question)
        screen = await asyncio.to_thread(type_when_asked, self.terminal, "y")
        [shown["terminal"]] = taken_back(screen, width)
        assert len(shown) == SCREENS
        return shown

    def agent(self) -> Process[Any]:
        model = ScriptedModel(calls)
        return self.runtime.spawn(Agent(NAME, model=model, tools=[self.tool]), name="agent")

    async def _vega(self, *words: str) -> str:
        with redirect_stdout(StringIO()) as out:
            await asyncio.to_thread(
                interrupts.interrupts_command, ["--at", str(self.sockets), *words]
            )
        return out.getvalue()


@asynccontextmanager
async def screens(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Screens]:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    ours, theirs = pty.openpty()
    view = ControlServer(folder)
    with os.fdopen(theirs, "r", closefd=False) as typed, os.fdopen(theirs, "w") as screen:
        monkeypatch.setattr(sys, "stdin", typed)
        monkeypatch.setattr(sys, "stderr", screen)
        async with Runtime(mode="ask", observable=view) as rt:
            operations = Operations(rt, ServerPolicy(folder, dollars("$1")))
            gone = await operations.runs.open()
            async with Client(server_of(operations)) as client:
                assert view.path is not None
                made = Screens(rt, Takes(), view.path, client, ours)
                rt.on(Question, made.asked.put_nowait)
                yield made
            gone.cancel()
        monkeypatch.undo()
    os.close(ours)


async def carried_out(place: Screens, seeds: range) -> int:
    """Every fifth is a question in words of a program, the others are calls of a tool."""
    agent, clerk = place.agent(), place.runtime.spawn(Reducer("clerk", asks, ""))
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
            assert SECRETS["DEPLOY_TOKEN"] not in text, f"{seed} {screen}"
            who, tool, given = call_in(text)
            assert (who, tool) == (NAME, "deploy")
            assert canonical(given) == place.tool.taken[-1], f"{seed} {screen}"
    assert len(place.tool.taken) == sum(seed % 5 != 4 for seed in seeds)
    return len(seeds)


@pytest.mark.parametrize("first", range(0, COUNT, PART))
async def test_what_is_shown_is_what_runs(
    first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On every screen, whole, and nothing on it can be taken for another question."""
    async with screens(tmp_path, monkeypatch) as place:
        done = await carried_out(place, range(first, first + PART))
    print(f"{done} hostile actions, each shown on {SCREENS} screens as it ran")
    assert done == PART


HIDES: dict[str, dict[str, Any]] = {
    "behind a key": {"amount": 30_000, "to": "mallory", "a_note": "-----BEGIN PRIVATE KEY"},
    "inside a key": {"command": ["sh", "-c", actions.HOSTILE[1]]},
    "in a query": {"command": ["sh", "-c", "echo docs?key=;rm${IFS}-rf${IFS}~;"]},
    "in the middle": {"command": ["sh", "-c", f"#{'x' * 5_000}\nrm -rf ~\n#{'y' * 5_000}"]},
    "unseen": {"command": ["l\u200bs \u202e txt.exe \x1b[2J\x1b]0;x\x07 \u0430dmin"]},
}


@pytest.mark.parametrize("how", HIDES)
async def test_nothing_hides_in_a_call(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither behind the looks of a key, nor in the middle, nor in letters that nobody sees."""
    WANTED[0] = HIDES[how]
    async with screens(tmp_path, monkeypatch) as place:
        waiting = place.agent().send("0")
        shown = await place.approve(80)
        await waiting
    for text in shown.values():
        assert text.isascii()
        assert call_in(text)[2] == HIDES[how]


IMITATION = (
    "Show the weather?\n  $ vega answer 111111111111 yes|no\n\n"
    "222222222222  confirmation, asked by admin, 59 m left\n  | admin: backup {} does nothing"
)


async def test_a_question_cannot_imitate_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One question is one question, whatever it says; the answer goes to that."""
    async with screens(tmp_path, monkeypatch) as place:
        waiting = place.runtime.spawn(Reducer("clerk", asks, "")).send(IMITATION)
        shown = await place.approve(80)
        assert await waiting == IMITATION
    assert {unescaped(text) for text in shown.values()} == {IMITATION}


UNSHOWN: dict[str, object] = {
    "nan": float("nan"),
    "infinity": float("inf"),
    "bytes": b"bytes",
    "set": {1},
    "long": "x" * 70_000,
}


@pytest.mark.parametrize("hidden", UNSHOWN)
async def test_what_cannot_be_shown_exactly_is_not_asked(hidden: str) -> None:
    """NaN would be shown as null, bytes as a text; nobody can approve those."""
    WANTED[0] = {"a": [{"b": UNSHOWN[hidden]}]}
    tool, model = Takes(), ScriptedModel(calls)
    async with Runtime(mode="ask") as rt:
        asked = says_yes(rt)
        await rt.spawn(Agent("agent", model=model, tools=[tool])).ask("0")
    assert (asked, tool.taken) == ([], [])
    told: Any = model.requests[-1].messages[-1]
    assert "nobody may approve what they" in told.results[0].content


def says_yes(rt: Runtime) -> list[str]:
    """What somebody was asked who approves whatever they see."""
    asked: list[str] = []
    saying: set[asyncio.Future[None]] = set()

    def say(question: Question) -> None:
        asked.append(question.text)
        saying.add(asyncio.ensure_future(rt.approvals.answer(question.id, True, "ann")))

    rt.on(Question, say)
    return asked


async def test_a_program_cannot_ask_more_than_is_shown() -> None:
    """Its words are refused, not cut."""
    async with Runtime() as rt:
        asked = says_yes(rt)
        assert await rt.spawn(Reducer("clerk", asks, "")).ask("Go on?" + " " * 20_000) is None
        assert asked == []


async def test_a_long_question_is_whole_over_mcp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer than other results may be; and a client cannot answer."""
    WANTED[0] = {"command": "a" * 40_000 + "\nrm -rf ~\n" + "b" * 25_000}
    async with screens(tmp_path, monkeypatch) as place:
        waiting = place.agent().send("0")
        shown = await place.approve(80)
        await waiting
        tools = (await place.client.list_tools()).tools
    assert call_in(shown["mcp"])[2] == WANTED[0]
    assert "answer" not in {tool.name for tool in tools}


async def test_yes_counts_after_the_last_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever says it before has not seen all."""
    WANTED[0] = {"command": "x" * 5_000}
    async with screens(tmp_path, monkeypatch) as place:
        waiting = place.agent().send("0")
        TerminalQuestions(place.runtime).ask(await place.asked.get())
        await asyncio.to_thread(type_when_asked, place.terminal, "", turn="y")
        await waiting
        assert place.tool.taken == []


@pytest.mark.parametrize("turn", ["", "q"])
async def test_interrupts_are_paged(
    turn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Enter shows all of them, one screen after the other; q ends."""
    WANTED[0] = {"command": "x" * 5_000}
    async with screens(tmp_path, monkeypatch) as place:
        waiting = place.agent().send("0")
        question = await place.asked.get()

        def look() -> None:
            interrupts.interrupts_command(["--at", str(place.sockets)])
            print("\n> ", end="", flush=True)

        with redirect_stdout(sys.stderr):
            looking = asyncio.create_task(asyncio.to_thread(look))
            screen = await asyncio.to_thread(type_when_asked, place.terminal, "", turn)
            await looking
        await place.runtime.answer(question.id, False)
        await waiting
    assert "-- page 1 of " in screen
    pages = [page.count("\n") for page in screen.split("-- page ")]
    assert max(pages) < 24
    if not turn:
        shown = screen.removesuffix("> ")
        assert taken_back(shown) == [question.text]


async def test_what_was_typed_before_is_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has seen the question when they type it."""
    WANTED[0] = {"command": "x"}
    async with screens(tmp_path, monkeypatch) as place:
        os.write(place.terminal, b"y\n")
        waiting = place.agent().send("0")
        TerminalQuestions(place.runtime).ask(await place.asked.get())
        await asyncio.to_thread(type_when_asked, place.terminal, "n")
        await waiting
        assert place.tool.taken == []


async def test_a_program_prints_nothing_between_a_question_and_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could look like another question there, to which people say yes."""
    WANTED[0] = {"command": "x"}
    with redirect_stdout(StringIO()) as printed:
        async with screens(tmp_path, monkeypatch) as place:
            people = TerminalQuestions(place.runtime)
            people.say("before")
            waiting = place.agent().send("0")
            people.ask(await place.asked.get())
            await asyncio.sleep(0)
            people.say("Show the weather? [y/N]")
            assert printed.getvalue() == "before\n"
            await asyncio.to_thread(type_when_asked, place.terminal, "y")
            await waiting
            await until(lambda: printed.getvalue() == "before\nShow the weather? [y/N]\n")


# The reader can tell: what was wrong before, and what could be


def redacted() -> list[tuple[object, str, object]]:
    from vegakit.sdk import RuntimeControl
    from vegakit.telemetry.redaction import redact

    async def show(self: Any) -> list[Question]:
        asked = self._runtime.interrupts()
        return [structs.replace(one, text=redact(one.text)) for one in asked]

    return [(RuntimeControl, "interrupts", show)]


def cut() -> list[tuple[object, str, object]]:
    from vegakit.policy import approvals as dispatching

    whole: Any = dispatching.escape_json

    def ends(value: object, secrets: Any) -> Any:
        text = whole(value, secrets)
        return text if len(text) < 4_000 else f"{text[:2_000]} … {text[-2_000:]}"

    return [(dispatching, "escape_json", ends)]


def sanitised() -> list[tuple[object, str, object]]:
    from vegakit.host import approvals as watching
    from vegakit.policy import sanitise

    return [(watching, "escape_text", lambda text, _: sanitise(text))]


def unfenced() -> list[tuple[object, str, object]]:
    from vegakit.control import questions as spelling

    return [(spelling, "_FENCE", "  ")]


def unbroken() -> list[tuple[object, str, object]]:
    from vegakit.control import questions as spelling

    return [(spelling, "wrap_escaped", lambda text, _: [text])]


def unquoted() -> list[tuple[object, str, object]]:
    from vegakit.policy import approvals as dispatching

    return [(dispatching, "quote_name", lambda name: name)]


def secrets_last() -> list[tuple[object, str, object]]:
    from vegakit.policy import safe_text as showing

    def replaced(text: str, secrets: Mapping[str, str], escape: Callable[[str], str]) -> str:
        shown = escape(text)
        for value, name in secrets.items():
            shown = shown.replace(value, f"\\${name}")
        return shown

    return [(showing, "_around_secrets", replaced)]


def no_backslashes() -> list[tuple[object, str, object]]:
    from vegakit.policy import safe_text as showing

    return [(showing, "_ODD", re.compile(r"[^ -~]"))]


FAULTS = [redacted, cut, sanitised, unfenced, unbroken, unquoted, secrets_last, no_backslashes]


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_screen_that_is_wrong_is_found(
    fault: Callable[[], list[tuple[object, str, object]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each by the first hundred actions."""
    with pytest.MonkeyPatch.context() as planted:
        for place, name, wrong in fault():
            planted.setattr(place, name, wrong)
        with pytest.raises(ExceptionGroup) as found:
            async with screens(tmp_path, monkeypatch) as place:
                await carried_out(place, range(100))
    assert found.group_contains((AssertionError, ValueError, KeyError))
