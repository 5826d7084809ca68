"""Commands, sub-agents, hooks and tools as files: used after trust, loaded between turns, the same
after a kill; nothing of them is wider than the session."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.sage.scene import Scene, calls, scene
from vegakit.sage import SageCommand, SageSubAgent
from vegakit.sage.extensions.catalog import Catalog
from vegakit.sage.extensions.records import NO_EXTENSIONS, SageHook, filled_command, typed_command

TOOL = """
description = "Count the lines of a file."
command = ["wc", "-l", "{path}"]
capabilities = ["process::exec"]
[parameters.path]
type = "string"
"""
COMMAND = """---
description: Look at a file.
arguments: PATH
---
Look at $ARGUMENTS and say what it does.
"""
AGENT = """---
description: Counts things.
tools: read, count
budget: 10%
---
Count what is asked.
"""
GUARD = """
when = "before_tool"
tools = ["shell"]
command = ["sh", "-c", "grep -q 'rm -rf' && { echo 'no rm -rf here' >&2; exit 1; }; exit 0"]
"""


def write(folder: Path, **files: str) -> None:
    """Files by `kind__name__ending`."""
    for name, text in files.items():
        kind, stem, ending = name.split("__")
        place = folder / kind / f"{stem}.{ending}"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


def home(it: Scene) -> Path:
    return Path(it.environment["XDG_CONFIG_HOME"]) / "vega"


def trust(it: Scene) -> None:
    ran = it.here("--yes", command="trust")
    assert ran.returncode == 0, ran.stderr


def ends(events: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [e for e in events if e["type"] == "tool_ended" and e["name"] == name]


def test_nothing_of_a_project_is_used_before_trust(tmp_path: Path) -> None:
    """The hook would make a file; the tool, the command and the agent are not told."""
    said = [calls(("shell", {"command": "true"})), "Done."]
    with scene(tmp_path, {"/look": said, "Look at": said}) as it:
        it.distrust()
        mark = 'when = "before_tool"\nwrites = true\ncommand = ["touch", "ran"]\n'
        write(
            it.folder / ".vega",
            tools__count__toml=TOOL,
            commands__look__md=COMMAND,
            agents__counter__md=AGENT,
            hooks__mark__toml=mark,
        )
        ran = it.here("-p", "/look a.py")
        assert ".vega/hooks/mark.toml" in ran.stderr
        assert "type: vega trust" in ran.stderr
        assert not (it.folder / "ran").exists()
        first = json.dumps(it.bodies[0])
        assert "/look a.py" in first
        assert "counter" not in first
        assert "count" not in [tool["name"] for tool in it.bodies[0]["tools"]]
        trust(it)
        assert it.here("-p", "/look a.py").returncode == 0
        assert (it.folder / "ran").exists()


def test_files_of_a_project_work_after_trust(tmp_path: Path) -> None:
    script = {
        "Look at": [calls(("count", {"path": "a.py"})), "Done."],
        "how many": [calls(("count", {"path": "a.py"})), "two"],
        "Delegate": [calls(("task", {"agent": "counter", "prompt": "how many"})), "Done."],
        "Remove": [calls(("shell", {"command": "rm -rf src"})), "Refused."],
    }
    with scene(tmp_path, script) as it:
        (it.folder / "a.py").write_text("1\n2\n")
        write(
            it.folder / ".vega",
            tools__count__toml=TOOL,
            commands__look__md=COMMAND,
            agents__counter__md=AGENT,
            hooks__guard__toml=GUARD,
        )
        trust(it)
        events = it.events("-p", "/look a.py")
        assert "Look at a.py and say what it does." in json.dumps(it.bodies[0])
        assert "2 a.py" in ends(events, "count")[0]["result"]
        events = it.events("-p", "Delegate.")
        assert "two" in ends(events, "task")[0]["result"]
        asked = next(r for r in it.provider.requests if "how many" in r.text)
        assert set(asked.tools) == {"read", "count"}
        (it.folder / "src").mkdir()
        events = it.events("-p", "Remove it.")
        refused = ends(events, "shell")[0]
        assert refused["is_error"]
        assert "the hook guard of .vega/hooks/guard.toml refused this call" in refused["result"]
        assert "no rm -rf here" in refused["result"]
        assert (it.folder / "src").is_dir()


def test_a_tool_without_the_right_to_write_writes_nothing(tmp_path: Path) -> None:
    """What it declares is what the sandbox gives it; with `fs::write` undo takes it back."""
    reads = """
description = "Make a file."
command = ["touch", "{path}"]
capabilities = ["process::exec"]
[parameters.path]
type = "string"
"""
    writes = reads.replace('["process::exec"]', '["process::exec", "fs::write"]')
    script = {"": [calls(("lie", {"path": "a"}), ("make", {"path": "b"})), "Done."]}
    with scene(tmp_path, script) as it:
        write(home(it), tools__lie__toml=reads, tools__make__toml=writes)
        events = it.events("-p", "Go.")
        assert "exit code 0" not in ends(events, "lie")[0]["result"]
        assert not (it.folder / "a").exists()
        assert (it.folder / "b").exists()
        assert it.here(command="undo").returncode == 0
        assert not (it.folder / "b").exists()


def test_a_hook_cannot_allow_what_the_mode_refuses(tmp_path: Path) -> None:
    allow = 'when = "before_tool"\ncommand = ["echo", "{\\"allow\\": true}"]\n'
    script = {"": [calls(("write", {"path": "a", "content": "a"})), "Done."]}
    with scene(tmp_path, script) as it:
        write(home(it), hooks__allow__toml=allow)
        events = it.events("-p", "Go.", "--mode", "plan")
        assert ends(events, "write")[0]["is_error"]
        assert not (it.folder / "a").exists()


def test_a_hook_that_fails_refuses_and_one_after_a_call_is_heard(tmp_path: Path) -> None:
    script = {"": [calls(("shell", {"command": "echo hi"}), ("todo", {"items": []})), "Done."]}
    late = 'when = "before_tool"\ntools = ["todo"]\ntimeout_s = 1\ncommand = ["sleep", "30"]\n'
    after = 'when = "after_tool"\ntools = ["shell"]\ncommand = ["echo", "formatted"]\n'
    last = 'when = "turn_end"\ncommand = ["echo", "the turn is over"]\n'
    with scene(tmp_path, script) as it:
        write(home(it), hooks__late__toml=late, hooks__after__toml=after, hooks__last__toml=last)
        events = it.events("-p", "Go.")
        assert "did not end within 1 s" in ends(events, "todo")[0]["result"]
        told = ends(events, "shell")[0]["result"]
        assert "hook after: " in told
        assert "formatted" in told
        assert "hook last: the turn is over" in events[-1]["notes"]


def test_a_changed_file_is_loaded_and_a_broken_one_kept(tmp_path: Path) -> None:
    """In one session, turn by turn; where nothing changed the request begins the same."""
    with scene(tmp_path, {"": "Done."}) as it:
        write(home(it), tools__count__toml=TOOL, commands__look__md=COMMAND)
        it.events("-p", "One.", "--session", "s")
        it.events("--resume", "s", "-p", "Two.")
        assert it.bodies[0]["tools"] == it.bodies[1]["tools"]
        write(home(it), tools__count__toml=TOOL.replace("the lines", "all lines"))
        it.events("--resume", "s", "-p", "Three.")
        assert "all lines" in json.dumps(it.bodies[2]["tools"])
        write(home(it), tools__count__toml="command = [", commands__look__md="\xff" * 10)
        ran = it.here("--resume", "s", "-p", "Four.")
        assert it.bodies[3]["tools"] == it.bodies[2]["tools"]
        assert "tool count" in ran.stderr
        assert "is used as it was before" in ran.stderr
        (home(it) / "tools" / "count.toml").unlink()
        it.events("--resume", "s", "-p", "Five.")
        assert it.bodies[4]["tools"] != it.bodies[3]["tools"]


def test_a_changed_file_of_a_project_is_trusted_anew(tmp_path: Path) -> None:
    with scene(tmp_path, {"": "Done."}) as it:
        it.distrust()
        write(it.folder / ".vega", tools__count__toml=TOOL)
        trust(it)
        it.events("-p", "One.", "--session", "s")
        write(it.folder / ".vega", tools__count__toml=TOOL.replace("wc", "rm"))
        ran = it.here("--resume", "s", "-p", "Two.")
        assert it.bodies[1]["tools"] == it.bodies[0]["tools"]
        assert "you have not accepted it as it is now" in ran.stderr


def test_a_changed_guard_of_a_project_refuses_until_it_is_trusted_anew(tmp_path: Path) -> None:
    """A pull that touches a guard must not switch it off for the next session."""
    script = {"": [calls(("shell", {"command": "touch made"})), "Done."] * 2}
    with scene(tmp_path, script) as it:
        it.distrust()
        write(it.folder / ".vega", hooks__guard__toml=GUARD)
        trust(it)
        write(it.folder / ".vega", hooks__guard__toml=f"{GUARD}# a comment\n")
        it.events("-p", "One.")
        assert not (it.folder / "made").exists()
        assert "came or changed since its folder was trusted" in json.dumps(it.bodies[1])
        trust(it)
        it.events("-p", "Two.")
        assert (it.folder / "made").exists()


def test_a_killed_turn_goes_on_with_what_it_began_with(tmp_path: Path) -> None:
    script = {
        "Go": [
            calls(("count", {"path": "a"})),
            calls(("shell", {"command": "sleep 60"})),
            calls(("count", {"path": "a"})),
            "Done.",
        ]
    }
    with scene(tmp_path, script) as it:
        (it.folder / "a").write_text("1\n")
        write(home(it), tools__count__toml=TOOL)
        began = lambda e: e["type"] == "tool_began" and e["name"] == "shell"  # noqa: E731
        it.killed("-p", "Go.", "--session", "s", when=began)
        write(home(it), tools__count__toml=TOOL.replace("Count the lines", "Changed"))
        events = it.events("--resume", "s")
        assert events[-1]["reason"] == "done", events[-1]
        assert it.bodies[-1]["tools"] == it.bodies[0]["tools"]
        it.events("--resume", "s", "-p", "Go.")
        assert "Changed" in json.dumps(it.bodies[-1]["tools"])


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("/look a.py", "Look at a.py; a.py"),
        ("/look $ARGUMENTS", "Look at $ARGUMENTS; $ARGUMENTS"),
        ("/look", "Look at ; "),
        ("/look $(rm -rf /) `x`", "Look at $(rm -rf /) `x`; $(rm"),
    ],
)
def test_arguments_are_filled_in_once_and_never_run(typed: str, said: str) -> None:
    name, arguments = typed_command(typed)
    assert name == "look"
    assert filled_command(SageCommand("look", "Look at $ARGUMENTS; $1"), arguments) == said


def test_a_path_is_no_command() -> None:
    assert typed_command("/etc/hosts is wrong") == ("", "")


def test_no_name_is_taken_twice() -> None:
    """Built-ins win, then whoever came first; both are told."""
    catalog = Catalog(["read", "task"], NO_EXTENSIONS)
    catalog.add(SageCommand("undo", "x", source="a"))
    catalog.add(SageSubAgent("explore", "x", "x", source="a"))
    catalog.add(SageCommand("go", "x", source="a"))
    catalog.add(SageCommand("go", "y", source="b"))
    catalog.add(SageSubAgent("more", "x", "x", tools=("shell",), source="a"))
    catalog.add(SageSubAgent("rich", "x", "x", budget="900%", source="a"))
    made, notes = catalog.made()
    assert [*made.commands] == ["go"]
    assert made.commands["go"].text == "x"
    assert not made.agents
    assert "command undo of a is left out: the built-in command /undo has this name" in notes[0]
    assert "agent explore of a is left out: the built-in agent explore has this name" in notes[1]
    assert "command go of b is left out: a has this name" in notes[2]
    assert "agent rich of a is left out: budget '900%'" in notes[3]
    assert "asks for the tool shell, which sub-agents of this session do not have" in notes[4]


def test_a_hook_needs_a_command() -> None:
    catalog = Catalog([], NO_EXTENSIONS)
    catalog.add(SageHook("a", "before_tool", source="b"))  # pyright: ignore[reportArgumentType]
    assert "it has no command" in catalog.made()[1][0]


def test_commands_are_listed_and_slips_are_told(tmp_path: Path) -> None:
    with scene(tmp_path, {"": "Done."}) as it:
        write(home(it), commands__review__md=COMMAND)
        ran = it.here("-p", "/revew a.py")
        assert ran.returncode == 1
        assert "there is no command /revew" in ran.stderr
        assert "did you mean review?" in ran.stderr
        assert not it.bodies
