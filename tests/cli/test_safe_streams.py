"""Texts of strangers in every position that they control, against the commands that print them: no
character of theirs steers a terminal."""

import json
import re
import shlex
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.sage.scene import Scene, calls, scene
from vegakit.cli import COMMANDS
from vegakit.cli.look import LivePlace, Tone, guard, look_of
from vegakit.testing import ProviderAnswer, ProviderReply, ProviderRequest

HOSTILE = "\x1b]0;owned\x07\x9b31m\x1b[35m\u202eabc\u2066\u200b\x7f\r"
RAW = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b-\u200f\ufeff]")
OURS = re.compile(r"\x1b\[(?:0|1|2|3[1236])(?:;[0-9]+)*m")


ASKS = """
agent A {
    model smart
}

fn main(text: str) {
    print(A <- text);
    print("\\u{1b}]0;owned\\u{7}\\u{9b}\\u{202e}");
}
"""


def answer(request: ProviderRequest) -> ProviderAnswer:
    """A model that calls a tool with hostile arguments, and then says more of the kind."""
    has_called = any("tool_result" in str(message) for message in request.body["messages"])
    if has_called or not request.body.get("tools"):
        return ProviderReply(f"Said {HOSTILE}")
    printed = "printf '\\033]0;owned\\007\\302\\233\\342\\200\\256'"
    named = ("shell", {"command": f"printf {shlex.quote(HOSTILE)}"})
    return calls(("shell", {"command": printed}), named, text=HOSTILE)


@pytest.fixture
def it(tmp_path: Path) -> Generator[Scene]:
    with scene(tmp_path, answer) as made:
        yield made


def raw(it: Scene, command: str, *words: str) -> list[str]:
    """The control characters that a command prints, also as JSON and in colour."""
    ran = it.here(*words, command=command)
    return RAW.findall(OURS.sub("", ran.stdout + ran.stderr))


def test_a_safe_stream_escapes_all_but_our_own_codes(tmp_path: Path) -> None:
    """A stranger cannot spell the mark of our codes: it differs in each process."""
    with (tmp_path / "out").open("w+", newline="") as file:
        out = guard(file)
        look = look_of(out)
        assert guard(out) is out
        assert look.mark
        painted = type(look)(colour=True, mark=look.mark).paint(f"a{HOSTILE}", Tone.BAD)
        LivePlace(out).draw([painted])
        out.flush()
        file.seek(0)
        text = file.read()
    assert text.startswith("\x1b[?25l\x1b[?2026h\r\x1b[J\x1b[31ma\\u001b]0;owned\\u0007\\u009b31m")
    assert text.endswith("\\u202eabc\\u2066\\u200b\\u007f\\u000d\x1b[0m\n\x1b[?2026l")
    assert look.mark not in text


def test_json_keeps_its_meaning(it: Scene) -> None:
    """An escaped character is the same value to whoever reads the JSON."""
    it.folder.joinpath("a.vega").write_text(
        f"fn main() {{\n    print({json.dumps(HOSTILE)});\n}}\n"
    )
    ran = it.here("--json", "a.vega", command="check")
    assert not RAW.search(ran.stdout)
    json.loads(ran.stdout)


@pytest.mark.parametrize("command", [*COMMANDS, HOSTILE, f"{HOSTILE}.vega"])
def test_the_command_line_is_quoted(it: Scene, command: str) -> None:
    """Errors echo what was typed, which a script may have from a stranger."""
    for words in ([HOSTILE], ["--json", HOSTILE], [f"--{HOSTILE}"], ["--color=always", HOSTILE]):
        if [command, *words[-1:]] != ["init", HOSTILE]:
            assert raw(it, command, *words) == [], words


def test_names_and_texts_of_files_are_quoted(it: Scene) -> None:
    name = HOSTILE.replace("/", "")
    it.folder.joinpath(f"{name}.vega").write_text("print(1);  // expect: 2\n")
    it.folder.joinpath("b.vega").write_text(f'fn main() {{ print("{HOSTILE}"); }}\n')
    it.folder.joinpath("c.vega").write_text(
        'fn main() { print("\\u{1b}]0;x\\u{7}\\u{9b}\\u{202e}"); }\n'
    )
    it.folder.joinpath("d.vsp").write_text(f'[node]\nnode_id = "{HOSTILE}"\n')
    for words in (
        ["test", "."],
        ["test", "-v", "."],
        ["test", "--json", "."],
        ["check", "."],
        ["check", "--color=always", "."],
        ["fmt", "--check", "."],
        ["node", "check", "."],
        *([each, f"{name}.vega"] for each in ("explain", "cost", "run", "build", "disasm")),
        *([each, "b.vega"] for each in ("explain", "cost", "run", "build")),
        *([each, "c.vega"] for each in ("explain", "run", "disasm", "cost")),
        ["run", "--json", "c.vega"],
        ["explain", "--dot", f"{name}.vega"],
    ):
        assert raw(it, *words) == [], words


def test_settings_are_quoted(it: Scene) -> None:
    spelled = json.dumps(HOSTILE)
    it.folder.joinpath("vega.toml").write_text(
        f"[models]\nsmart = {spelled}\n{spelled} = {spelled}\n[limits]\n{spelled} = 1\n"
    )
    for words in (["config"], ["doctor"], ["models"], ["mcp", "list"], ["config", "--json"]):
        assert raw(it, *words) == [], words
    it.folder.joinpath("vega.toml").write_text(
        f"[mcp.{spelled}]\ncommand = [{spelled}]\n[mcp.a]\nurl = {spelled}\n"
    )
    for words in (["config"], ["doctor"], ["mcp", "list"], ["code", "-p", "x"]):
        assert raw(it, *words) == [], words


def test_runs_and_sessions_are_quoted(it: Scene) -> None:
    """What a model says, what tools print, and the command of a run, when it is told again."""
    it.folder.joinpath("a.vega").write_text(ASKS)
    ran = it.vega("a.vega", HOSTILE, command="run")
    assert ran.returncode == 0
    assert RAW.findall(ran.stdout + ran.stderr) == []
    assert raw(it, "code", "-p", HOSTILE, "--mode", "auto", "--session", "one") == []
    for words in (
        ["code", "-p", HOSTILE, "--mode", "auto", "--json"],
        ["code", "--list"],
        ["code", "--list", "--json"],
        ["code", "--export", "one"],
        ["code", "--resume", "one", "-p", HOSTILE, "--color=always"],
        ["runs"],
        ["runs", "--json"],
        ["trace"],
        ["trace", "--json"],
        ["undo", "--list"],
        ["gc", "--dry-run"],
    ):
        assert raw(it, *words) == [], words


def test_the_name_of_a_session_has_a_pattern(it: Scene) -> None:
    it.events("-p", "Go.", "--session", "Fix_login-2.1")
    for name in (HOSTILE, "-x", "a b", "a" * 65, "../a", "a\n"):
        for words in ((f"--session={name}", "-p", "x"), ("--rename", "Fix_login-2.1", name)):
            ran = it.here(*words)
            said = " ".join(ran.stderr.split())
            is_option = words[-1] == "-x"
            assert is_option or "take letters, digits, '.', '_' and '-', 64 at most" in said
            assert ran.returncode == 1 + is_option
