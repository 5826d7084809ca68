"""What every door of the coding agent is held to, and what is measured of each."""

import asyncio
import random
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests.sage.scene import Scene, scene

from campaigns.code_doors.acp_client import Editor, schema_faults
from campaigns.code_doors.doors import (
    DOORS,
    PROMPTS,
    SLEEP,
    AcpDoor,
    Door,
    Event,
    JsonDoor,
    McpDoor,
    differences,
    normalised,
    script,
)
from vegakit.testing import Hang, ProviderAnswer, ProviderRequest

__all__ = [
    "ASKING",
    "KILLED_AT",
    "SERVING",
    "Cancelled",
    "Conformance",
    "cancel_to_silence",
    "conformance",
    "cost_faults",
    "kill_faults",
    "transcripts",
]

SERVING = ("JSON", "ACP", "MCP", "HTTP")
"""Doors with a process behind them."""
ASKING = ("ACP", "MCP", "HTTP")
"""Doors that ask a person."""
KILLED_AT = {"todo": 0, "write": 1, "edit": 3, "read": 4, "apply_patch": 5}
"""Calls at whose beginning a process is killed, by how many results the answer that made it had."""
_QUIET_S, _LONGEST_S = 0.5, 30.0


async def _by(name: str, place: Path, mode: str) -> list[list[Event]]:
    with scene(place, script) as made:
        async with DOORS[name](made, mode) as door:
            return [normalised(await door.prompt(prompt)) for prompt in PROMPTS]


async def transcripts(names: tuple[str, ...], mode: str = "auto") -> dict[str, list[str]]:
    """Return where what each door told differs from what the first did."""
    found: dict[str, list[str]] = {}
    expected: list[list[Event]] | None = None
    for name in names:
        with tempfile.TemporaryDirectory() as place:
            told = await _by(name, Path(place), mode)
        expected = expected or told
        pairs = zip(told, expected, strict=True)
        found[name] = [fault for mine, other in pairs for fault in differences(mine, other)]
    return found


# A cancel, until nothing happens any more.


class Cancelled(NamedTuple):
    """How long a cancel took to the last event, and what was wrong after it."""

    seconds: float
    faults: list[str]


async def cancel_to_silence(name: str) -> Cancelled:
    """Cancel a turn whose command sleeps; then nothing may happen, and the next prompt is a turn of
    its own."""
    with tempfile.TemporaryDirectory() as place, scene(Path(place), script) as made:
        async with DOORS[name](made) as door:
            events, seconds = await _cancelled(door)
            faults = await _noise_after(door, made)
            if events and events[-1].get("reason") != "interrupted":
                faults.append(f"it ended with {events[-1]}")
            if not isinstance(door, JsonDoor):
                if isinstance(door, McpDoor):
                    await door.find_session()
                again = await door.prompt(PROMPTS[1])
                if sum(event["type"] == "end" for event in again) != 1 or "Sleep" in str(again):
                    faults.append(f"the next prompt gave {again}")
            return Cancelled(seconds, faults)


async def _cancelled(door: Door) -> tuple[list[Event], float]:
    begun = asyncio.Event()

    def heard(event: Event) -> None:
        if _is_call(event, "shell"):
            begun.set()

    turn = asyncio.ensure_future(door.prompt("Sleep.", heard))
    await begun.wait()
    await _until(lambda: _runs(SLEEP))
    started = time.perf_counter()
    await door.cancel()
    events = await turn
    await _until(lambda: not _runs(SLEEP))
    return events, time.perf_counter() - started


async def _noise_after(door: Door, made: Scene) -> list[str]:
    faults: list[str] = []
    requests = len(made.provider.requests)
    told = len(door.client.messages) if isinstance(door, AcpDoor) else 0
    await asyncio.sleep(_QUIET_S)
    if len(made.provider.requests) != requests:
        faults.append("a model was asked after it")
    if isinstance(door, AcpDoor) and len(door.client.messages) != told:
        faults.append(f"told after it: {door.client.messages[told:]}")
    return faults


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(_LONGEST_S):
        while not await asyncio.to_thread(holds):  # noqa: ASYNC110  (of other processes)
            await asyncio.sleep(0.02)


def _runs(command: str) -> bool:
    listed = subprocess.run(["ps", "-eo", "args="], capture_output=True, text=True, check=False)
    return any(line.strip() == command for line in listed.stdout.splitlines())


def _is_call(event: Event, name: str) -> bool:
    if event["type"] == "progress":
        return str(event["text"]).split(maxsplit=1)[:1] == [name]
    return event["type"] == "tool_began" and event["name"] == name


# `kill -9` of the process behind a door.


async def kill_faults(name: str, at: str) -> list[str]:
    """Kill it when a call has begun, start it again and go on; return what was lost or bought
    twice. Until the kill the next answer does not come, so the turn cannot end before it."""
    killed = threading.Event()

    def hanging(request: ProviderRequest) -> ProviderAnswer:
        if request.tool_results > KILLED_AT[at] and not killed.is_set():
            return Hang()
        return script(request)

    with tempfile.TemporaryDirectory() as place, scene(Path(place), hanging) as made:
        door = DOORS[name](made)
        await door.start()
        await _killed(door, at)
        killed.set()
        last = made.provider.requests[-1].tool_results
        await door.start()
        try:
            events = await door.prompt(None)
        finally:
            with suppress(Exception):
                await door.__aexit__()
        # An answer that was on its way at the kill is asked for again; those before it are not.
        return _kill_faults(made, events, last if last > KILLED_AT[at] else None)


async def _killed(door: Door, at: str) -> None:
    begun = asyncio.Event()

    def heard(event: Event) -> None:
        if _is_call(event, at):
            begun.set()

    turn = asyncio.ensure_future(door.prompt(PROMPTS[0], heard))
    await begun.wait()
    await door.kill()
    with suppress(Exception):
        await turn


def _kill_faults(made: Scene, events: list[Event], on_its_way: int | None) -> list[str]:
    faults: list[str] = []
    asked = Counter(request.tool_results for request in made.provider.requests)
    for step, times in asked.items():
        if times > 1 + (step == on_its_way):
            faults.append(f"answer {step} was bought {times} times")
    if not events or (events[-1]["type"], events[-1].get("reason")) != ("end", "done"):
        faults.append(f"it did not go on to its end: {events[-1:]}")
    effects = made.folder / "effects.txt"
    if effects.exists() and effects.read_text().count("done") > 1:
        faults.append("a command ran twice")
    return faults


# What a session cost, as the editor is told, as the turn says, and as the ledger has it.


async def cost_faults() -> list[str]:
    """Return where the cost of a session differs."""
    with tempfile.TemporaryDirectory() as place, scene(Path(place), script) as made:
        async with AcpDoor(made) as door:
            ends = [(await door.prompt(prompt))[-1]["spent_usd"] for prompt in PROMPTS]
            told = [one["cost"]["amount"] for one in door.client.kinds("usage_update")]
            listed = await door.client.call("session/list", {"cwd": str(made.folder)})
        kept = listed["sessions"][0]["_meta"]["vega"]["spent_usd"]
        figures = {"the last update": told[-1], "the turn": ends[-1], "the ledger": kept}
        faults = [] if len({*figures.values()}) == 1 else [f"costs differ: {figures}"]
        if told != sorted(told):
            faults.append(f"what was spent shrinks: {told}")
        return faults


# Every message of random sessions by the schema of the official package.


class Conformance(NamedTuple):
    """How many messages were looked at, of how many kinds, and what was wrong."""

    messages: int
    kinds: int
    faults: list[str]


async def conformance(sessions: int, seed: int) -> Conformance:
    """Hold all that we send in random sessions against the schema."""
    messages, kinds, faults = 0, set[str](), list[str]()
    chance = random.Random(seed)
    for number in range(sessions):
        mode = ("ask", "auto", "plan")[number % 3]
        with tempfile.TemporaryDirectory() as place, scene(Path(place), script) as made:
            async with AcpDoor(made, mode) as door:
                await _random_session(door, chance)
                messages += len(door.client.messages)
                kinds |= {_kind(message, door.client) for message in door.client.messages}
                faults += schema_faults(door.client)
    return Conformance(messages, len(kinds), faults)


async def _random_session(door: AcpDoor, chance: random.Random) -> None:
    key = {"sessionId": door.session}
    where: dict[str, Any] = {"cwd": str(door.scene.folder), "mcpServers": []}
    steps: list[tuple[str, dict[str, Any]]] = [
        ("session/prompt", key | {"prompt": [{"type": "text", "text": PROMPTS[1]}]}),
        ("session/prompt", key | {"prompt": [{"type": "text", "text": "/undo"}]}),
        ("session/prompt", key | {"prompt": [{"type": "text", "text": "/redo"}]}),
        ("session/prompt", key | {"prompt": [{"type": "text", "text": "/budget $1"}]}),
        ("session/prompt", key | {"prompt": [{"type": "text", "text": "/continue"}]}),
        ("session/prompt", key | {"prompt": []}),
        ("session/set_mode", key | {"modeId": "auto"}),
        ("session/set_mode", key | {"modeId": "none"}),
        ("session/set_config_option", key | {"configId": "model", "value": "smart"}),
        ("session/set_config_option", key | {"configId": "mode", "value": "ask"}),
        ("session/list", {"cwd": where["cwd"]}),
        ("session/load", key | where),
        ("session/resume", key | where),
        ("authenticate", {"methodId": "none"}),
        ("no/such", {}),
    ]
    await door.prompt(PROMPTS[0])
    for method, params in chance.sample(steps, len(steps)):
        with suppress(Exception):  # an error is a message, too
            await door.client.call(method, params)
    await door.client.call("session/close", key)
    with suppress(Exception):
        await door.client.call("session/delete", key)


def _kind(message: dict[str, Any], client: Editor) -> str:
    if message.get("method") == "session/update":
        return message["params"]["update"]["sessionUpdate"]
    kind = "error" if "error" in message else "result"
    return message.get("method") or f"{kind} {client.methods.get(message.get('id'))}"
