"""One task played by `vega code`: a scripted model on a socket, and a kill at any step.

The model keeps nothing: what it answers follows from the conversation it is sent, so that it goes
on after a kill as a real one does. When it reads of a call that nobody knows whether it was done,
it looks first, and makes the call again only if it was not.

    answer n ──▶ all results known ──▶ answer n + 1
       ▲  └────▶ unknown: look ──▶ done ──▶ answer n + 1
       └──────────────────────────┘ not done: make those calls again
"""

import json
import re
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct
from tests.sage.scene import Scene, scene

from campaigns.code_tasks.task import CALLS, Call, Task, apply_calls, tree_of
from vegakit.testing import (
    DropConnection,
    ProviderAnswer,
    ProviderReply,
    ProviderRequest,
    ProviderToolCall,
    RequestStatus,
)

__all__ = ["Kill", "kills_of", "oracle_faults", "play"]

_UNKNOWN = "nobody knows whether it was done"
_LINE = re.compile(r"^ *\d+\t(.*)$", re.MULTILINE)
_SESSION = "task"


class Kill(NamedTuple):
    """A moment for SIGKILL: when the nth request has come in, or the nth tool call has begun."""

    at: str
    number: int


def kills_of(task: Task) -> list[Kill]:
    """Return every step of a task."""
    requests = [Kill("request", number) for number in range(len(task.rounds) + 1)]
    calls = [Kill("call", number) for number in range(sum(map(len, task.rounds)))]
    return [*requests, *calls]


# The model.


class Result(NamedTuple):
    """What came of a tool call, as the model reads it."""

    text: str
    is_error: bool

    @property
    def is_failure(self) -> bool:
        code = re.search(r"^exit code (\d+)$", self.text, re.MULTILINE)
        return self.is_error or bool(code and code[1] != "0")


History: TypeAlias = list[list[Result]]


class Model:
    """Answers by the steps of a task."""

    def __init__(self, task: Task) -> None:
        self._rounds, self._answer = task.rounds, task.answer
        self.faults: list[str] = []

    def reply(self, history: History) -> ProviderReply:
        """Return what follows on what came of all answers before."""
        results = iter(history)
        for number, calls in enumerate(self._rounds):
            tags = [f"{number}.{index}" for index in range(len(calls))]
            unknown = list(zip(calls, tags, strict=True))
            while unknown:
                told = next(results, None)
                if told is None:
                    return ProviderReply("", [_sent(call, tag) for call, tag in unknown])
                unknown = self._unknown(unknown, told)
                if looks := [look for call, _ in unknown if (look := _look(call))]:
                    told = next(results, None)
                    if told is None:
                        return ProviderReply("I look what was done.", looks)
                    unknown = _undone(unknown, told)
                unknown = [(call, f"{tag}+") for call, tag in unknown]
        return ProviderReply(self._answer)

    def _unknown(self, made: list[tuple[Call, str]], told: list[Result]) -> list[tuple[Call, str]]:
        found = list[tuple[Call, str]]()
        for (call, tag), result in zip(made, told, strict=True):
            if _UNKNOWN in result.text:
                found.append((call, tag))
            elif result.is_failure is not call.fails:
                self.faults.append(f"{call.tool} at {tag}: {result.text[:300]}")
        return found


def _undone(unknown: list[tuple[Call, str]], told: list[Result]) -> list[tuple[Call, str]]:
    results = iter(told)
    return [
        (call, tag) for call, tag in unknown if not _look(call) or not _is_done(call, next(results))
    ]


def _is_done(call: Call, seen: Result) -> bool:
    """Return whether what was looked at shows the effect of a call."""
    given, text = call.arguments, "".join(f"{line}\n" for line in _LINE.findall(seen.text))
    match call.tool:
        case "write":
            return not seen.is_error and text == given["content"]
        case "edit":
            return given["new"] in text and (
                given["old"] not in text or given["old"] in given["new"]
            )
        case _:
            return not seen.is_failure


def _sent(call: Call, tag: str) -> ProviderToolCall:
    """Return the call as it is sent: a command notes that it runs."""
    given = call.arguments
    if call.tool == "shell":
        given = {**given, "command": f"echo {tag} >> {CALLS}\n{given['command']}"}
    return ProviderToolCall(call.tool, given)


def _look(call: Call) -> ProviderToolCall | None:
    """Return the call that shows whether another was done; a command without one is run again."""
    if call.tool == "shell":
        return ProviderToolCall("shell", {"command": call.done}) if call.done else None
    return ProviderToolCall("read", {"path": call.arguments["path"]})


class _Part(Struct):
    type: str
    id: str = ""
    tool_use_id: str = ""
    text: str = ""
    content: "str | list[_Part]" = ""
    is_error: bool = False


class _Message(Struct):
    content: str | list[_Part]


class _Body(Struct):
    messages: list[_Message]


def history_of(raw: bytes) -> History:
    """Return the results of each answer of a conversation, in the order of its calls."""
    found, results = list[list[str]](), dict[str, Result]()
    for message in msgspec.json.decode(raw, type=_Body).messages:
        parts = [] if isinstance(message.content, str) else message.content
        made = [part.id for part in parts if part.type == "tool_use"]
        found += [made] if made else []
        for part in parts:
            if part.type == "tool_result":
                inner = part.content
                text = inner if isinstance(inner, str) else "".join(each.text for each in inner)
                results[part.tool_use_id] = Result(text, part.is_error)
    return [[results[name] for name in made] for made in found]


# The agent.


def play(task: Task, exported: Path, kill: Kill | None = None) -> list[str]:
    """Solve a task, killed once if it is said, and return what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        bare = task.begin(place / "bare")
        faults, model = apply_calls(task, bare), Model(task)
        stage = Stage(model, kill)
        with scene(place, stage.choose) as it:
            task.begin(it.folder)
            faults += stage.run(it, task.instruction)
            faults += model.faults
            faults += _differences(tree_of(it.folder), tree_of(bare))
            faults += _twice(it, stage.in_flight)
            if verdict := task.verdict(it.folder, exported):
                faults.append(f"not solved: {verdict}")
    named = f"{task.name}{f', killed at {kill.at} {kill.number}' if kill else ''}"
    return [f"{named}: {fault}" for fault in faults]


class Stage:
    """The process of a session, and when it is killed."""

    def __init__(self, model: Model, kill: Kill | None) -> None:
        self._model, self._kill = model, kill
        self._requests = self._calls = 0
        self.in_flight = -1
        self._life: subprocess.Popen[str] | None = None

    def choose(self, request: ProviderRequest) -> ProviderAnswer:
        """Answer a request, or kill the one that sent it."""
        number, self._requests = self._requests, self._requests + 1
        if self._kill == Kill("request", number) and self._life is not None:
            self._life.send_signal(signal.SIGKILL)
            return DropConnection()
        return self._model.reply(history_of(request.raw))

    def run(self, it: Scene, prompt: str) -> Iterator[str]:
        """Run the session to its end, and yield what is not as it should be."""
        first = ["-p", prompt, "--session", _SESSION]
        ending = self._live(it, first)
        if self._kill is not None:
            if ending:
                yield f"it came to its end before the kill: {ending}"
                return
            self._kill, self.in_flight = None, self._requests - 1
            ending = self._live(it, ["--resume", _SESSION])
        if ending.get("reason") != "done":
            yield f"it ended with {ending}"

    def _live(self, it: Scene, words: list[str]) -> dict[str, Any]:
        """Return the last event of a life, if it has one that ends it."""
        ending = dict[str, Any]()
        with it.start(*words, "--json") as self._life:
            assert self._life.stdout is not None
            assert self._life.stderr is not None
            for line in self._life.stdout:
                if not line.endswith("\n"):
                    break
                event: dict[str, Any] = json.loads(line)
                ending = event if event["type"] == "end" else dict[str, Any]()
                if event["type"] == "tool_began":
                    number, self._calls = self._calls, self._calls + 1
                    if self._kill == Kill("call", number):
                        self._life.send_signal(signal.SIGKILL)
                        return {}
            said = self._life.stderr.read()
        return ending or ({"stderr": said} if said else {})


def _differences(one: dict[str, str], other: dict[str, str]) -> Iterator[str]:
    for path in sorted(one.keys() | other.keys()):
        if one.get(path) != other.get(path):
            yield f"{path} is {one.get(path)!r:.200} instead of {other.get(path)!r:.200}"


def _twice(it: Scene, in_flight: int) -> Iterator[str]:
    """Yield commands that ran twice, and answers that were bought twice. The one that was in flight
    at the kill may not have arrived."""
    noted = it.folder / CALLS
    ran = Counter(noted.read_text(encoding="utf-8").split() if noted.exists() else ())
    yield from (f"command {tag} ran {count} times" for tag, count in ran.items() if count > 1)
    bought = Counter(
        each.raw
        for number, each in enumerate(it.provider.requests)
        if each.status is RequestStatus.ANSWERED and number != in_flight
    )
    yield from (f"an answer was bought {n} times" for n in bought.values() if n > 1)


def oracle_faults(task: Task, exported: Path) -> list[str]:
    """Return what is wrong with a task itself: its verifier must reject the tree that it begins
    with and accept the solution, which is what the steps lead to."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        solved, bare = task.begin(place / "solved"), task.begin(place / "bare")
        faults = [] if task.verdict(solved, exported) else ["the start tree is accepted"]
        task.solve(solved, exported)
        if verdict := task.verdict(solved, exported):
            faults.append(f"the solution is rejected: {verdict}")
        faults += apply_calls(task, bare)
        faults += _differences(tree_of(bare), tree_of(solved))
    return [f"{task.name}: {fault}" for fault in faults]
