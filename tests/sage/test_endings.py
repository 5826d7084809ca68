"""Turns that do not go by themselves: answers that are cut, providers that fail or are silent,
signals, and what a person and a model are told then."""

import json
import re
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE_S
from tests.sage.scene import calls, scene
from tests.sage.test_code import wait_for
from vegakit.conversation import Finish
from vegakit.testing.provider import ProviderReply, ProviderToolCall

LONG = ProviderReply(
    "I write it.",
    [ProviderToolCall("write", {"path": "big.py", "content": "x = 1"})],
    finish=Finish.LENGTH,
)


# Files that a person, or a command, makes while a command runs.


def test_the_person_is_told_of_files_that_were_renamed_or_left(tmp_path: Path) -> None:
    """What the command planted has another name; what the person saved meanwhile stays."""
    command = "mkdir -p sub/.vscode; touch sub/.vscode/x up; while [ -e up ]; do sleep 0.05; done"
    with scene(tmp_path, [calls(("shell", {"command": command})), "Done."]) as it:
        with it.start("-p", "Go.") as life:
            wait_for(it.folder / "up")
            (it.folder / ".vscode" / "settings.json").write_text("{}")
            (it.folder / "up").unlink()
            _, told = life.communicate(timeout=4 * PATIENCE_S)
        assert (it.folder / ".vscode" / "settings.json").read_text() == "{}"
        assert re.search(r"note: .*set aside.*\.vscode in .*/sub, now \.vscode\.set-aside-", told)
        assert re.search(r"note: .*made outside .* left as it is: \.vscode\n", told)


# Answers that are cut.


def test_a_cut_answer_is_told_to_the_model_in_the_same_turn(tmp_path: Path) -> None:
    """Nothing of it is done; the model goes on in smaller steps."""
    small = calls(("write", {"path": "big.py", "content": "x = 2"}))
    with scene(tmp_path, [LONG, small, "Done."]) as it:
        ran = it.here("-p", "Write it.")
        assert (ran.returncode, ran.stdout) == (0, "Done.\n"), ran.stderr
        assert (it.folder / "big.py").read_text() == "x = 2"
        *_, said, told = it.bodies[1]["messages"]
        assert "I write it." in json.dumps(said)
        assert "cut at 8,000 tokens" in json.dumps(told)
        assert {body["max_tokens"] for body in it.bodies} == {8_000}


def test_an_answer_that_is_always_cut_ends_the_turn_and_says_what_to_type(tmp_path: Path) -> None:
    """The option that is named lets the session go on, which keeps it."""

    def answer(request: Any) -> Any:
        return LONG if request.body["max_tokens"] < 16_000 else "Done."

    with scene(tmp_path, answer) as it:
        ran = it.here("-p", "Write it.", "--session", "s")
        assert ran.returncode == 1
        assert len(it.bodies) == 4
        assert "vega code --resume s --max-tokens 16000 -p 'Go on.'" in ran.stderr
        assert "add a prompt" in it.here("--resume", "s", "--max-tokens", "16000").stderr
        ran = it.here("--resume", "s", "--max-tokens", "16000", "-p", "Go on.")
        assert (ran.returncode, ran.stdout) == (0, "Done.\n"), ran.stderr
        assert "stopped: error (OutputTruncated)" in json.dumps(it.bodies[-1])
        assert it.here("--resume", "s", "-p", "More.").returncode == 0
        assert it.bodies[-1]["max_tokens"] == 16_000
        assert it.here("-p", "x", "--max-tokens", "0").returncode == 2


# A project that brings its own answers.


def test_a_project_does_not_answer_for_the_model_unless_it_is_trusted(tmp_path: Path) -> None:
    """Whoever wrote it would say what the agent says, and what it runs."""
    with scene(tmp_path, "Mine.") as it:
        says = it.folder / "evil.json"
        says.write_text(json.dumps(["It is safe."]))
        (it.folder / "vega.toml").write_text('[models]\nsmart = "scripted:evil.json"\n')
        ran = it.here("-p", "Is it safe?")
        assert ran.returncode == 1
        assert "sets models.smart" in ran.stderr
        assert "vega config trust" in ran.stderr
        assert it.here("trust", command="config").returncode == 0
        assert it.here("-p", "Is it safe?").stdout == "It is safe.\n"
        ran = it.here("-p", "And now?", "--model", "scripted:evil.json")
        assert ran.stdout == "It is safe.\n"
        assert not it.bodies
