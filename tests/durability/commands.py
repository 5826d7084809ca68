"""`vega run` and `vega resume` as a person types them: real processes, real sockets, one home."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from tests.patience import wait_until
from vegakit.testing import Provider

__all__ = ["Home"]

_PATIENCE_S = 120.0
"""Against a hang only: nothing is measured by it."""

_SETTINGS = """
[models]
fast = "openai:test"
[providers.openai]
base_url = "{url}/v1"
[prices."openai:test"]
input = "$1"
output = "$1"
"""


class Home:
    """The home and the project folder of one person, beside one provider."""

    def __init__(self, folder: Path, provider: Provider, settings: str = _SETTINGS) -> None:
        self.provider = provider
        self.folder = folder / "project"
        self.folder.mkdir()
        self._home = folder / "home"
        self.settings = self._home / ".config" / "vega" / "vega.toml"
        self.settings.parent.mkdir(parents=True)
        self.configure(settings)

    @property
    def data(self) -> Path:
        return self._home / ".local" / "share" / "vega"

    def configure(self, *texts: str) -> None:
        url = self.provider.url
        self.settings.write_text("".join(texts or (_SETTINGS,)).replace("{url}", url))

    def add(self, text: str) -> None:
        self.configure(_SETTINGS, text)

    def write(self, source: str, name: str = "main.vega") -> str:
        (self.folder / name).write_text(source)
        return name

    def start(
        self,
        *words: str,
        env: Mapping[str, str] | None = None,
        out: int | IO[str] = subprocess.PIPE,
    ) -> "subprocess.Popen[str]":
        variables = {
            "PATH": os.environ["PATH"],
            "HOME": str(self._home),
            "VEGA_TRUSTED_FOLDERS": str(self.folder),
            "OPENAI_API_KEY": "a-key-of-a-test",
            **(env or {}),
        }
        return subprocess.Popen(
            [sys.executable, *words],
            cwd=self.folder,
            env={name: value for name, value in variables.items() if value},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
        )

    def vega(self, *words: str, env: Mapping[str, str] | None = None) -> "Ended":
        return ended(self.start("-m", "vegakit", *words, env=env))

    def python(self, *words: str) -> "Ended":
        return ended(self.start(*words))

    def killed(self, after: int, *words: str) -> "Ended":
        """Start it, and kill it as soon as the provider has received so many requests."""
        return self.stopped(lambda: len(self.provider.requests) >= after, *words)

    def stopped(
        self, when: Callable[[], bool], *words: str, by: signal.Signals = signal.SIGKILL
    ) -> "Ended":
        process = self.start(*words)
        wait_until(lambda: when() or process.poll() is not None, _PATIENCE_S)
        process.send_signal(by)
        return ended(process)

    @property
    def asked(self) -> list[str]:
        """What the provider was asked, in the order in which it came."""
        return [request.text for request in self.provider.requests]

    def runs(self) -> list[dict[str, Any]]:
        return json.loads(self.vega("runs", "--json").out)


class Ended:
    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err

    def __repr__(self) -> str:
        return f"status {self.status}\n{self.out}\n--- stderr\n{self.err}"


def ended(process: "subprocess.Popen[str]") -> Ended:
    out, err = process.communicate(timeout=_PATIENCE_S)
    return Ended(process.returncode, out, err)
