"""A workspace, a provider on a socket that answers by a script, and `vega code` as a process."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.patience import PATIENCE_S, wait_until
from vegakit.cli import main
from vegakit.sage.undo.windows import SLACK_NS
from vegakit.testing import Provider, ProviderReply, ProviderToolCall, Script

SETTINGS = """
[models]
smart = "anthropic:loopback"
[providers.anthropic]
base_url = "{url}"
[prices."anthropic:loopback"]
input = "$1"
output = "$5"
"""


def calls(*made: tuple[str, Mapping[str, Any]], text: str = "") -> ProviderReply:
    """An answer that calls tools."""
    return ProviderReply(text, [ProviderToolCall(name, given) for name, given in made])


class Scene:
    """`home` holds the settings and the data of a user, `folder` is the workspace."""

    def __init__(self, place: Path, provider: Provider) -> None:
        self.provider = provider
        self.folder, home = place / "work", place / "home"
        self.folder.mkdir()
        (home / "config" / "vega").mkdir(parents=True)
        self._settings = home / "config" / "vega" / "vega.toml"
        self._settings.write_text(SETTINGS.format(url=provider.url))
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("VEGA_", "COVERAGE"))},
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_DATA_HOME": str(home / "data"),
            "ANTHROPIC_API_KEY": "any",
            "VEGA_TRUSTED_FOLDERS": str(place),
        }

    def distrust(self) -> None:
        """Trust no folder any more."""
        self.environment.pop("VEGA_TRUSTED_FOLDERS", None)

    def settings(self, more: str) -> None:
        """Add to the settings of the user."""
        self._settings.write_text(self._settings.read_text() + more)

    def start(self, *words: str, command: str = "code") -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "vegakit", command, *words],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @contextmanager
    def inside(self) -> Generator[None]:
        """As that user in that folder."""
        with patch.dict(os.environ, self.environment, clear=True), chdir(self.folder):
            yield

    def here(self, *words: str, command: str = "code") -> "subprocess.CompletedProcess[str]":
        """The same command in this process, which is quicker."""
        out, err = StringIO(), StringIO()
        with self.inside(), redirect_stdout(out), redirect_stderr(err):
            try:
                status = main([command, *words])
            except SystemExit as ended:
                status = int(str(ended.code))
        return subprocess.CompletedProcess(words, status, out.getvalue(), err.getvalue())

    def vega(self, *words: str, command: str = "code") -> "subprocess.CompletedProcess[str]":
        with self.start(*words, command=command) as life:
            out, err = life.communicate(timeout=4 * PATIENCE_S)
        return subprocess.CompletedProcess(words, life.returncode, out, err)

    def events(self, *words: str, status: int = 0) -> list[dict[str, Any]]:
        """What it says as JSON."""
        ran = self.here(*words, "--json")
        assert ran.returncode == status, ran.stderr
        return [json.loads(line) for line in ran.stdout.splitlines()]

    def killed(self, *words: str, when: Callable[[dict[str, Any]], bool]) -> None:
        """Kill it as soon as an event fits; what its tools started goes with it."""
        with self.start(*words, "--json") as life:
            assert life.stdout is not None
            for line in life.stdout:
                if when(json.loads(line)):
                    break
            life.send_signal(signal.SIGKILL)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [request.body for request in self.provider.requests]

    def results(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        """The tool results of a request, as the model reads them."""
        return [
            part
            for message in body["messages"]
            if isinstance(message["content"], list)
            for part in message["content"]
            if part["type"] == "tool_result"
        ]


def pass_slack() -> None:
    """Wait until the stamp of a file that is written now is surely later than what was before: the
    clock of a file system is coarse, and `undo` allows for that."""
    past = time.time_ns() + 5 * SLACK_NS
    wait_until(lambda: time.time_ns() > past)


@contextmanager
def scene(place: Path, script: Script) -> Generator[Scene]:
    with Provider(script).in_thread() as provider:
        yield Scene(place, provider)
