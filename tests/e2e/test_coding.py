"""A session of the coding agent with a real small model, as processes: the way from the prompt over
a tool that the model chose to its last word, to the bill and to undo. What it says is its own
affair."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.plain_requests import BOUNDED, BRIEF
from tests.e2e.test_small_model import url

__all__ = ["url"]

pytestmark = pytest.mark.timeout(600)
"""It takes seconds; a machine that does much else reads ten times as slowly."""

MODEL = f"openai-chat:smollm2{BOUNDED}{BRIEF}"
SETTINGS = """
[models]
smart = "{model}"
[providers.openai]
base_url = "{url}/v1"
[prices."{model}"]
input = "$3"
output = "$15"
"""


class Person:
    """Someone with a home, a project and the small model."""

    def __init__(self, place: Path, url: str) -> None:
        self.folder, home = place / "work", place / "home"
        self.folder.mkdir()
        (self.folder / "notes.txt").write_text("one\ntwo\n")
        (home / "config" / "vega").mkdir(parents=True)
        written = SETTINGS.format(model=MODEL, url=url)
        (home / "config" / "vega" / "vega.toml").write_text(written)
        self._environment = {
            **{name: v for name, v in os.environ.items() if not name.startswith("VEGA_")},
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_DATA_HOME": str(home / "data"),
            "OPENAI_API_KEY": "any",
        }

    def vega(self, *words: str) -> str:
        ran = subprocess.run(
            [sys.executable, "-m", "vegakit", *words],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def code(self, *words: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.vega("code", *words, "--json").splitlines()]


def test_a_session_from_the_prompt_to_undo(tmp_path: Path, url: str) -> None:
    """The model calls a tool and then says something; it is paid for, listed and taken back."""
    person = Person(tmp_path, url)
    events = person.code("-p", "Read notes.txt.", "--session", "small")
    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["session", "turn"]
    assert kinds.index("tool_began") < kinds.index("tool_ended") < kinds.index("text")
    assert events[-1]["reason"] == "done"
    assert events[-1]["text"].endswith(".")
    (listed,) = json.loads(person.vega("code", "--list", "--json"))
    assert (listed["state"], listed["turns"]) == ("done", 1)
    assert listed["spent_usd"] == events[-1]["spent_usd"] > 0
    assert events[-1]["text"] in person.vega("code", "--export", "small")
    done = json.loads(person.vega("undo", "--json"))
    assert done["sessions"] == [{"session": "small", "turns": [1]}]
    assert (person.folder / "notes.txt").read_text() == "one\ntwo\n"
