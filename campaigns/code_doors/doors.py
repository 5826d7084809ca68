"""One scripted session through every door of the coding agent, as clients use them.

A door gives the events of each prompt in the one vocabulary of `vegakit.sage.events`, read from
what its protocol says. A new door is one class and a row of `DOORS`.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any, Self

import httpx
from mcp import Client, StdioServerParameters
from mcp_types import ElicitResult
from tests.patience import until
from tests.sage.scene import Scene, calls
from textual.pilot import Pilot

from campaigns.code_doors.acp_client import Editor, editor
from vegakit.cli.look import Sign
from vegakit.cli.terminal.app import CodeApp
from vegakit.cli.terminal.state import ChatItem, EndItem, TextItem, ToolItem, ToolState
from vegakit.money import to_usd
from vegakit.sage import SageAgent, SageEnd, event_line, prompted
from vegakit.testing import ProviderReply, ProviderRequest

__all__ = [
    "DOORS",
    "PROMPTS",
    "SLEEP",
    "AcpDoor",
    "Door",
    "Event",
    "JsonDoor",
    "McpDoor",
    "differences",
    "normalised",
    "script",
]

Event = dict[str, Any]
Heard = Callable[[Event], None]
SESSION = "doors"
PROMPTS = ("Write the notes.", "What did you do?")
LONGEST_S = 60.0
SLEEP = f"sleep 31.{os.getpid()}"
"""A command that nobody else runs."""


def script(request: ProviderRequest) -> ProviderReply:
    """What the model answers: by how much of the turn was done."""
    if request.text.endswith("Sleep."):
        return calls(("shell", {"command": SLEEP}), text="I wait.")
    if request.text.endswith(PROMPTS[1]):
        return ProviderReply("I wrote notes.txt, and a line of effects.txt.")
    match request.tool_results:
        case 0:
            steps = [{"text": "write", "done": False}, {"text": "check", "done": False}]
            return calls(("todo", {"items": steps}), text="First a plan.")
        case 1:
            return calls(
                ("write", {"path": "notes.txt", "content": "one\ntwo\n"}),
                ("shell", {"command": "echo done >> effects.txt"}),
            )
        case 3:
            return calls(("edit", {"path": "notes.txt", "old": "two", "new": "three"}))
        case 4:
            return calls(("read", {"path": "missing.txt"}))
        case 5:
            return calls(("apply_patch", {"patch": _PATCH}), text="It is missing.")
        case _:
            return ProviderReply("The notes are written.")


_PATCH = """*** Begin Patch
*** Update File: notes.txt
@@
 one
-three
+four
*** End Patch
"""


class Door:
    """A client of one door, in the folder of a scene, in one session."""

    def __init__(self, scene: Scene, mode: str = "auto") -> None:
        self.scene, self.mode = scene, mode
        self.session = ""
        self.asked: list[str] = []
        """Questions as they were shown; each is answered with yes."""
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self._open.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        with suppress(Exception):
            await self._open.aclose()

    async def start(self) -> None:
        """Start what serves it, if anything does, and begin the session or take it up."""

    async def prompt(self, text: str | None, heard: Heard = lambda _: None) -> list[Event]:
        """Return the events of a prompt, or of going on with the last one; `heard` is called with
        each as it comes."""
        raise NotImplementedError

    async def cancel(self) -> None:
        """Stop the turn that runs."""
        raise NotImplementedError

    @property
    def pid(self) -> int:
        """The process behind the door."""
        raise NotImplementedError

    async def kill(self) -> None:
        """End the process behind the door as `kill -9` does, and leave."""
        os.kill(self.pid, signal.SIGKILL)
        with suppress(Exception):
            await self._open.aclose()
        self._open = AsyncExitStack()


class JsonDoor(Door):
    """`vega code --json`, a process for each prompt."""

    process: "asyncio.subprocess.Process | None" = None
    form: tuple[str, ...] = ("--json",)

    async def prompt(self, text: str | None, heard: Heard = lambda _: None) -> list[Event]:
        said = [] if text is None else ["-p", text]
        which = ["--resume", SESSION] if self.session else ["--session", SESSION]
        self.session = SESSION
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "vegakit", "code", "--mode", self.mode),
            *(*said, *which, *self.form),
            cwd=self.scene.folder,
            env=self.scene.environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=16 << 20,
        )
        return await self._read(self.process, heard)

    async def _read(self, process: "asyncio.subprocess.Process", heard: Heard) -> list[Event]:
        events: list[Event] = []
        assert process.stdout is not None
        async for line in process.stdout:
            events.append(json.loads(line))
            heard(events[-1])
        await process.communicate()
        return events

    async def cancel(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid


class PrintDoor(JsonDoor):
    """`vega code -p` for people: what it prints has the calls and the answer, and no more."""

    form = ()

    async def _read(self, process: "asyncio.subprocess.Process", heard: Heard) -> list[Event]:
        out, err = await process.communicate()
        began = (line.split() for line in err.decode().splitlines())
        names = [words[1] for words in began if words[:1] == [str(Sign.WORKING)]]
        events: list[Event] = [{"type": "tool_began", "name": name} for name in names]
        text = out.decode().removesuffix("\n")
        return [*events, {"type": "end", "reason": "done", "text": text}]


class SdkDoor(Door):
    """`SageAgent` in this process."""

    async def prompt(self, text: str | None, heard: Heard = lambda _: None) -> list[Event]:
        which: dict[str, Any] = {"resume": SESSION} if self.session else {"session": SESSION}
        self.session = SESSION
        events: list[Event] = []
        with self.scene.inside():
            async with SageAgent(self.scene.folder, mode=self.mode, **which) as sage:
                events.append(json.loads(event_line(await sage.opened())))
                async for event in prompted(sage, text):
                    events.append(json.loads(event_line(event)))
                    heard(events[-1])
        return events


class AcpDoor(Door):
    """`vega code --acp`, by the official client."""

    client: Editor

    async def start(self) -> None:
        self.client = await self._open.enter_async_context(
            editor(
                self.scene.folder,
                self.scene.environment,
                "--mode",
                self.mode,
                choose=self._choose,
            )
        )
        await self.client.begin()
        if self.session:
            where: dict[str, Any] = {"cwd": str(self.scene.folder), "mcpServers": []}
            await self.client.call("session/load", {"sessionId": self.session, **where})
        else:
            self.session = await self.client.new(self.scene.folder)

    def _choose(self, asked: Mapping[str, Any]) -> str:
        self.asked.append(asked["call"]["content"][0]["content"]["text"])
        return "allow_once"

    async def prompt(self, text: str | None, heard: Heard = lambda _: None) -> list[Event]:
        events: list[Event] = []

        def told(update: Mapping[str, Any]) -> None:
            for event in _from_update(update):
                events.append(event)
                heard(event)

        self.client.on_update = told
        try:
            answer = await self.client.prompt(self.session, text or "/continue")
        except ConnectionError:
            return events
        return [*events, answer["_meta"]["vega"]]

    async def cancel(self) -> None:
        await self.client.notify("session/cancel", {"sessionId": self.session})

    @property
    def pid(self) -> int:
        return self.client.process.pid


def _from_update(update: Mapping[str, Any]) -> list[Event]:
    """Read an update back into the event that it tells, from the fields of the protocol."""
    told: dict[str, Any] = update.get("_meta") or {}
    meta: dict[str, Any] = told.get("vega") or {}
    match update["sessionUpdate"]:
        case "agent_message_chunk":
            return [{"type": "text", "text": update["content"]["text"], "task": ""}]
        case "agent_thought_chunk":
            return [meta] if meta else []
        case "tool_call":
            return [
                {
                    "type": "tool_began",
                    "id": update["toolCallId"],
                    "name": meta["tool"],
                    "arguments": update["rawInput"],
                    "task": meta["task"],
                }
            ]
        case "tool_call_update":
            return [
                {
                    "type": "tool_ended",
                    "id": update["toolCallId"],
                    "name": meta["tool"],
                    "result": update["rawOutput"],
                    "is_error": update["status"] == "failed",
                    "task": meta["task"],
                }
            ]
        case "usage_update":
            return [{"type": "cost", "spent_usd": update["cost"]["amount"]}]
        case _:
            return []


class McpDoor(Door):
    """`vega code --mcp`, by the official client."""

    client: Client
    calling: "asyncio.Task[Any] | None" = None

    async def start(self) -> None:
        words = ["-m", "vegakit", "code", "--mcp", "--mode", self.mode]
        place = StdioServerParameters(
            command=sys.executable,
            args=words,
            env={**self.scene.environment, "PYTHONPATH": os.pathsep.join(sys.path)},
            cwd=self.scene.folder,
        )
        self.before = _children()
        made = Client(place, elicitation_callback=self._answer)
        self.client = await self._open.enter_async_context(made)
        await self.find_session()

    async def find_session(self) -> None:
        """Know the session, also if the call that began it never returned."""
        page: Any = (await self.client.call_tool("list_sessions", {})).structured_content
        self.session = page["sessions"][0]["run"] if page["sessions"] else ""

    async def _answer(self, context: Any, params: Any) -> ElicitResult:
        del context
        self.asked.append(params.message)
        return ElicitResult(action="accept", content={"approve": True})

    async def prompt(self, text: str | None, heard: Heard = lambda _: None) -> list[Event]:
        given: dict[str, Any] = {"events": True, "prompt": text or "", "session": self.session}

        async def tell(progress: float, total: float | None, message: str | None) -> None:
            del progress, total
            heard({"type": "progress", "text": message})

        self.calling = asyncio.ensure_future(
            self.client.call_tool("code", given, progress_callback=tell)
        )
        try:
            result = await self.calling
        except asyncio.CancelledError:
            return []
        except Exception:  # noqa: BLE001  (the process behind it was killed)
            return []
        page: Any = result.structured_content
        assert page is not None, result.content
        self.session = page["run"]
        return page["events"]

    async def cancel(self) -> None:
        assert self.calling is not None
        self.calling.cancel()

    @property
    def pid(self) -> int:
        (mine,) = _children() - self.before
        return mine


def _children() -> set[int]:
    """The processes that this one has started."""
    listed = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(os.getpid())],
        capture_output=True,
        text=True,
        check=False,
    )
    rows = (line.split(maxsplit=1) for line in listed.stdout.splitlines())
    return {int(pid) for pid, args in rows if "--mcp" in args}


class HttpDoor(Door):
    """`vega serve --code`, over HTTP with server-sent events."""

    process: "asyncio.subprocess.Process"
    token = ""
    after = 0

    async def start(self) -> None:
        folder = self.scene.folder
        if not self.token:
            words = ("create", "--tenant", "acme", "--user", "ann", "--role", "operator")
            made = await asyncio.to_thread(self.scene.here, *words, command="token")
            self.token = made.stdout.strip()
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "vegakit", "serve", "--port", "0"),
            *("--code", f"acme={folder}", "--code-budget", "$10", "--code-mode", "auto"),
            cwd=folder.parent,
            env=self.scene.environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        self._open.push_async_callback(self._end)
        url = await self._url()
        self.web = await self._open.enter_async_context(
            httpx.AsyncClient(
                base_url=f"{url}/v1/",
                headers={"Authorization": f"Bearer {self.token}"},
                timeout=LONGEST_S,
                trust_env=False,
            )
        )
        if not self.session:
            began = await self.call("begin_code_session", name=SESSION, mode=self.mode)
            self.session = began["run"]

    async def _url(self) -> str:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            if b"serving the kernel at " in line:
                return line.split()[-1].decode()
        raise RuntimeError("the server did not start")

    async def _end(self) -> None:
        with suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()

    async def call(self, row: str, **fields: Any) -> Any:
        reply = await self.web.post(row, json=fields)
        if reply.is_error:
            raise RuntimeError(f"{row}: {reply.status_code} {reply.text}")
        return reply.json()

    async def prompt(self, text: str | None, heard: Heard = lambda _: None) -> list[Event]:
        began = await self.call("prompt_code_session", session=self.session, prompt=text or "")
        self.after = began["after"]
        events: list[Event] = []
        try:
            await self._listen(events, heard)
        except httpx.HTTPError:
            return events
        return events

    async def _listen(self, events: list[Event], heard: Heard) -> None:
        wanted = {"session": self.session, "after": self.after}
        async with self.web.stream("POST", "stream_code_events", json=wanted) as stream:
            number = 0
            async for line in stream.aiter_lines():
                field, _, value = line.partition(": ")
                if field == "id":
                    number = int(value)
                elif field == "data":
                    assert number == self.after + 1, (number, self.after)
                    self.after, event = number, json.loads(value)["event"]
                    if event["type"] == "question":
                        await self._answer(event)
                        continue
                    events.append(event)
                    heard(event)

    async def _answer(self, event: Event) -> None:
        self.asked.append(event["text"])
        key = event["id"]
        await self.call("answer_code_question", session=self.session, question=key, answer=True)

    async def cancel(self) -> None:
        await self.call("cancel_code_turn", session=self.session)

    @property
    def pid(self) -> int:
        return self.process.pid


class TerminalDoor(Door):
    """The screen of `vega code`, by keys; what it tells is read from what stands in its chat."""

    app: CodeApp
    pilot: Pilot[str]

    async def start(self) -> None:
        self._open.enter_context(self.scene.inside())
        self.app = CodeApp(self.scene.folder, {"mode": self.mode, "session": SESSION})
        self.pilot = await self._open.enter_async_context(self.app.run_test(size=(100, 30)))
        self._open.push_async_callback(self.app.driver.close)
        await until(lambda: bool(self.app.state.run))

    async def prompt(self, text: str | None, heard: Heard = lambda _: None) -> list[Event]:
        known = len(self.app.state.items)
        self.app.prompt.insert(text or "/continue")
        await self.pilot.press("enter")
        await until(lambda: any(isinstance(it, EndItem) for it in self.app.state.items[known:]))
        events = [event for item in self.app.state.items[known:] for event in _from_item(item)]
        cost = {"type": "cost", "spent_usd": float(to_usd(self.app.state.money.spent) or 0)}
        return [*events, cost]


def _from_item(item: ChatItem) -> list[Event]:
    """Read an item of the chat back into the events that it shows."""
    match item:
        case TextItem(text=text):
            return [{"type": "text", "text": text, "task": ""}]
        case ToolItem(id=key, name=name):
            call = {"id": key, "name": name, "task": ""}
            failed = item.state is not ToolState.DONE
            return [
                {"type": "tool_began", **call, "arguments": item.arguments},
                {"type": "tool_ended", **call, "result": item.result, "is_error": failed},
            ]
        case EndItem(end=SageEnd() as end):
            return [json.loads(event_line(end))]
        case _:
            return []


DOORS: Mapping[str, type[Door]] = {
    "terminal": TerminalDoor,
    "print": PrintDoor,
    "JSON": JsonDoor,
    "SDK": SdkDoor,
    "ACP": AcpDoor,
    "MCP": McpDoor,
    "HTTP": HttpDoor,
}


# The same session by every door.


def normalised(events: list[Event]) -> list[Event]:
    """What a session came to, without what differs from run to run: names of runs, where a text was
    cut, when money was counted, and which of the calls of one answer ended first; and without the
    marks of what nobody vouches for, which are for models and not shown to people."""
    made: list[Event] = []
    block: list[Event] = []
    for event in events:
        kind = event["type"]
        if kind in {"tool_began", "tool_ended"}:
            block.append(
                {**event, "result": _unmarked(event["result"])} if "result" in event else event
            )
            continue
        if kind in {"session", "turn", "waiting", "question", "cost"}:
            continue
        made += sorted(block, key=lambda one: (one.get("id", ""), one["type"]))
        block = []
        if kind == "text" and made and made[-1]["type"] == "text":
            made[-1] = {**made[-1], "text": made[-1]["text"] + event["text"]}
        else:
            made.append(event)
    spent = [event["spent_usd"] for event in events if event["type"] == "cost"]
    return [*made, *block, *([{"type": "cost", "spent_usd": spent[-1]}] if spent else [])]


def _unmarked(result: str) -> str:
    return result.replace("<untrusted>\n", "").replace("\n</untrusted>", "")


def differences(events: list[Event], expected: list[Event]) -> list[str]:
    """Return where what a door told differs from what another did."""
    if all(event["type"] in {"tool_began", "end"} for event in events):  # for people
        names = [one["name"] for one in events if one["type"] == "tool_began"]
        wanted = [one["name"] for one in expected if one["type"] == "tool_began"]
        ends = [(one["reason"], one["text"]) for one in (events[-1], expected[-2])]
        return [] if sorted(names) == sorted(wanted) and ends[0] == ends[1] else [f"{events}"]
    found = [
        f"{mine} instead of {other}"
        for mine, other in zip(events, expected, strict=False)
        if mine != other
    ]
    if len(events) != len(expected):
        found.append(f"{len(events)} events instead of {len(expected)}")
    return found
