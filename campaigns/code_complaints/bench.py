"""A home, a workspace and the scripted provider for one agent, and what is seen of its runs.

The n-th request that offers tools gets the n-th answer of the script; requests without tools (for
titles, summaries) are side calls, get a short text, and use up no answer.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias, cast

from campaigns.code_complaints.agents import IN_USD, OUT_USD, Agent, Call, Mode, Order
from campaigns.code_complaints.watch import tree
from vegakit.conversation import Usage
from vegakit.testing import (
    Break,
    DropConnection,
    Failure,
    Hang,
    Provider,
    ProviderAnswer,
    ProviderReply,
    ProviderRequest,
    ProviderToolCall,
)

__all__ = ["Bench", "Ran", "Say", "bench", "edit", "prefix_kept", "read", "shell", "task", "write"]

WATCH = Path(__file__).with_name("watch.py")
USUAL_USAGE = Usage(1_000, 20)


class Say(NamedTuple):
    """An answer of the model. `cut` ends its stream after the text, without an end."""

    text: str = ""
    calls: Sequence[Call] = ()
    usage: Usage = USUAL_USAGE
    cut: bool = False
    gap_ms: int = 0


Answer: TypeAlias = str | Say | Failure | DropConnection | Hang


def shell(command: str) -> Call:
    """Return a call of the shell."""
    return Call("shell", {"command": command})


def read(path: str) -> Call:
    """Return a call that reads a file."""
    return Call("read", {"path": path})


def write(path: str, content: str) -> Call:
    """Return a call that writes a file."""
    return Call("write", {"path": path, "content": content})


def edit(path: str, old: str, new: str) -> Call:
    """Return a call that replaces a text."""
    return Call("edit", {"path": path, "old": old, "new": new})


def task(prompt: str, agent: str = "explore", **more: Any) -> Call:
    """Return a call of a sub-agent."""
    return Call("task", {"agent": agent, "prompt": prompt, **more})


class Ran(NamedTuple):
    """What became of a start of an agent. `left` are processes that outlived it by a second."""

    status: int
    out: str
    err: str
    killed: str
    left: list[str]
    seconds: float
    cpu_s: float
    peak_mb: float
    gone_s: float
    since_order_s: float

    @property
    def said(self) -> str:
        """Return all that it printed."""
        return self.out + self.err


class Bench:
    """One agent in an empty home and a small repository. Limits of time are multiplied by
    `patience`, for agents that are slow and machines that are busy."""

    patience: ClassVar[float] = 1.0

    def __init__(self, agent: Agent, place: Path) -> None:
        self.agent = agent
        self.home, self.folder, self.outside = (place / n for n in ("home", "work", "outside"))
        for folder in (self.home, self.folder, self.outside):
            folder.mkdir(parents=True)
        self._place, self._starts = place, 0
        self.answers: Sequence[Answer] = ()
        self.repeats = False
        self.summary = "ok"
        self.sub_agent: Callable[[ProviderRequest], Answer | None] = lambda _: None
        self.on_request: Callable[[int], None] = lambda _: None
        self.main: list[ProviderRequest] = []
        self.side: list[ProviderRequest] = []
        self.spent_usd = 0.0
        self.first_cpu_s = 0.0
        self.environment: dict[str, str] = {}
        self._watching: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    # The provider.

    def begin(self, url: str) -> None:
        """Write the settings of the agent, and make the workspace a repository."""
        self.files({"README.md": "A small project.\n"})
        self.environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "VEGA_TRUSTED_FOLDERS": str(self._place),
            "TMPDIR": str(self._place / "tmp"),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "SHELL": "/bin/bash",
            "NO_UPDATE_NOTIFIER": "1",
            "DO_NOT_TRACK": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            **self.agent.setup(self.home, url),
        }
        (self._place / "tmp").mkdir()
        self.git("init", "-q", "-b", "main")
        self.commit()

    def script(self, *answers: Answer, repeats: bool = False) -> None:
        """Say what the model answers; with `repeats` the last answer comes for ever."""
        self.answers, self.repeats = answers, repeats

    def choose(self, request: ProviderRequest) -> ProviderAnswer:
        """Answer a request by the script."""
        tools = _tools_of(request.body)
        with self._lock:
            said = self.sub_agent(request) if tools else Say(self.summary)
            if said is not None:
                self.side.append(request)
                return self._made(said, tools, request)
            self.main.append(request)
            number = len(self.main)
        if number == 1 and self._watching is not None:
            self.first_cpu_s = sum(row.cpu_s for row in tree(self._watching.pid).values())
        self.on_request(number)
        if number <= len(self.answers):
            return self._made(self.answers[number - 1], tools, request)
        return self._made(self.answers[-1] if self.repeats else "Nothing more.", tools, request)

    def _made(self, said: Answer, tools: Sequence[str], request: ProviderRequest) -> ProviderAnswer:
        if isinstance(said, str):
            said = Say(said)
        if not isinstance(said, Say):
            return said
        usage = said.usage
        self.spent_usd += (usage.input_tokens * IN_USD + usage.output_tokens * OUT_USD) / 1e6
        spelled = [self.agent.spelled(call, tools, self.folder) for call in said.calls]
        return ProviderReply(
            said.text,
            [ProviderToolCall(name, given) for name, given in spelled],
            usage=usage,
            gap_ms=said.gap_ms,
            breaks=Break(1, DropConnection()) if said.cut else None,
        )

    def told(self, number: int) -> str:
        """Return the n-th request as text, from 1; empty if there was none."""
        if number > len(self.main):
            return ""
        return json.dumps(self.main[number - 1].body, ensure_ascii=False)

    # The workspace.

    def files(self, files: Mapping[str, str | bytes]) -> None:
        """Write files into the workspace."""
        for name, content in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def git(self, *words: str) -> str:
        """Run git as the person does."""
        name = ["-c", "user.name=a", "-c", "user.email=a@example.invalid"]
        environment = {"PATH": os.environ["PATH"], "HOME": str(self._place)}
        ran = subprocess.run(
            ["git", *name, *words],
            cwd=self.folder,
            env={**environment, "GIT_CONFIG_GLOBAL": os.devnull},
            capture_output=True,
            text=True,
            check=True,
        )
        return ran.stdout

    def commit(self) -> None:
        """Commit all that is there."""
        self.git("add", "-A")
        self.git("commit", "-qm", "kept", "--allow-empty")

    def tree(self) -> dict[str, tuple[int, str]]:
        """Return every path of the workspace with mode and content, those of git apart."""
        found: dict[str, tuple[int, str]] = {}
        for path in sorted(self.folder.rglob("*")):
            name = path.relative_to(self.folder)
            if name.parts[0] == ".git":
                continue
            if path.is_symlink():
                what = f"link {path.readlink()}"
            elif path.is_file():
                what = hashlib.sha256(path.read_bytes()).hexdigest()
            else:
                what = "folder"
            found[str(name)] = (path.lstat().st_mode, what)
        return found

    # Starts.

    def ask(
        self,
        prompt: str,
        *,
        resume: bool = False,
        cap: str = "",
        mode: Mode = Mode.FREE,
        small: bool = False,
        limit_s: float = 90,
        when: Callable[[], bool] | None = None,
        order: str = "kill",
    ) -> Ran:
        """Start the agent, and wait for its end. Once `when` holds, `order` is given."""
        program = self.agent.program()
        assert program is not None
        words = self.agent.words(Order(prompt, resume, cap, mode, small))
        self._starts += 1
        result, *logs = (self._place / f"{n}{self._starts}" for n in ("result", "out", "err"))
        limit = str(limit_s * self.patience)
        command = [sys.executable, "-SI", str(WATCH), str(result), limit, *program, *words]
        with (
            logs[0].open("wb") as out,
            logs[1].open("wb") as err,
            subprocess.Popen(
                command,
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
                text=True,
            ) as watch,
        ):
            self._watching = watch
            self._wait(watch, when, order)
            self._watching = None
        seen = json.loads(result.read_text())
        out_text, err_text = (log.read_bytes().decode(errors="replace") for log in logs)
        return Ran(
            seen["status"],
            out_text,
            err_text,
            seen["killed"],
            seen["left"],
            seen["seconds"],
            seen["cpu_s"],
            seen["peak"] / 1e6,
            seen["gone_s"],
            seen["since_order_s"],
        )

    def _wait(
        self, watch: "subprocess.Popen[str]", when: Callable[[], bool] | None, order: str
    ) -> None:
        while when is not None and watch.poll() is None:
            if when():
                assert watch.stdin
                watch.stdin.write(f"{order}\n")
                watch.stdin.flush()
                break
            time.sleep(0.005)
        watch.wait()

    def run(self, command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        """Run a command as the person who owns the home, in the workspace."""
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )

    def start(self, command: Sequence[str]) -> "subprocess.Popen[str]":
        """Start a server of the agent."""
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def undo(self) -> str:
        """Take the last turn back, as the agent does it; return what it said."""
        return self.agent.undo(self, self.home)


def _tools_of(body: Mapping[str, Any]) -> list[str]:
    """Return the names of the tools that a request offers, of any wire."""
    names: list[str] = []
    for tool in body.get("tools") or ():
        inner = (
            tool.get("functionDeclarations") or tool.get("tools") or [tool.get("function") or tool]
        )
        names += [part.get("name") or part.get("type", "") for part in inner]
    return [name for name in names if name]


@contextmanager
def bench(agent: Agent, place: Path, kind: type[Bench] = Bench) -> Generator[Bench]:
    """Serve an agent in a new place, which is removed afterwards."""
    it = kind(agent, place)
    try:
        with Provider(it.choose).in_thread() as provider:
            it.begin(provider.url)
            yield it
    finally:
        shutil.rmtree(place, ignore_errors=True)


# The prefix of a request: what a provider has cached, and must not be asked to read anew.


_HEADS = ("tools", "system", "instructions", "systemInstruction")
_BODIES = ("messages", "input", "contents")


def prefix_kept(before: ProviderRequest, after: ProviderRequest) -> str:
    """Return where a later request first differs from the one before it, in the order in which
    providers cache: tools, system, message by message. Empty if it begins with all of it."""
    first, second = _parts(before.body), _parts(after.body)
    same = sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    )
    return "" if same == len(first) else first[same][0]


def _parts(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    heads = [(key, json.dumps(_unmarked(body[key]))) for key in _HEADS if key in body]
    messages = [
        (f"{key}[{at}]", json.dumps(_unmarked(message)))
        for key in _BODIES
        for at, message in enumerate(body.get(key) or ())
    ]
    return [*heads, *messages]


def _unmarked(part: Any) -> Any:
    """Leave out the marks of where a cached prefix ends, which move on with it."""
    if isinstance(part, dict):
        named = cast("dict[str, Any]", part)
        return {key: _unmarked(value) for key, value in named.items() if key != "cache_control"}
    return [_unmarked(each) for each in cast("list[Any]", part)] if isinstance(part, list) else part
