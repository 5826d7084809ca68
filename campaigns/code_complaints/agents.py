"""How each agent is installed in an empty home, pointed at the scripted provider, started, resumed
and undone, and how the calls of a trajectory are spelled in its own tools.

Every agent runs in the mode in which it works without asking, since nobody is there to be asked;
where its reach is tested Codex runs in its own sandbox, the only rival that has one here.
"""

import json
import os
import shlex
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, Protocol

__all__ = ["AGENTS", "Agent", "Call", "Commands", "Mode", "NotOfferedError", "Order", "Sage"]

IN_USD, OUT_USD = 3.0, 15.0
"""Per million tokens, for everybody who can be told a price."""
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vega-rivals"


class Commands(Protocol):
    """Commands in the home and the workspace of an agent."""

    def run(self, command: Sequence[str]) -> "subprocess.CompletedProcess[str]": ...
    def start(self, command: Sequence[str]) -> "subprocess.Popen[str]": ...


class NotOfferedError(Exception):
    """The agent has no such thing, so the trajectory says nothing about it."""


class Call(NamedTuple):
    """A call in the words of all agents: shell, read, write, edit, task; or a tool's own name."""

    tool: str
    given: Mapping[str, Any]


class Mode(StrEnum):
    """`FREE` has no boundary but the agent's own habits; `BOUNDED` has its best one that still
    works without a person; `USUAL` is what it does when no option says otherwise."""

    FREE = "free"
    BOUNDED = "bounded"
    USUAL = "usual"


class Order(NamedTuple):
    """What is asked of an agent: a prompt in a new session, or in the last one."""

    prompt: str
    resume: bool = False
    cap: str = ""
    mode: Mode = Mode.FREE
    small: bool = False
    """Whether the model's window is small, where an agent can be told of one."""


class Agent:
    """One agent. `session` names what is begun, so that it can be gone on with."""

    name = ""
    offers: frozenset[str] = frozenset()
    """Of: cap, undo, task, and window, a model whose window is small."""

    def __init__(self) -> None:
        self.session = str(uuid.uuid4())

    def program(self) -> Sequence[str] | None:
        """Return how it is started; None if it is not installed."""
        found = CACHE / self.name / "node_modules" / ".bin" / self.name
        return [str(found)] if os.access(found, os.X_OK) else None

    def setup(self, home: Path, url: str) -> dict[str, str]:
        """Write its settings into an empty home; return its environment."""
        raise NotImplementedError

    def words(self, order: Order) -> list[str]:
        """Return the arguments for an order."""
        raise NotImplementedError

    def spelled(self, call: Call, tools: Sequence[str], folder: Path) -> tuple[str, dict[str, Any]]:
        """Return a call in the agent's own tools."""
        raise NotImplementedError

    def undo(self, commands: Commands, home: Path) -> str:
        """Take the last turn back without a terminal, and return what it said."""
        raise NotOfferedError("no undo without a terminal")

    def version(self) -> str:
        """Return the version that is installed."""
        package = CACHE / self.name / "node_modules" / ".bin" / self.name
        for folder in package.resolve().parents:
            if (folder / "package.json").is_file():
                return str(json.loads((folder / "package.json").read_text()).get("version", "?"))
        return "?"


def _files(call: Call, folder: Path) -> str:
    path = str(call.given.get("path", ""))
    return path if path.startswith("/") else f"{folder}/{path}"


# Ours.


_SETTINGS = """
[models]
smart = "anthropic:loopback"
[providers.anthropic]
base_url = "{url}"
[providers.openai]
base_url = "{url}/v1"
[prices."anthropic:loopback"]
input = "${input:g}"
output = "${output:g}"
[prices."openai:gpt-4-32k"]
input = "${input:g}"
output = "${output:g}"
"""


class Sage(Agent):
    """`vega code`, from this source tree."""

    name = "sage"
    offers = frozenset({"cap", "undo", "task", "window"})

    def program(self) -> Sequence[str] | None:
        return [sys.executable, "-m", "vegakit", "code"]

    def setup(self, home: Path, url: str) -> dict[str, str]:
        settings = home / "config" / "vega" / "vega.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text(_SETTINGS.format(url=url, input=IN_USD, output=OUT_USD))
        source = str(Path(__file__).parents[2] / "src")
        return {
            "PYTHONPATH": source,
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_DATA_HOME": str(home / "data"),
            "ANTHROPIC_API_KEY": "any",
            "OPENAI_API_KEY": "any",
        }

    def words(self, order: Order) -> list[str]:
        again = ["--continue"] if order.resume else []
        # The budget is that of the session, so it is said once.
        cap = ["--budget", f"${order.cap}"] if order.cap and not order.resume else []
        model = ["--model", "openai:gpt-4-32k"] if order.small else []
        return ["-p", order.prompt, "--json", *again, *cap, *model]

    def spelled(self, call: Call, tools: Sequence[str], folder: Path) -> tuple[str, dict[str, Any]]:
        return call.tool, dict(call.given)

    def undo(self, commands: Commands, home: Path) -> str:
        ran = commands.run([sys.executable, "-m", "vegakit", "undo"])
        return f"exit {ran.returncode}: {(ran.stdout + ran.stderr).strip()[-200:]}"

    def version(self) -> str:
        top = Path(__file__).parents[2]
        ran = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=top,
            capture_output=True,
            text=True,
            check=False,
        )
        return ran.stdout.strip() or "this tree"


# The rivals.


class Claude(Agent):
    """Claude Code."""

    name = "claude"
    offers = frozenset({"cap", "undo", "task"})

    def setup(self, home: Path, url: str) -> dict[str, str]:
        switched_off = (
            "DISABLE_AUTOUPDATER DISABLE_TELEMETRY DISABLE_ERROR_REPORTING "
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING"
        )
        return {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "sk-ant-scripted",
            **dict.fromkeys(switched_off.split(), "1"),
        }

    def words(self, order: Order) -> list[str]:
        session = ["--resume" if order.resume else "--session-id", self.session]
        cap = ["--max-budget-usd", order.cap] if order.cap else []
        allowed = ["--allowedTools", "Bash", "Read", "Edit", "Write", "Task", "Agent"]
        return [
            *("-p", order.prompt, "--model", "claude-sonnet-4-5", "--output-format", "json"),
            *(*session, *cap, *(allowed if order.mode is not Mode.USUAL else [])),
        ]

    def spelled(self, call: Call, tools: Sequence[str], folder: Path) -> tuple[str, dict[str, Any]]:
        given, path = call.given, _files(call, folder)
        match call.tool:
            case "shell":
                return "Bash", {"command": given.get("command"), "description": "scripted"}
            case "read":
                return "Read", {"file_path": path}
            case "write":
                return "Write", {"file_path": path, "content": given["content"]}
            case "edit":
                words = {"old_string": given["old"], "new_string": given["new"]}
                return "Edit", {"file_path": path, **words}
            case "task":
                name = "Agent" if "Agent" in tools else "Task"
                kind = {"subagent_type": "general-purpose", "description": "scripted"}
                return name, {"prompt": given["prompt"], **kind}
            case other:
                return other, dict(given)

    def undo(self, commands: Commands, home: Path) -> str:
        kept = sorted(home.glob(f".claude/projects/*/{self.session}.jsonl"))
        if not kept:
            return "no session file"
        rows = [json.loads(line) for line in kept[0].read_text().splitlines()]
        users = [row for row in rows if row.get("type") == "user"]
        plain = [row for row in users if isinstance(row["message"]["content"], str)]
        first = (plain or users)[0]["uuid"]
        ran = commands.run(
            [*(self.program() or ()), "--resume", self.session, "--rewind-files", first]
        )
        return f"exit {ran.returncode}: {(ran.stdout + ran.stderr).strip()[-200:]}"


_CODEX = """model = "gpt-5.1-codex"
model_provider = "scripted"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
"""


class Codex(Agent):
    """Codex."""

    name = "codex"

    def setup(self, home: Path, url: str) -> dict[str, str]:
        (home / ".codex").mkdir()
        (home / ".codex" / "config.toml").write_text(_CODEX.format(url=url))
        return {"SCRIPTED_KEY": "x"}

    def words(self, order: Order) -> list[str]:
        reach = {
            Mode.FREE: ["--dangerously-bypass-approvals-and-sandbox"],
            Mode.BOUNDED: ["-c", "sandbox_mode=workspace-write"],
            Mode.USUAL: [],
        }
        options = ["--json", "--skip-git-repo-check", *reach[order.mode]]
        begun = ["exec", "resume", "--last"] if order.resume else ["exec"]
        return [*begun, *options, order.prompt]

    def spelled(self, call: Call, tools: Sequence[str], folder: Path) -> tuple[str, dict[str, Any]]:
        line = _as_shell(call)
        if line is None:
            return call.tool, dict(call.given)
        if "exec_command" in tools:
            # Without a time it comes back after 10 s, and says that the command still runs.
            return "exec_command", {"cmd": line, "yield_time_ms": 30_000}
        if "shell_command" in tools:
            return "shell_command", {"command": line}
        return "shell", {"command": ["bash", "-lc", line]}


def _as_shell(call: Call) -> str | None:
    """Return a call as a command line, for agents that have little else."""
    given, path = call.given, shlex.quote(str(call.given.get("path", "")))
    match call.tool:
        case "shell":
            return given.get("command")
        case "read":
            return f"cat {path}"
        case "write":
            return f"printf %s {shlex.quote(given['content'])} > {path}"
        case "edit":
            minus = "".join(f"-{line}\n" for line in given["old"].splitlines())
            plus = "".join(f"+{line}\n" for line in given["new"].splitlines())
            body = f"*** Update File: {given['path']}\n@@\n{minus}{plus}"
            return f"apply_patch <<'EOF'\n*** Begin Patch\n{body}*** End Patch\nEOF"
        case _:
            return None


class Opencode(Agent):
    """Opencode."""

    name = "opencode"
    offers = frozenset({"undo"})

    def setup(self, home: Path, url: str) -> dict[str, str]:
        model = {
            "name": "m1",
            "tool_call": True,
            "cost": {"input": IN_USD, "output": OUT_USD},
            "limit": {"context": 200_000, "output": 32_000},
        }
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "scripted",
            "options": {"baseURL": f"{url}/v1", "apiKey": "x"},
            "models": {"m1": model},
        }
        settings = {
            "autoupdate": False,
            "share": "disabled",
            "model": "scripted/m1",
            "small_model": "scripted/m1",
            "provider": {"scripted": provider},
        }
        folder = home / ".config" / "opencode"
        folder.mkdir(parents=True)
        (folder / "opencode.json").write_text(json.dumps(settings))
        parts = "AUTOUPDATE MODELS_FETCH LSP_DOWNLOAD DEFAULT_PLUGINS"
        return {f"OPENCODE_DISABLE_{part}": "1" for part in parts.split()}

    def words(self, order: Order) -> list[str]:
        free = [] if order.mode is Mode.USUAL else ["--auto"]
        again = ["--continue"] if order.resume else []
        return ["run", *free, "--format", "json", *again, order.prompt]

    def spelled(self, call: Call, tools: Sequence[str], folder: Path) -> tuple[str, dict[str, Any]]:
        given, path = call.given, _files(call, folder)
        match call.tool:
            case "shell":
                return "bash", {"command": given.get("command"), "description": "scripted"}
            case "read":
                return "read", {"filePath": path}
            case "write":
                return "write", {"filePath": path, "content": given["content"]}
            case "edit":
                words = {"oldString": given["old"], "newString": given["new"]}
                return "edit", {"filePath": path, **words}
            case other:
                return other, dict(given)

    def undo(self, commands: Commands, home: Path) -> str:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]

        def call(path: str, body: object = None) -> Any:
            data = None if body is None else json.dumps(body).encode()
            kind = {"content-type": "application/json"}
            request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, kind)
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.loads(answer.read())

        with commands.start([*(self.program() or ()), "serve", "--port", str(port)]) as serving:
            try:
                return self._revert(call)
            finally:
                serving.kill()

    def _revert(self, call: Callable[..., Any]) -> str:
        for _ in range(600):
            try:
                sessions = call("/session")
                break
            except (OSError, urllib.error.URLError):
                time.sleep(0.3)
        else:
            raise NotOfferedError("its server, which undoes, did not start in three minutes")
        messages = call(f"/session/{sessions[0]['id']}/message")
        users = [m["info"]["id"] for m in messages if m["info"]["role"] == "user"]
        call(f"/session/{sessions[0]['id']}/revert", {"messageID": users[0]})
        return "reverted to before the first message"


class Gemini(Agent):
    """Gemini CLI."""

    name = "gemini"

    def setup(self, home: Path, url: str) -> dict[str, str]:
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "privacy": {"usageStatisticsEnabled": False},
            "general": {"enableAutoUpdate": False, "checkpointing": {"enabled": True}},
            "telemetry": {"enabled": False},
        }
        (home / ".gemini").mkdir()
        (home / ".gemini" / "settings.json").write_text(json.dumps(settings))
        return {
            "GEMINI_API_KEY": "x",
            "GOOGLE_GEMINI_BASE_URL": url,
            "GEMINI_TELEMETRY_ENABLED": "false",
        }

    def words(self, order: Order) -> list[str]:
        free = [] if order.mode is Mode.USUAL else ["--approval-mode", "yolo", "--skip-trust"]
        again = ["--resume", "latest"] if order.resume else []
        return ["-p", order.prompt, "-m", "gemini-2.5-pro", *free, "-o", "json", *again]

    def spelled(self, call: Call, tools: Sequence[str], folder: Path) -> tuple[str, dict[str, Any]]:
        given, path = call.given, _files(call, folder)
        match call.tool:
            case "shell":
                words = {"command": given.get("command"), "description": "scripted"}
                return "run_shell_command", words
            case "read":
                return "read_file", {"file_path": path}
            case "write":
                return "write_file", {"file_path": path, "content": given["content"]}
            case "edit":
                words = {"old_string": given["old"], "new_string": given["new"]}
                return "replace", {"file_path": path, "instruction": "scripted", **words}
            case other:
                return other, dict(given)


class Pi(Agent):
    """The coding agent pi."""

    name = "pi"

    def setup(self, home: Path, url: str) -> dict[str, str]:
        cost = {"input": IN_USD, "output": OUT_USD, "cacheRead": 0.3, "cacheWrite": 3.75}
        model = {"id": "m1", "contextWindow": 200_000, "maxTokens": 32_000, "cost": cost}
        provider = {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": "x"}
        folder = home / ".pi" / "agent"
        folder.mkdir(parents=True)
        models = {"providers": {"scripted": {**provider, "models": [model]}}}
        (folder / "models.json").write_text(json.dumps(models))
        return {"PI_OFFLINE": "1", "PI_TELEMETRY": "0", "PI_SKIP_VERSION_CHECK": "1"}

    def words(self, order: Order) -> list[str]:
        again = ["--continue"] if order.resume else []
        chosen = ["--provider", "scripted", "--model", "m1"]
        return ["-p", "--mode", "json", *chosen, *again, order.prompt]

    def spelled(self, call: Call, tools: Sequence[str], folder: Path) -> tuple[str, dict[str, Any]]:
        given = call.given
        match call.tool:
            case "shell":
                return "bash", {"command": given.get("command")}
            case "edit":
                edit = {"oldText": given["old"], "newText": given["new"]}
                return "edit", {"path": given["path"], "edits": [edit]}
            case other:
                return other, dict(given)


AGENTS: dict[str, type[Agent]] = {
    kind.name: kind for kind in (Sage, Claude, Codex, Opencode, Gemini, Pi)
}
