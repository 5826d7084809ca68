"""An agent at a terminal: how each is started there as a person would, with the settings that spare
its questions of the first start, and the scripted provider behind it."""

import json
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from campaigns.code_complaints.agents import AGENTS, Agent, Sage
from campaigns.code_complaints.bench import Bench, bench
from campaigns.terminal.tty import Tty, terminal

__all__ = ["SEATS", "Seat", "Seated", "Vega", "seated"]

TOP = Path(__file__).parents[2]


class Vega(Sage):
    """`vega code` of this source tree, at a terminal."""

    def __init__(self, program: Sequence[str] = ()) -> None:
        super().__init__()
        self._program = list(program) or [sys.executable, "-m", "vegakit", "code"]

    def program(self) -> Sequence[str] | None:
        return self._program

    def setup(self, home: Path, url: str) -> dict[str, str]:
        return {**super().setup(home, url), "PYTHONPATH": f"{TOP / 'src'}:{TOP}"}


class Seat(NamedTuple):
    """How an agent sits at a terminal: a sign that its prompt is there, its arguments, what is
    written before its first start, and keys that are pressed if a text is on the screen before."""

    sign: str
    words: Sequence[str] = ()
    prepare: Callable[[Path, Path], None] = lambda _home, _folder: None
    prompts: Sequence[tuple[str, str]] = ()


def _claude(home: Path, folder: Path) -> None:
    settings: dict[str, object] = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": ["sk-ant-scripted"[-20:]], "rejected": []},
        "projects": {str(folder): {"hasTrustDialogAccepted": True, "allowedTools": []}},
    }
    (home / ".claude.json").write_text(json.dumps(settings))


def _codex(home: Path, folder: Path) -> None:
    path = home / ".codex" / "config.toml"
    path.write_text(f'{path.read_text()}[projects."{folder}"]\ntrust_level = "trusted"\n')


def _gemini(home: Path, folder: Path) -> None:
    path = home / ".gemini" / "settings.json"
    settings = json.loads(path.read_text())
    settings["security"]["folderTrust"] = {"enabled": False}
    settings["ui"] = {"hideTips": True}
    path.write_text(json.dumps(settings))


SEATS: dict[str, Seat] = {
    "sage": Seat("\n >"),
    "claude": Seat(
        "\u276f",
        ("--model", "claude-sonnet-4-5"),
        _claude,
        (
            ("Yes, I trust", "\r"),
            ("Do you want to use this API key", "\x1b[A\r"),
            ("Press Enter", "\r"),
        ),
    ),
    "codex": Seat(
        "\u203a ", ("--dangerously-bypass-approvals-and-sandbox",), _codex, (("Press enter", "\r"),)
    ),
    "opencode": Seat("Ask anything"),
    "gemini": Seat(
        "Type your message",
        ("-m", "gemini-2.5-pro", "--approval-mode", "yolo", "--skip-trust"),
        _gemini,
    ),
    "pi": Seat("%/200k", ("--provider", "scripted", "--model", "m1")),
}


class Seated(NamedTuple):
    """An agent with its place, and the terminal where it can be started."""

    it: Bench
    tty: Tty

    def start(self, *words: str, **environment: str) -> None:
        """Start it as a person would."""
        program = self.it.agent.program()
        assert program is not None
        usual = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
        command = [*program, *SEATS[self.it.agent.name].words, *words]
        self.tty.start(command, self.it.folder, {**self.it.environment, **usual, **environment})


@contextmanager
def seated(agent: Agent, place: Path, columns: int = 100, lines: int = 30) -> Generator[Seated]:
    """Serve an agent in a new place, at a terminal."""
    with bench(agent, place) as it, terminal(columns, lines) as tty:
        SEATS[agent.name].prepare(it.home, it.folder)
        yield Seated(it, tty)


def installed() -> list[type[Agent]]:
    """Return the rivals that can be started here."""
    return [kind for name, kind in AGENTS.items() if name != "sage" and kind().program()]
